/* call_difference.h: compares the function counters of two profiles (the calls, words and times
 * that runtimes count for each function), to show what grew and what shrank.
 *
 * Functions are matched by runtime, image, name and the base name of the file. If several functions
 * of a profile have the same runtime, image, name and file, they are matched in the order of their
 * lines, because lines move from version to version. So each function of a profile is in exactly
 * one row, and all counts are those of ag_profile_functions (functions.h). */
#ifndef AG_CALL_DIFFERENCE_H
#define AG_CALL_DIFFERENCE_H

#include "model/answers/functions.h"

struct ag_call_difference_row {
    /* a frame of the second profile if that profile has the function, else of the first */
    const struct ag_frame *frame;
    bool is_before, is_after; /* whether the function was counted in the first profile, and in the
                               * second */
    struct ag_call_counts before, after;
};
struct ag_call_difference {
    const struct ag_functions *before, *after; /* all functions and totals of the first and of the
                                                * second profile */
    struct ag_call_difference_row *rows;
    size_t n_rows;
};

/* The result is valid until one of the profiles is closed. 0 or -ENOMEM. */
int ag_call_difference_new(struct ag_profile *before, struct ag_profile *after,
                           struct ag_call_difference **ret_difference);
struct ag_call_difference *ag_call_difference_free(struct ag_call_difference *difference);

#endif
