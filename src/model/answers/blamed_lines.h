/* blamed_lines.h: attributes each stack to one line of the program that the reader of a report can
 * change (its blamed line), and sums the stacks by line. blamed_lines.c explains how the line is
 * chosen. */
#ifndef AG_BLAMED_LINES_H
#define AG_BLAMED_LINES_H

#include <stdbool.h>

#include "model/profile.h"

struct ag_blamed_line {
    struct ag_metrics metrics; /* the sum over the stacks with this blamed line */
    uint32_t frame;            /* a frame of the profile, with function, file and line */
};
/* Returns all blamed lines, in no particular order. The profile owns the array. Every stack that
 * the filters select belongs to exactly one line, so the metrics of all lines add up to those of
 * the profile. Returns 0 or a negative errno. */
int ag_profile_blamed_lines(struct ag_profile *profile, const struct ag_blamed_line **ret_lines,
                            size_t *ret_n);

/* Returns the blamed line of ROW, a row of ag_profile_stacks (model/profile.h); NULL: the line
 * could not be determined. */
const struct ag_frame *ag_profile_blamed_frame(struct ag_profile *profile,
                                               const struct ag_stack_row *row);

/* Shortens ("folds") the stacks of a profile for people. From now on each stack begins at its
 * blamed line; the frames that this line called (wrappers and libraries) are left out. A code
 * address is also left out if all of its frames (one, or several inlined functions) belong to the C
 * library, to a language's library or to a runtime, unless a stack has no other frames. The sums of
 * the profile do not change; the own sums of sites and trees (without callees) are then those of
 * the blamed lines. The results of earlier queries about stacks, sites, trees and lines become
 * invalid. *ret_is_folded: whether a frame was left out that a shown frame called. Returns 0 or a
 * negative errno. */
int ag_profile_fold(struct ag_profile *profile, bool *ret_is_folded);

/* Returns which frames ag_profile_fold leaves out, without leaving them out: by place (places.h),
 * the number of its innermost frames that are left out of all stacks. So the page can contain all
 * frames, with a mark for those that are left out. The profile owns the array. Returns 0 or a
 * negative errno. */
int ag_profile_left_out(struct ag_profile *profile, const uint32_t **ret_left_out);

/* Whether at least 90 % of the bytes that BLAMED_LINE (an index) has in use at the end were
 * allocated by stacks that contain FRAME. */
bool ag_profile_blamed_line_goes_through(struct ag_profile *profile, size_t blamed_line,
                                         uint32_t frame);

/* Who owns the source code of a frame. The reader of a report can change the program's own code,
 * but not the code of the compiler, of the C library, or of a runtime (virtual machine). */
enum ag_frame_owner {
    AG_OWNER_SYSTEM,  /* the C library, a runtime, or the library of a language */
    AG_OWNER_UNKNOWN, /* no debug information */
    AG_OWNER_READER,
};
/* FRAME: a frame of PROFILE. */
enum ag_frame_owner ag_frame_owner(const struct ag_profile *profile, const struct ag_frame *frame);

#endif
