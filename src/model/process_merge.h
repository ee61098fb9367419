/* process_merge.h: several processes as one profile: everything that reads a profile reads it. */
#ifndef AG_PROCESS_MERGE_H
#define AG_PROCESS_MERGE_H

#include "model/profile.h"

/* Takes the PARTS over: they are closed with the answer, or now where it fails. Peaks are each
 * process's own highest moment, added up (so that all views agree); times count from the start of
 * the earliest. 0 or -ENOMEM. */
int ag_profile_merge(struct ag_profile *const *parts, size_t n_parts,
                     struct ag_profile **ret_profile);

#endif
