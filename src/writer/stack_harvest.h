/* stack_harvest.h: finds the nodes of a process' stack tree that the trace still needs, and how
 * each stack ends. */
#ifndef AG_STACK_HARVEST_H
#define AG_STACK_HARVEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/stack_tree.h"
#include "format/decode.h"
#include "table/index_map.h"

struct ag_stack_harvest {
    const uint8_t *tree; /* shared with the program; NULL when nodes come from a trace (add_node) */
    int tree_size;
    uint8_t *marks;        /* [n_marks] by node id, see the .c file; private */
    uint32_t n_marks;      /* grows with the ids that are met */
    struct ag_node *nodes; /* [0, n_nodes): found and not yet written, parents first */
    size_t n_nodes, capacity;
    uint32_t *chain; /* scratch of one walk */
    size_t chain_capacity;
    struct ag_index_map frames_of;          /* leaf -> the node under it */
    uint64_t n_stacks, n_cut, n_incomplete; /* stacks that an event named, without their leaves */
    int error;                              /* -ENOMEM, sticky */
};
int ag_stack_harvest_start(struct ag_stack_harvest *harvest, const uint8_t *tree, int tree_size);
void ag_stack_harvest_done(struct ag_stack_harvest *harvest);

enum {
    AG_MARK_ROOT = 3,
    AG_MARK_KNOWN = 4,
    AG_MARK_NAMED = 8,
    AG_MARK_WALKED = 16,
    AG_MARK_LEAF = 32
};

/* Turns any number from outside into a stack id that may be followed. */
static inline uint32_t ag_stack_checked(uint32_t stack) {
    const bool is_node = stack - AG_NODE_FIRST < AG_NODE_SLOTS;
    const bool is_fine = is_node | (stack <= AG_ROOT_LAST); /* no branch: both are common */
    return is_fine ? stack : AG_ROOT_INCOMPLETE;
}

/* Finds the new nodes of a stack (a checked id) without counting it as named by an allocation. */
void ag_stack_harvest_learn(struct ag_stack_harvest *harvest, uint32_t stack);
/* Notes that an allocation names this stack (a checked id). */
void ag_stack_harvest_name_slow(struct ag_stack_harvest *harvest, uint32_t stack);
static inline void ag_stack_harvest_name(struct ag_stack_harvest *harvest, uint32_t stack) {
    if (AG_UNLIKELY(stack >= harvest->n_marks || !(harvest->marks[stack] & AG_MARK_NAMED))) {
        ag_stack_harvest_name_slow(harvest, stack);
    }
}
/* Is this the stack of blocks whose stack could not be kept, or a leaf on it? */
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
