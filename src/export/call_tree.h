/* call_tree.h: merges the stacks of a profile into a tree, from the outermost frame inward, for
 * formats that contain a table of stacks or nested nodes. Parents have smaller numbers than their
 * children. */
#ifndef AG_CALL_TREE_H
#define AG_CALL_TREE_H

#include "export/format_writer.h"
#include "export/numbering.h"

/* Which frames below one parent share a node. AG_CALL_FRAME: frames with equal function, file and
 * line. */
enum ag_call_key {
    AG_CALL_FUNCTION, /* all frames of a function (equal name and image) share a node */
    AG_CALL_FRAME,
    AG_CALL_PLACE, /* all functions inlined at one place (a code address, see
                    * model/answers/places.h) share a node */
};
#define AG_CALL_ROOT UINT32_MAX /* as parent: the node is an outermost frame */

struct ag_call_node {
    uint32_t parent;
    uint32_t function;           /* with AG_CALL_FUNCTION: number of the function, in the order in
                                  * which functions are first seen */
    struct ag_stack_frame frame; /* the first seen of the frames that share this node */
};
struct ag_call_tree {
    struct ag_call_node *nodes;
    size_t count;
    /* by row of the profile's stacks: the node of the innermost frame of the stack */
    uint32_t *node_of_row;
    size_t n_functions;
    /* private */
    struct ag_numbering by_parent, functions;
};
/* Makes the tree. If EXPORT exports function counters (counts of calls for each path of calls), the
 * tree consists of these paths, and KEY must be AG_CALL_FUNCTION. */
int ag_call_tree_start(struct ag_call_tree *tree, struct ag_export *export,
                       enum ag_call_key key); /* 0 or -ENOMEM */
void ag_call_tree_end(struct ag_call_tree *tree);
/* Returns an array with the own value of METRIC of each node; for call paths, the own value of
 * export->call_metric. The caller frees the array. NULL: out of memory. */
uint64_t *ag_call_tree_own(const struct ag_call_tree *tree, const struct ag_export *export,
                           enum ag_metric metric);

#endif
