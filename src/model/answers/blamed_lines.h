/* blamed_lines.h: the lines of a program that its reader can change, each with everything that is
 * allocated below it and below no other of them. blamed_lines.c explains which line a stack belongs
 * to. */
#ifndef AG_BLAMED_LINES_H
#define AG_BLAMED_LINES_H

#include "model/profile.h"

struct ag_blamed_line {
    struct ag_metrics metrics; /* of its stacks */
    uint32_t frame;            /* of the profile */
};
/* All of them, in no order; owned by the profile. Every stack that passes the filters belongs to
 * one, so their sums are the profile's. Returns 0 or a negative errno. */
int ag_profile_blamed_lines(struct ag_profile *profile, const struct ag_blamed_line **ret_lines,
                            size_t *ret_n);

/* Whether nearly all that the blamed line SPOT (its index) has in use at the end was allocated by
 * stacks that go through FRAME, beyond their own line. */
bool ag_profile_blamed_line_goes_through(struct ag_profile *profile, size_t blamed_line,
                                         uint32_t frame);

/* Whose a frame is: the readers of a report can change their own, and not those of the compiler or
 * the C library. */
enum ag_frame_owner {
    AG_OWNER_SYSTEM,  /* the C library, a language's own */
    AG_OWNER_UNKNOWN, /* no debug information */
    AG_OWNER_READER,
};
enum ag_frame_owner ag_frame_owner(const struct ag_frame *frame);

#endif
