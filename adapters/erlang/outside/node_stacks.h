/* node_stacks.h: reads the stacks of Erlang processes, and joins Erlang frames with native ones. */
#ifndef AG_NODE_STACKS_H
#define AG_NODE_STACKS_H

#include "node.h"

/* Where the innermost frame of a process is. */
enum node_top {
    NODE_TOP_REPORTED, /* the pc of the frame is that of the sample, and the frame is reported
                        * already */
    /* its function called native code or a fragment (shared code of the JIT): the first word of the
     * stack is the return address into the function */
    NODE_TOP_CALLED,
    NODE_TOP_RESTS, /* the process does not run; it will continue at `instruction` */
};
/* The state of a process at one moment, as far as it is needed for the stack. */
struct node_moment {
    uint64_t process; /* its address */
    uint64_t heap, heap_end;
    uint64_t instruction;
    uint32_t state;
    enum node_top innermost;
    uint64_t top; /* of the stack: the address of words[0] */
    const uint64_t *words;
    size_t n_words;
};

/* Reports the frames of a stack. Returns COMPLETE, INCOMPLETE (the stack ends before the process'
 * first function), or STALE (the words are not a stack). */
enum allogram_stack_verdict node_report_moment(struct node *node, const struct node_moment *moment,
                                               struct allogram_stack *stack);
/* Where the innermost frame of a process is, by its `state`, if no pc is known. */
enum node_top node_top_of(uint32_t state);
/* Reports the stack of a process that does not run. Returns 0; -1: it cannot be read, or changed
 * while it was read. */
int node_stack_of_waiting(struct node *node, const struct node_process *process,
                          struct allogram_stack *stack);
/* The address of the word in which the scheduler of the thread with this name stores its process;
 * 0: it is not a scheduler. */
uint64_t node_current_process_word(const struct node *node, const char *thread_name);
/* Reports the stack of a sample: the member `stack` of the inspector (allogram/inspector.h). */
enum allogram_stack_verdict node_stack_of_sample(void *state, const struct allogram_sample *sample,
                                                 struct allogram_stack *stack);

#endif
