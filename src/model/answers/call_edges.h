/* call_edges.h: callers and callees among the counted functions: for each pair, the sum of what the
 * callee did for the caller, over all paths. */
#ifndef AG_CALL_EDGES_H
#define AG_CALL_EDGES_H

#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"

/* Calls and own_* are as ag_profile_callers has them: recursion is folded, the caller is the one
 * from outside. acc_* is what the callee had with all that it called, of the caller's paths that
 * are below no other call of the caller: the callees of a function have together what it has in
 * all, less what these paths did themselves. */
struct ag_call_edge {
    uint32_t caller,
        callee; /* rows of ag_profile_functions; caller UINT32_MAX: called by nothing */
    uint64_t calls, own_words, own_ns, acc_words, acc_ns;
};
/* Ordered by callee, then caller. The caller of this frees *ret_edges. 0 or -ENOMEM. */
int ag_profile_call_edges(struct ag_profile *profile, struct ag_call_edge **ret_edges,
                          size_t *ret_count);

#endif
