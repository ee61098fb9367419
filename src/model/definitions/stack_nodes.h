/* stack_nodes.h: the stack tree of a trace. A node is a frame with a link to the node of its caller
 * (its parent). A stack is identified by its innermost node. The nodes are renumbered 0, 1, 2 ...
 * so that parents have smaller numbers than children.
 *
 * The ids of nodes in a trace are numbers below 2^28, which the recorder (allogram's code in the
 * profiled process) assigned. A trace defines a parent before its children. A node whose parent was
 * not defined before becomes the outermost frame of an incomplete stack. So there are no cycles,
 * whatever the trace contains, and a loop over rising or falling numbers visits parents before or
 * after their children.
 *
 * Node 0 of the tree is for AG_ROOT_NOT_KEPT: the stack of blocks whose own stack could not be
 * stored for lack of memory. Every view shows this stack as one frame, "[stack not kept]". */
#ifndef AG_STACK_NODES_H
#define AG_STACK_NODES_H

#include "base/stack_tree.h"
#include "format/decode.h"
#include "table/index_map.h"

/* Nodes deeper than this are dropped, so a deeper stack lacks its innermost frames. */
enum { AG_STACK_DEPTH_MOST = 65536 };

/* A parent is the number of a node, or AG_NODE_ROOT(root). If the parent is AG_NODE_ROOT(root), the
 * node is the outermost of its stack, and ROOT (enum ag_root of base/stack_tree.h) says how the
 * walk of the stack ended. */
#define AG_NODE_ROOT(root) (UINT32_MAX - (root))
#define AG_IS_ROOT(parent) ((parent) >= AG_NODE_ROOT(AG_ROOT_LAST))
#define AG_NODE_OF_NOT_KEPT 0u
#define AG_NODE_NONE UINT32_MAX
enum { AG_AGENT_IMAGES_MOST = 4 };

struct ag_stack_node {
    /* number of the parent, smaller than the node's own number, or AG_NODE_ROOT(...) */
    uint32_t parent;
    uint32_t site;  /* index into sites */
    uint32_t depth; /* number of frames from this node to the outermost, at least 1 */
    uint32_t root;  /* enum ag_root: how the walk of the stack ended */
};
struct ag_stack_site { /* a pc that occurs in stacks */
    uint64_t pc;
    uint32_t image; /* id of an image in the trace */
};
/* In a trace, the id of a stack may be the id of a leaf. A leaf is an additional node below the
 * innermost frame, with the type or the label of the blocks. */
struct ag_stack_leaf {
    uint32_t node;        /* the innermost node of the stack, or AG_NODE_ROOT(...) */
    uint32_t type, label; /* numbers in the trace, 0: none */
};
/* Maps the ids of nodes in the trace to numbers in this tree. A trace may have millions of nodes,
 * so this hash table is smaller than that of table/index_map.h: keys have 32 bits, a slot has 8
 * bytes, and up to 3/4 of the slots are used. */
struct ag_node_ids { /* zero-initialize */
    uint64_t *slots; /* id << 32 | (node + 1); 0: empty */
    uint32_t bits;   /* log2 of the number of slots */
    size_t count;
};

struct ag_stack_nodes { /* zero-initialize, then call ag_stack_nodes_init */
    struct ag_stack_node *nodes;
    size_t count;
    struct ag_stack_site *sites;
    size_t n_sites;
    uint32_t last_id; /* the id of the newest node */
    struct ag_node_ids by_id;
    struct ag_index_map by_site;
    struct ag_stack_leaf *leaves;
    size_t n_leaves;
    struct ag_index_map by_leaf; /* id in the trace -> index in leaves */
    /* The images of the agent, with which allogram hooks the program. A frame of the agent is left
     * out of stacks, unless it is the outermost frame. */
    uint32_t agent_images[AG_AGENT_IMAGES_MOST];
    uint32_t n_agent_images;
    /* by node: the node itself or, if it is hidden, its innermost caller that is not hidden; NULL:
     * no node is hidden */
    uint32_t *shown;
};

int ag_stack_nodes_init(struct ag_stack_nodes *nodes); /* 0 or -ENOMEM */
void ag_stack_nodes_done(struct ag_stack_nodes *nodes);
int ag_stack_nodes_add(struct ag_stack_nodes *nodes, const struct ag_node *node); /* 0 or -ENOMEM */
/* Prefetches the table slot of ID, which will be looked up or added soon. */
void ag_stack_nodes_expect(const struct ag_stack_nodes *nodes, uint32_t id);
/* Returns the innermost node of the stack with the id STACK. AG_NODE_ROOT(...): the stack has no
 * frames, or the trace does not define it. */
uint32_t ag_stack_nodes_find(const struct ag_stack_nodes *nodes, uint32_t stack);
/* Returns the innermost recorded node of the stack with the id STACK, even if this node is hidden
 * (ag_stack_nodes_show_only). AG_NODE_ROOT(...) means the same as in ag_stack_nodes_find. */
uint32_t ag_stack_nodes_find_recorded(const struct ag_stack_nodes *nodes, uint32_t stack);
/* Adds to IDS the ids in the trace of all stacks whose innermost node is in IS_WANTED (by node),
 * without the ids of leaves. Returns 0 or -ENOMEM. */
int ag_stack_nodes_add_ids(const struct ag_stack_nodes *nodes, const bool *is_wanted,
                           struct ag_index_map *ids);
/* Returns the type and the label of the blocks of the stack with the id STACK. Its `node` is what
 * ag_stack_nodes_find(STACK) returns. */
struct ag_stack_leaf ag_stack_nodes_leaf(const struct ag_stack_nodes *nodes, uint32_t stack);
/* Hides, in every stack that contains a node of IS_SHOWN (by node), all nodes that are not in
 * IS_SHOWN. Stacks without such a node stay whole. Call it at most once. Returns 0 or -ENOMEM. */
int ag_stack_nodes_show_only(struct ag_stack_nodes *nodes, const bool *is_shown);
/* Returns how the walk of the stack with the innermost node NODE ended: one of enum ag_root. NODE
 * may be AG_NODE_ROOT(...). */
uint32_t ag_stack_nodes_root(const struct ag_stack_nodes *nodes, uint32_t node);

#endif
