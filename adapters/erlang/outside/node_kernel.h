/* node_kernel.h: loads the programs of node.bpf.c into the kernel and receives their records. */
#ifndef AG_NODE_KERNEL_H
#define AG_NODE_KERNEL_H

#include "node.h"
#include "node_events.h"

/* Loads the programs. Returns 0 also if the programs are loaded already; -ENOSYS: allogram is built
 * without them; else the kernel's error. On failure ret_problem has one line with the reason. */
int node_kernel_start(struct node *node, char *ret_problem, size_t problem_bytes);
void node_kernel_stop(struct node *node);

/* Return file descriptors: that of the program for samples, and that of the ring, which becomes
 * readable when the ring has records. */
int node_kernel_sample_program(struct node *node);
int node_kernel_readable(struct node *node);
/* Passes the ranges of generated code and the scheduler threads to the programs again. */
void node_kernel_update(struct node *node);
/* Starts watching collections: all of them, until a period is set. */
int node_kernel_watch_collections(struct node *node, char *ret_problem, size_t problem_bytes);
/* Sets the allocated bytes per reported collection (node_pace.h); 0: all are reported. */
void node_kernel_set_period(struct node *node, uint64_t period_bytes);
/* The number of collections, reported or not. */
uint64_t node_kernel_collections_seen(struct node *node);

/* Passes the received records to node_capture_note and node_collections_note. */
void node_kernel_drain(struct node *node);
/* The number of records that found no room since the last call. */
uint64_t node_kernel_take_lost(struct node *node);

/* The two receivers of records. The event has N_WORDS words, at most NODE_EVENT_WORDS. */
void node_capture_note(struct node *node, const struct node_event *event, size_t n_words);
void node_collections_note(struct node *node, const struct node_event *event, size_t n_words);

#endif
