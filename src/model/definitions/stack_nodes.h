/* stack_nodes.h: the stack tree of a trace, renumbered: nodes 0, 1, 2 ... with parents before
 * children.
 *
 * A trace names nodes by the numbers of the recorder, below 2^28. It defines parents first; a node
 * whose parent it never defined becomes the outermost of an incomplete stack. So there are no
 * cycles, whatever the trace contains, and a loop over rising or falling numbers visits parents
 * before or after their children.
 *
 * Node 0 is AG_ROOT_NOT_KEPT, in every trace: the stack of blocks whose own could not be kept is
 * one frame, "[stack not kept]", in every view. */
#ifndef AG_STACK_NODES_H
#define AG_STACK_NODES_H

#include <stdbool.h>

#include "base/stack_tree.h"
#include "format/decode.h"
#include "table/index_map.h"

enum { AG_STACK_DEPTH_MOST = 65536 }; /* deeper nodes are dropped: their stacks are cut */

/* A parent is a node, or one of these: the walk ended, by enum ag_root. */
#define AG_NODE_ROOT(root) (UINT32_MAX - (root))
#define AG_IS_ROOT(parent) ((parent) >= AG_NODE_ROOT(AG_ROOT_LAST))
#define AG_NODE_OF_NOT_KEPT 0u
#define AG_NODE_NONE UINT32_MAX

struct ag_stack_node {
    uint32_t parent; /* < own number, or AG_NODE_ROOT */
    uint32_t site;   /* index into sites */
    uint32_t depth;  /* frames from here outward, at least 1 */
    uint32_t root;   /* enum ag_root: how the walk ended */
};
struct ag_stack_site { /* a pc where frames stood */
    uint64_t pc;
    uint32_t image; /* id of the trace */
};
struct ag_stack_leaf {    /* type and label of the blocks of a stack */
    uint32_t node;        /* of the stack: a node, or AG_NODE_ROOT */
    uint32_t type, label; /* numbers of the trace, 0: none */
};
/* Maps the trace's numbers of nodes to ours. Like index_map.h, but for keys of 32 bits: 8 bytes per
 * slot and a load of up to 3/4, since a trace may have millions of nodes. */
struct ag_node_ids { /* zero-initialize */
    uint64_t *slots; /* id << 32 | node + 1; 0: empty */
    uint32_t bits;   /* log2 of the number of slots */
    size_t count;
};

struct ag_stack_nodes { /* zero-initialize, then init */
    struct ag_stack_node *nodes;
    size_t count;
    struct ag_stack_site *sites;
    size_t n_sites;
    uint32_t last_id; /* of the newest node */
    struct ag_node_ids by_id;
    struct ag_index_map by_site;
    struct ag_stack_leaf *leaves;
    size_t n_leaves;
    struct ag_index_map by_leaf; /* id of the trace -> leaf */
};

int ag_stack_nodes_init(struct ag_stack_nodes *nodes); /* 0 or -ENOMEM */
void ag_stack_nodes_done(struct ag_stack_nodes *nodes);
int ag_stack_nodes_add(struct ag_stack_nodes *nodes, const struct ag_node *node); /* 0 or -ENOMEM */
/* ID will be looked up or added soon: prefetches its slot. */
void ag_stack_nodes_expect(const struct ag_stack_nodes *nodes, uint32_t id);
/* The node of a stack's id, or AG_NODE_ROOT when it has no frame (or the trace does not know it).
 */
uint32_t ag_stack_nodes_find(const struct ag_stack_nodes *nodes, uint32_t stack);
/* Type and label of the blocks of a stack's id; node is what ag_stack_nodes_find says. */
struct ag_stack_leaf ag_stack_nodes_leaf(const struct ag_stack_nodes *nodes, uint32_t stack);
/* How a stack ended: one of enum ag_root. */
uint32_t ag_stack_nodes_root(const struct ag_stack_nodes *nodes, uint32_t node);

#endif
