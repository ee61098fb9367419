/* call_tree.h: the stacks of a profile merged into a tree, from the outermost frame inward, for
 * formats with a stack table or nested nodes. Parents have smaller numbers than their children. */
#ifndef AG_CALL_TREE_H
#define AG_CALL_TREE_H

#include "export/format_writer.h"
#include "export/numbering.h"

enum ag_call_key {
    AG_CALL_FUNCTION, /* all lines of a function (by name and image) share a node */
    AG_CALL_FRAME,
    AG_CALL_PLACE, /* functions inlined at one place (an address, see model/answers/places.h) share
                    * a node */
};
#define AG_CALL_ROOT UINT32_MAX /* the parent of outermost frames */

struct ag_call_node {
    uint32_t parent;
    uint32_t function;           /* AG_CALL_FUNCTION: its number, in the order in which they are
                                  * first seen */
    struct ag_stack_frame frame; /* the first frame of this node */
};
struct ag_call_tree {
    struct ag_call_node *nodes;
    size_t count;
    uint32_t *node_of_row; /* by row of the profile's stacks: the node of the innermost frame */
    size_t n_functions;
    /* private */
    struct ag_numbering by_parent, functions;
};
/* If the export is of function counters, the tree has their call paths, and KEY is FUNCTION. */
int ag_call_tree_start(struct ag_call_tree *tree, struct ag_export *export,
                       enum ag_call_key key); /* 0 or -ENOMEM */
void ag_call_tree_end(struct ag_call_tree *tree);
/* Each node's own value of the metric (for call paths: of export->call_metric), by node; the caller
 * frees it. NULL: out of memory. */
uint64_t *ag_call_tree_own(const struct ag_call_tree *tree, const struct ag_export *export,
                           enum ag_metric metric);

#endif
