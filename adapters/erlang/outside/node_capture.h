/* node_capture.h: finds the state and stack of an Erlang process that node.bpf.c copied in the
 * kernel at the moment of a sample. */
#ifndef AG_NODE_CAPTURE_H
#define AG_NODE_CAPTURE_H

#include "node.h"

struct node_captured {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint32_t thread;
    uint64_t process; /* its address */
    uint64_t heap, heap_top, heap_end, stack_top, instruction;
    uint32_t state;
    uint64_t top; /* address of words[0] */
    size_t n_words, room;
    uint64_t *words; /* allocated for `room` words */
};

/* Returns the capture that belongs to this sample, or NULL. The result is valid until the next
 * call. */
const struct node_captured *node_capture_find(struct node *node,
                                              const struct allogram_sample *sample);

/* The member capture_program of the inspector, the struct by which `allogram observe` calls the
 * code for a runtime (allogram/inspector.h): returns the descriptor of the kernel's program. */
int node_capture_program(void *state, char *ret_problem, size_t problem_bytes);
void node_capture_close(struct node *node);

#endif
