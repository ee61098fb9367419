/* process_merge.h: merges the profiles of several processes into one profile, to which all
 * functions for the profile of one process can be applied. */
#ifndef AG_PROCESS_MERGE_H
#define AG_PROCESS_MERGE_H

#include "model/profile.h"

/* Takes ownership of PARTS, the profiles of the processes: they are closed with the result, or by
 * this function if merging fails. In all views, the peak of the result is the sum of the peaks of
 * the processes, although the processes reach their peaks at different moments. Times count from
 * the start of the earliest process. Returns 0 or -ENOMEM. */
int ag_profile_merge(struct ag_profile *const *parts, size_t n_parts,
                     struct ag_profile **ret_profile);

#endif
