/* stack_harvest.h: collects the nodes of a process' stack tree that the trace needs and does not
 * have yet, and counts the stacks by how they end (complete, cut, incomplete).
 *
 * A node is one frame and a link to its caller's node; the number of the innermost node identifies
 * the stack (base/stack_tree.h). A leaf is an additional innermost node, which has no frame: the
 * type of a block, or the label that the program had set. */
#ifndef AG_STACK_HARVEST_H
#define AG_STACK_HARVEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/stack_tree.h"
#include "format/decode.h"
#include "table/index_map.h"

struct ag_stack_harvest {
    const uint8_t *tree; /* shared with the program; NULL when nodes come from a trace
                          * (ag_stack_harvest_add_node) */
    int tree_size;
    uint8_t *marks;        /* [n_marks] by node id: bits of enum ag_mark */
    uint32_t n_marks;      /* grows to include the largest node id of an event */
    struct ag_node *nodes; /* [0, n_nodes): found and not yet written, parents first */
    size_t n_nodes, capacity;
    uint32_t *chain; /* scratch memory of one walk: its nodes, innermost first */
    size_t chain_capacity;
    struct ag_index_map frames_of;          /* leaf -> the innermost node with a frame */
    uint64_t n_stacks, n_cut, n_incomplete; /* different stacks of allocations, without leaves */
    int error;                              /* 0, or -ENOMEM once an operation has failed */
};
int ag_stack_harvest_start(struct ag_stack_harvest *harvest, const uint8_t *tree, int tree_size);
void ag_stack_harvest_done(struct ag_stack_harvest *harvest);

enum ag_mark {
    AG_MARK_ROOT = 3,    /* mask: how the stack ends (enum ag_root of base/stack_tree.h) */
    AG_MARK_KNOWN = 4,   /* the node was found before */
    AG_MARK_NAMED = 8,   /* the node is the innermost one of an allocation's stack, so this stack
                          * has been counted */
    AG_MARK_WALKED = 16, /* the node is on the current walk */
    AG_MARK_LEAF = 32,
};

/* Makes any number from outside a valid stack id: an invalid one becomes AG_ROOT_INCOMPLETE. */
static inline uint32_t ag_stack_checked(uint32_t stack) {
    const bool is_node = stack - AG_NODE_FIRST < AG_NODE_SLOTS;
    const bool is_fine = is_node | (stack <= AG_ROOT_LAST); /* no branch, because both cases are
                                                             * common */
    return is_fine ? stack : AG_ROOT_INCOMPLETE;
}

/* Collects the new nodes of a stack (a checked id), without counting it. */
void ag_stack_harvest_learn(struct ag_stack_harvest *harvest, uint32_t stack);
/* Collects the new nodes of an allocation's stack (a checked id), and counts the stack if it is
 * new. */
void ag_stack_harvest_name_slow(struct ag_stack_harvest *harvest, uint32_t stack);
static inline void ag_stack_harvest_name(struct ag_stack_harvest *harvest, uint32_t stack) {
    if (AG_UNLIKELY(stack >= harvest->n_marks || !(harvest->marks[stack] & AG_MARK_NAMED))) {
        ag_stack_harvest_name_slow(harvest, stack);
    }
}
/* Is this the stack (with or without leaves) of blocks whose own stack could not be kept? */
static inline bool ag_stack_harvest_is_lost(const struct ag_stack_harvest *harvest,
                                            uint32_t stack) {
    return stack < harvest->n_marks && (harvest->marks[stack] & AG_MARK_KNOWN) &&
           (harvest->marks[stack] & AG_MARK_ROOT) == AG_ROOT_NOT_KEPT;
}
/* Notes that all nodes so far are in the trace. */
void ag_stack_harvest_written(struct ag_stack_harvest *harvest);
/* Adds a node that was read from a trace. */
void ag_stack_harvest_add_node(struct ag_stack_harvest *harvest, const struct ag_node *node);

#endif
