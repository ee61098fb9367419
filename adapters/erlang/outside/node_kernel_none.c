/* node_kernel_none.c: used in place of node_kernel.c if allogram is built without clang or libbpf.
 * All functions that would start something fail. */
#include <errno.h>
#include <stdio.h>

#include "node_kernel.h"

int node_kernel_start(struct node *node, char *ret_problem, size_t problem_bytes) {
    (void)node;
    snprintf(ret_problem, problem_bytes,
             "this allogram was built without BPF; build it with clang and libbpf-dev installed");
    return -ENOSYS;
}

void node_kernel_stop(struct node *node) {
    (void)node;
}

int node_kernel_sample_program(struct node *node) {
    (void)node;
    return -ENOSYS;
}

int node_kernel_readable(struct node *node) {
    (void)node;
    return -ENOSYS;
}

void node_kernel_update(struct node *node) {
    (void)node;
}

int node_kernel_watch_collections(struct node *node, char *ret_problem, size_t problem_bytes) {
    return node_kernel_start(node, ret_problem, problem_bytes);
}

void node_kernel_set_period(struct node *node, uint64_t period_bytes) {
    (void)node;
    (void)period_bytes;
}

uint64_t node_kernel_collections_seen(struct node *node) {
    (void)node;
    return 0;
}

void node_kernel_drain(struct node *node) {
    (void)node;
}

uint64_t node_kernel_take_lost(struct node *node) {
    (void)node;
    return 0;
}
