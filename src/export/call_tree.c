/* call_tree.c: merges the stacks of a profile into a tree, see call_tree.h. A node is identified by
 * its parent and a key (function, frame or place), so the nodes are numbered by a table of these
 * pairs (numbering.h). The marks of format_writer.h (such as "[cut]") are negative frames, so as
 * unsigned keys they are larger than any frame, function or place. */
#include "export/call_tree.h"

#include <errno.h>
#include <stdlib.h>

#include "model/answers/functions.h"
#include "table/array.h"

static uint64_t key_of(enum ag_call_key key, const struct ag_stack_frame *at, uint32_t function) {
    switch (key) {
    case AG_CALL_FUNCTION:
        return function;
    case AG_CALL_FRAME:
        return (uint64_t)at->frame;
    case AG_CALL_PLACE:
        return at->place == AG_NO_PLACE ? (uint64_t)at->frame : at->place;
    }
    return 0;
}

/* Returns the node of frame AT below PARENT, and adds it if it is missing. AG_CALL_ROOT: out of
 * memory. */
static uint32_t call_tree_step(struct ag_call_tree *tree, const struct ag_export *export,
                               enum ag_call_key key, uint32_t parent,
                               const struct ag_stack_frame *at) {
    const uint32_t function =
        key == AG_CALL_FUNCTION
            ? ag_numbering_function(&tree->functions, ag_export_frame(export, at->frame))
            : 0;
    bool is_new;
    const uint32_t node =
        ag_numbering_of(&tree->by_parent, parent, key_of(key, at, function), &is_new);
    if (!is_new) {
        return tree->by_parent.has_failed ? AG_CALL_ROOT : node;
    }
    const struct ag_call_node made = {.parent = parent, .function = function, .frame = *at};
    return AG_ARRAY_ADD(tree->nodes, tree->count, made) == 0 ? node : AG_CALL_ROOT;
}

/* Copies the call paths of function counters, which are a tree already; node 0 of FUNCTIONS is the
 * root. */
static int start_with_calls(struct ag_call_tree *tree, const struct ag_functions *functions) {
    int r = 0;
    for (size_t i = 1; i < functions->n_nodes && r == 0; i++) {
        const struct ag_function_node *node = &functions->nodes[i];
        const struct ag_call_node made = {
            .parent = node->parent != 0 ? node->parent - 1 : AG_CALL_ROOT,
            .function = ag_numbering_of(&tree->functions, node->row, 0, NULL),
            .frame = {
                .frame = functions->rows[node->row].frame, .place = AG_NO_PLACE, .is_last = true}};
        r = AG_ARRAY_ADD(tree->nodes, tree->count, made);
    }
    return r;
}

int ag_call_tree_start(struct ag_call_tree *tree, struct ag_export *export, enum ag_call_key key) {
    *tree = (struct ag_call_tree){.node_of_row =
                                      calloc(export->n_rows + 1, sizeof(*tree->node_of_row))};
    int r = tree->node_of_row ? 0 : -ENOMEM;
    if (export->functions && r == 0) {
        r = start_with_calls(tree, export->functions);
    }
    for (uint32_t row = 0; !export->functions && row < export->n_rows && r == 0; row++) {
        const struct ag_stack_frame *frames;
        size_t n = ag_export_stack(export, row, &frames);
        uint32_t node = AG_CALL_ROOT;
        r = n > 0 ? 0 : -ENOMEM;
        while (n-- > 0 && r == 0) {
            if (key != AG_CALL_PLACE || frames[n].is_last) {
                node = call_tree_step(tree, export, key, node, &frames[n]);
                r = node == AG_CALL_ROOT ? -ENOMEM : 0;
            }
        }
        tree->node_of_row[row] = node;
    }
    tree->n_functions = tree->functions.count;
    if (r < 0 || tree->functions.has_failed) {
        ag_call_tree_end(tree);
        return -ENOMEM;
    }
    return 0;
}

void ag_call_tree_end(struct ag_call_tree *tree) {
    free(tree->nodes);
    free(tree->node_of_row);
    ag_numbering_done(&tree->by_parent);
    ag_numbering_done(&tree->functions);
    *tree = (struct ag_call_tree){0};
}

uint64_t *ag_call_tree_own(const struct ag_call_tree *tree, const struct ag_export *export,
                           enum ag_metric metric) {
    uint64_t *own = calloc(tree->count + 1, sizeof(*own));
    for (size_t i = 0; own && export->functions && i < tree->count; i++) {
        own[i] = ag_call_metric_of(&export->functions->nodes[i + 1].counts, export->call_metric);
    }
    for (size_t row = 0; own && !export->functions && row < export->n_rows; row++) {
        own[tree->node_of_row[row]] += ag_metric_of(&export->rows[row].metrics, metric);
    }
    return own;
}
