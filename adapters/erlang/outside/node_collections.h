/* node_collections.h: records the collections of an Erlang node's processes, which node.bpf.c sees
 * in the kernel. */
#ifndef AG_NODE_COLLECTIONS_H
#define AG_NODE_COLLECTIONS_H

#include "node.h"

/* Members of the inspector, the struct by which `allogram observe` calls the code for a runtime
 * (allogram/inspector.h): its watch_collections, choose_word, is_new_word and collections.
 * node_collections_close frees what node_collections_watch made. */
int node_collections_watch(void *state, char *ret_problem, size_t problem_bytes);
bool node_collections_choose_word(void *state, uint64_t *ret_address);
bool node_collections_is_new_word(void *state, const struct allogram_sample *sample,
                                  uint64_t address);
int node_collections_report(void *state, struct allogram_answers *answers);
void node_collections_close(struct node *node);

#endif
