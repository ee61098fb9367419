/* call_tree.h: the stacks of a profile merged from the outermost frame inward, for formats with a
 * stack table or nested nodes. Parents have smaller numbers than their children. */
#ifndef AG_CALL_TREE_H
#define AG_CALL_TREE_H

#include "export/format_writer.h"
#include "export/numbering.h"

enum ag_call_key {
    AG_CALL_FUNCTION, /* frames of one function of one image are one, whatever their line */
    AG_CALL_FRAME,
    AG_CALL_PLACE, /* inlined functions share the node of the place they stand at */
};
#define AG_CALL_ROOT UINT32_MAX /* the parent of outermost frames */

struct ag_call_node {
    uint32_t parent;
    uint32_t function;           /* AG_CALL_FUNCTION: by number, as they are first seen */
    struct ag_stack_frame frame; /* the first that came */
};
struct ag_call_tree {
    struct ag_call_node *nodes;
    size_t count;
    uint32_t *node_of_row; /* the innermost */
    size_t n_functions;
    /* its own */
    struct ag_numbering by_parent, functions;
};
int ag_call_tree_start(struct ag_call_tree *tree, struct ag_export *export,
                       enum ag_call_key key); /* 0 or -ENOMEM */
void ag_call_tree_end(struct ag_call_tree *tree);
/* The node's own value of the metric; the caller frees. NULL: out of memory. */
uint64_t *ag_call_tree_own(const struct ag_call_tree *tree, const struct ag_export *export,
                           enum ag_metric metric);

#endif
