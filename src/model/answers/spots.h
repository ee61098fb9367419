/* spots.h: the lines of a program that its reader can change, each with all that is allocated below
 * it and below no other of them. Which line a stack belongs to is told in spots.c. */
#ifndef AG_SPOTS_H
#define AG_SPOTS_H

#include "model/profile.h"

struct ag_spot {
    struct ag_metrics metrics; /* of its stacks */
    uint32_t frame;            /* of the profile */
};
/* All of them, in no order; the profile keeps them. Every stack that passes the filters is of one,
 * so their sums are the profile's. 0 or negative errno. */
int ag_profile_spots(struct ag_profile *profile, const struct ag_spot **ret_spots, size_t *ret_n);

/* Do the stacks of nearly all that SPOT, a number of theirs, has in use at the end go through
 * FRAME, beyond their own? */
bool ag_profile_spot_goes_through(struct ag_profile *profile, size_t spot, uint32_t frame);

#endif
