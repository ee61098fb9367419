/* call_edges.c: sums the paths of all functions by pairs of caller and callee, for views that show
 * every function's callers at once: one loop over the places and one walk, instead of a loop for
 * each function. */
#include "model/answers/call_edges.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model/answers/functions.h"
#include "model/profile_state.h"
#include "table/array.h"
#include "table/index_map.h"

#define NONE UINT32_MAX

struct edge_list {
    struct ag_index_map by_pair; /* callee << 32 | caller (NONE: nothing) -> edge */
    struct ag_call_edge *edges;
    size_t count;
};

/* NULL: no memory. */
static struct ag_call_edge *edge_of(struct edge_list *list, uint32_t caller, uint32_t callee) {
    const uint64_t pair = (uint64_t)callee << 32 | caller;
    uint32_t at;
    int r = ag_index_map_number(&list->by_pair, pair, &at);
    r = r > 0 ? AG_ARRAY_ADD(list->edges, list->count,
                             (struct ag_call_edge){.caller = caller, .callee = callee})
              : r;
    return r < 0 ? NULL : &list->edges[at];
}

static uint32_t row_of(const struct ag_functions *functions, uint32_t node) {
    return node != 0 ? functions->nodes[node].row : NONE;
}

static int add_own(struct edge_list *list, const struct ag_functions *functions,
                   const uint32_t *outer_callers) {
    for (size_t i = 1; i < functions->n_nodes; i++) {
        const struct ag_function_node *node = &functions->nodes[i];
        struct ag_call_edge *edge = edge_of(list, row_of(functions, outer_callers[i]), node->row);
        if (!edge) {
            return -ENOMEM;
        }
        edge->calls += node->counts.calls;
        edge->own_words += node->counts.own_words;
        edge->own_ns += node->counts.own_ns;
    }
    return 0;
}

/* What a place has with all below is its caller's, where no other place of the caller is above. */
static int add_acc(struct edge_list *list, const struct ag_functions *functions, uint32_t node,
                   bool is_outermost) {
    const uint32_t parent = functions->nodes[node].parent;
    if (!is_outermost) {
        return 0;
    }
    struct ag_call_edge *edge =
        edge_of(list, row_of(functions, parent), functions->nodes[node].row);
    if (!edge) {
        return -ENOMEM;
    }
    edge->acc_words += functions->nodes[node].counts.acc_words;
    edge->acc_ns += functions->nodes[node].counts.acc_ns;
    return 0;
}

/* Children after parents, and up again by the parents' own links; ON_PATH: by row, how many of its
 * places are. */
static int edges_walk(struct edge_list *list, const struct ag_functions *functions,
                      uint32_t *on_path) {
    const struct ag_function_node *nodes = functions->nodes;
    uint32_t at = nodes[0].first_child;
    while (at != NONE && at != 0) {
        const uint32_t parent = nodes[at].parent;
        const int r = add_acc(list, functions, at, parent == 0 || on_path[nodes[parent].row] == 1);
        if (r < 0) {
            return r;
        }
        on_path[nodes[at].row]++;
        uint32_t next = nodes[at].first_child;
        while (next == NONE && at != 0) {
            on_path[nodes[at].row]--;
            next = nodes[at].next_sibling;
            at = next == NONE ? nodes[at].parent : at;
        }
        at = next;
    }
    return 0;
}

static int by_callee(const void *a, const void *b) {
    const struct ag_call_edge *left = a, *right = b;
    return left->callee != right->callee   ? (left->callee > right->callee ? 1 : -1)
           : left->caller != right->caller ? (left->caller > right->caller ? 1 : -1)
                                           : 0;
}

int ag_profile_call_edges(struct ag_profile *profile, struct ag_call_edge **ret_edges,
                          size_t *ret_count) {
    const struct ag_functions *functions;
    struct edge_list list = {0};
    int r = ag_profile_functions(profile, &functions);
    uint32_t *on_path = r < 0 ? NULL : calloc(functions->n_rows + 1, sizeof(*on_path));
    r = r == 0 && !on_path ? -ENOMEM : r;
    r = r < 0 ? r : add_own(&list, functions, profile->outer_callers);
    r = r < 0 ? r : edges_walk(&list, functions, on_path);
    free(on_path);
    ag_index_map_done(&list.by_pair);
    if (r < 0) {
        free(list.edges);
        return r;
    }
    if (list.count > 0) {
        qsort(list.edges, list.count, sizeof(*list.edges), by_callee);
    }
    *ret_edges = list.edges;
    *ret_count = list.count;
    return 0;
}
