/* node_kernel.h: the programs of node.bpf.c in the kernel, and what comes from them. */
#ifndef AG_NODE_KERNEL_H
#define AG_NODE_KERNEL_H

#include "node.h"
#include "node_events.h"

/* Loads the programs; 0 when they are loaded already. -ENOSYS: built without them; else what the
 * kernel said. On failure ret_problem has one line why. */
int node_kernel_start(struct node *node, char *ret_problem, size_t problem_bytes);
void node_kernel_stop(struct node *node);

/* Descriptors: of the program for samples; of what becomes readable when there is something. */
int node_kernel_sample_program(struct node *node);
int node_kernel_readable(struct node *node);
/* Where generated code is, and which threads are schedulers, as known now. */
void node_kernel_update(struct node *node);
/* From now on collections are seen: all of them, until there is a period. */
int node_kernel_watch_collections(struct node *node, char *ret_problem, size_t problem_bytes);
/* One in so many allocated bytes is told of (node_pace.h); 0: all. */
void node_kernel_set_period(struct node *node, uint64_t period_bytes);
/* How many collections there were, told of or not. */
uint64_t node_kernel_collections_seen(struct node *node);

/* Hands what has come to node_capture_note and node_collections_note. */
void node_kernel_drain(struct node *node);
/* How many found no room since the last call. */
uint64_t node_kernel_take_lost(struct node *node);

/* The two that take records. N_WORDS of the event are there, at most NODE_EVENT_WORDS. */
void node_capture_note(struct node *node, const struct node_event *event, size_t n_words);
void node_collections_note(struct node *node, const struct node_event *event, size_t n_words);

#endif
