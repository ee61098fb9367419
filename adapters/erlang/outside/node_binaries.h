/* node_binaries.h: counts the binaries to which a process refers; see node_binaries.c. */
#ifndef AG_NODE_BINARIES_H
#define AG_NODE_BINARIES_H

#include "node.h"

struct node_binaries {
    uint64_t n, bytes; /* bytes: of the binaries, without the headers of their blocks */
};
/* Returns 0; or a negative errno, for example because the process changed each time its list was
 * read. PROCESS: a sound copy. *ret_sum is undefined on failure. */
int node_count_binaries(struct node *node, const struct node_process *process,
                        struct node_binaries *ret_sum);

#endif
