/* process_merge.h: merges several processes to one profile, which can be used like any other. */
#ifndef AG_PROCESS_MERGE_H
#define AG_PROCESS_MERGE_H

#include "model/profile.h"

/* Takes over the PARTS: they are closed with the result, or now if merging fails. Peaks are each
 * process's own highest moment, summed (so that all views agree); times count from the start of the
 * earliest. Returns 0 or -ENOMEM. */
int ag_profile_merge(struct ag_profile *const *parts, size_t n_parts,
                     struct ag_profile **ret_profile);

#endif
