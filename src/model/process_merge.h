/* process_merge.h: merges the profiles of several processes into one profile, which has the same
 * functions as the profile of one process. */
#ifndef AG_PROCESS_MERGE_H
#define AG_PROCESS_MERGE_H

#include "model/profile.h"

/* Takes ownership of PARTS, the profiles of the processes: they are closed with the result, or at
 * once if merging fails. A merged peak is the sum of the processes' own peaks, which they reach at
 * different moments; so all views agree. Times count from the start of the earliest process.
 * Returns 0 or -ENOMEM. */
int ag_profile_merge(struct ag_profile *const *parts, size_t n_parts,
                     struct ag_profile **ret_profile);

#endif
