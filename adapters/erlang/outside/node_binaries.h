/* node_binaries.h: counts the binaries to which a process refers; see node_binaries.c. */
#ifndef AG_NODE_BINARIES_H
#define AG_NODE_BINARIES_H

#include "node.h"

struct node_binaries {
    uint64_t n, bytes; /* bytes: of the binaries, without the headers of their blocks */
};
/* Counts the binaries outside of the process' heap to which it refers. PROCESS: a copy of the
 * process structure that node_process_is_sound accepts. Returns 0; or a negative errno, for example
 * because the process changed during each attempt to read its references; then *ret_sum is
 * undefined. */
int node_count_binaries(struct node *node, const struct node_process *process,
                        struct node_binaries *ret_sum);

#endif
