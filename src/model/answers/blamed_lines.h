/* blamed_lines.h: the lines of a program that its reader can change, each with all that is
 * allocated below it and below no other of them. Which line a stack belongs to is told in
 * blamed_lines.c. */
#ifndef AG_BLAMED_LINES_H
#define AG_BLAMED_LINES_H

#include "model/profile.h"

struct ag_blamed_line {
    struct ag_metrics metrics; /* of its stacks */
    uint32_t frame;            /* of the profile */
};
/* All of them, in no order; the profile keeps them. Every stack that passes the filters is of one,
 * so their sums are the profile's. 0 or negative errno. */
int ag_profile_blamed_lines(struct ag_profile *profile, const struct ag_blamed_line **ret_lines,
                            size_t *ret_n);

/* Do the stacks of nearly all that SPOT, a number of theirs, has in use at the end go through
 * FRAME, beyond their own? */
bool ag_profile_blamed_line_goes_through(struct ag_profile *profile, size_t blamed_line,
                                         uint32_t frame);

#endif
