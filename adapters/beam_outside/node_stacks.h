/* node_stacks.h: Erlang stacks, and how native and Erlang frames called each other. */
#ifndef AG_NODE_STACKS_H
#define AG_NODE_STACKS_H

#include "node.h"

/* Part of a process at one moment: registers, where it goes on, and its stack from the top on. */
struct node_moment {
    uint64_t process; /* its address */
    uint64_t heap, heap_end;
    uint64_t instruction;
    uint64_t top; /* of the stack: where words[0] was */
    const uint64_t *words;
    size_t n_words; /* the stack is whole when they reach heap_end */
};

/* Tells the frames of a stack; .instruction 0: nothing is missing at its top.
 * COMPLETE, INCOMPLETE (it ends before the process' first function), STALE (words that are no
 * stack).
 */
enum allogram_stack_verdict node_tell_moment(struct node *node, const struct node_moment *moment,
                                             struct allogram_stack *stack);
/* The stack of a process that does not run. */
int node_stack_of_waiting(struct node *node, const struct node_process *process,
                          struct allogram_stack *stack);
/* Where the scheduler of the thread with this name keeps the address of the process that it runs;
 * 0: that is no scheduler. */
uint64_t node_current_process_word(const struct node *node, const char *thread_name);
/* allogram_inspector.stack */
enum allogram_stack_verdict node_stack_of_sample(struct node *node,
                                                 const struct allogram_sample *sample,
                                                 struct allogram_stack *stack);

#endif
