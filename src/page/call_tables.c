/* call_tables.c: writes the blocks "calls" and "paths" of the page: functions with their counters,
 * pairs of callers and callees, and call paths for the flame graph. In the figure, u is a varint.
 *
 *     calls     n, the number of functions; columns, each n long: u name, u runtime, u calls,
 *               u own_words, u own_ns, u acc_words, u acc_ns; then m, the number of pairs; columns,
 *               each m long, ordered by callee: u callee - previous callee, u caller + 1 (0: no
 *               caller), u calls, u own_words, u own_ns, u acc_words, u acc_ns
 *
 *     paths     n, the number of call paths, which are numbered from 1; columns, each n long: u
 *               number of the path - number of its caller's path (a missing caller has the number
 *               0), u number of the function in "calls" + 1 (0: other), u calls, u own_words,
 *               u own_ns
 *
 * own_ counters count what a function did itself; acc_ counters also count what the functions that
 * it called did. The functions are sorted by the sum of their shares of all words, all time and all
 * calls, the largest first. If there are more functions than a page holds, those with the smallest
 * shares are left out, and all pairs that contain them. If there are more call paths than a page
 * holds, those with the smallest shares (of a path and all paths below it) are added up in paths
 * "other", so that the sums are exact. viewer/src/trace.js reads both blocks. */
#include "page/call_tables.h"

#include <errno.h>
#include <stdlib.h>

#include "model/answers/functions.h"
#include "table/array.h"

enum {
    FUNCTIONS_MOST = 20000, /* about 30 bytes each, compressed, with the name */
    EDGES_MOST = 100000,    /* about 12 bytes each */
    PATHS_MOST = 100000,    /* about 8 bytes each; paths "other" are not limited */
    FUNCTION_COLUMNS = 7,
    EDGE_COLUMNS = 7,
    PATH_COLUMNS = 5,
};

struct ranked {
    double share; /* the share of all words, plus those of all time and of all calls; for a call
                   * path: together with the paths below it */
    uint32_t row; /* the row of a function, or the node of a call path */
};

static int by_share(const void *a, const void *b) {
    const struct ranked *left = a, *right = b;
    return left->share != right->share ? (left->share < right->share ? 1 : -1)
                                       : (left->row > right->row) - (left->row < right->row);
}

static double share_of(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static bool has_counts(const struct ag_call_counts *counts) {
    return counts->calls != 0 || counts->acc_words != 0 || counts->acc_ns != 0;
}

/* Returns the functions that have counts, largest shares first. NULL: out of memory. */
static struct ranked *rank(const struct ag_functions *functions, size_t *ret_count) {
    struct ranked *ranks = calloc(functions->n_rows + 1, sizeof(*ranks));
    size_t count = 0;
    const struct ag_call_counts *total = &functions->total;
    for (size_t i = 0; ranks && i < functions->n_rows; i++) {
        const struct ag_call_counts *counts = &functions->rows[i].counts;
        if (has_counts(counts)) {
            ranks[count++] =
                (struct ranked){.share = share_of(counts->own_words, total->own_words) +
                                         share_of(counts->own_ns, total->own_ns) +
                                         share_of(counts->calls, total->calls),
                                .row = (uint32_t)i};
        }
    }
    if (count > 0) {
        qsort(ranks, count, sizeof(*ranks), by_share);
    }
    *ret_count = count;
    return ranks;
}

static void add_functions(struct ag_byte_list *all, struct ag_page_trace *trace,
                          const struct ag_functions *functions, const struct ranked *ranks,
                          size_t count) {
    struct ag_byte_list columns[FUNCTION_COLUMNS] = {{0}};
    for (size_t i = 0; i < count; i++) {
        const struct ag_function_row *row = &functions->rows[ranks[i].row];
        const struct ag_frame frame =
            ag_function_frame(row, ag_profile_frame(trace->profile, row->frame));
        const uint64_t numbers[FUNCTION_COLUMNS] = {
            ag_name_table_number(&trace->names, frame.function),
            ag_name_table_number(&trace->names, frame.runtime),
            row->counts.calls,
            row->counts.own_words,
            row->counts.own_ns,
            row->counts.acc_words,
            row->counts.acc_ns,
        };
        for (size_t k = 0; k < FUNCTION_COLUMNS; k++) {
            ag_byte_list_number(&columns[k], numbers[k]);
        }
    }
    ag_byte_list_number(all, count);
    ag_byte_list_join(all, columns, FUNCTION_COLUMNS);
}

/* A caller and a callee that are both on the page, or a callee without a caller. */
struct shown_edge {
    const struct ag_call_edge *edge;
    uint32_t caller, callee; /* callee: its number on the page; caller: its number on the page + 1,
                              * or 0 if there is no caller */
};

static int by_page_callee(const void *a, const void *b) {
    const struct shown_edge *left = a, *right = b;
    return (left->callee > right->callee) - (left->callee < right->callee);
}

/* Adds the pairs of caller and callee. NUMBER_OF has for each function its number on the page + 1,
 * or 0 if the page does not have the function. 0 or -ENOMEM. */
static int add_edges(struct ag_byte_list *all, const struct ag_call_edge *edges, size_t n_edges,
                     const uint32_t *number_of) {
    struct shown_edge *shown = calloc(n_edges + 1, sizeof(*shown));
    if (!shown) {
        return -ENOMEM;
    }
    size_t count = 0;
    for (size_t i = 0; i < n_edges; i++) {
        const bool is_top = edges[i].caller == UINT32_MAX;
        const uint32_t callee = number_of[edges[i].callee];
        const uint32_t caller = is_top ? 0 : number_of[edges[i].caller];
        if (callee != 0 && (is_top || caller != 0)) {
            shown[count++] =
                (struct shown_edge){.edge = &edges[i], .caller = caller, .callee = callee - 1};
        }
    }
    if (count > 0) {
        qsort(shown, count, sizeof(*shown), by_page_callee);
    }
    /* Leaves out the last pairs: those whose callees have the smallest shares. */
    count = count < EDGES_MOST ? count : EDGES_MOST;
    struct ag_byte_list columns[EDGE_COLUMNS] = {{0}};
    for (size_t i = 0; i < count; i++) {
        const struct ag_call_edge *edge = shown[i].edge;
        const uint64_t numbers[EDGE_COLUMNS] = {
            shown[i].callee - (i > 0 ? shown[i - 1].callee : 0),
            shown[i].caller,
            edge->calls,
            edge->own_words,
            edge->own_ns,
            edge->acc_words,
            edge->acc_ns,
        };
        for (size_t k = 0; k < EDGE_COLUMNS; k++) {
            ag_byte_list_number(&columns[k], numbers[k]);
        }
    }
    free(shown);
    ag_byte_list_number(all, count);
    ag_byte_list_join(all, columns, EDGE_COLUMNS);
    return 0;
}

/* ---- call paths ---- */

struct page_path {
    uint32_t parent, function; /* numbers on the page + 1; parent 0: no caller; function 0:
                                * "other" */
    struct ag_call_counts counts;
};
struct path_list {
    struct page_path *paths;
    size_t count;
    /* by node of struct ag_functions: 1 + the number on the page of the node's path, and of the
     * path "other" below that path; 0: none */
    uint32_t *path_of, *other_of;
};

enum path_kind {             /* stored as uint8_t, one for each node */
                 PATH_EMPTY, /* neither the node nor a node below it has counts */
                 PATH_SMALL, /* the node's counts are added to a path "other" */
                 PATH_KEPT,  /* the node gets a path of its own */
};

/* Sets the kind of each node. by_share sorts a caller before the paths below it, because the
 * caller's share is at least as large, and its number is smaller. So a node is kept only if its
 * caller is kept. */
static int choose_paths(const struct ag_functions *functions, uint8_t *kinds) {
    const struct ag_call_counts *total = &functions->total;
    struct ranked *ranks = calloc(functions->n_nodes + 1, sizeof(*ranks));
    uint64_t *calls = calloc(functions->n_nodes + 1, sizeof(*calls));
    size_t count = 0;
    for (size_t i = functions->n_nodes; ranks && calls && i-- > 1;) {
        const struct ag_function_node *node = &functions->nodes[i];
        calls[i] += node->counts.calls;
        calls[node->parent] += calls[i];
        if (calls[i] != 0 || has_counts(&node->counts)) {
            kinds[i] = PATH_SMALL;
            ranks[count++] =
                (struct ranked){.share = share_of(node->counts.acc_words, total->own_words) +
                                         share_of(node->counts.acc_ns, total->own_ns) +
                                         share_of(calls[i], total->calls),
                                .row = (uint32_t)i};
        }
    }
    const int r = ranks && calls ? 0 : -ENOMEM;
    if (count > PATHS_MOST) {
        qsort(ranks, count, sizeof(*ranks), by_share);
        count = PATHS_MOST;
    }
    for (size_t i = 0; i < count; i++) {
        kinds[ranks[i].row] = PATH_KEPT;
    }
    free(ranks);
    free(calls);
    return r;
}

static int add_path(struct path_list *list, uint32_t parent, uint32_t function,
                    uint32_t *ret_path) {
    const struct page_path path = {.parent = parent, .function = function};
    const int r = AG_ARRAY_ADD(list->paths, list->count, path);
    *ret_path = r == 0 ? (uint32_t)list->count : 0;
    return r;
}

/* Adds the path of a node, or the counts of the node to a path "other". */
static int add_node(struct path_list *list, const struct ag_functions *functions, uint32_t at,
                    const uint8_t *kinds, const uint32_t *number_of) {
    const struct ag_function_node *node = &functions->nodes[at];
    const bool is_below_other = node->parent != 0 && kinds[node->parent] == PATH_SMALL;
    int r = 0;
    if (kinds[at] == PATH_KEPT) {
        r = add_path(list, list->path_of[node->parent], number_of[node->row], &list->path_of[at]);
    } else if (is_below_other) {
        list->path_of[at] = list->path_of[node->parent];
    } else {
        if (list->other_of[node->parent] == 0) {
            r = add_path(list, list->path_of[node->parent], /* function= */ 0,
                         &list->other_of[node->parent]);
        }
        list->path_of[at] = list->other_of[node->parent];
    }
    if (r == 0) {
        ag_call_counts_add_own(&list->paths[list->path_of[at] - 1].counts, &node->counts);
    }
    return r;
}

static void write_path_columns(struct ag_byte_list *all, const struct path_list *list) {
    struct ag_byte_list columns[PATH_COLUMNS] = {{0}};
    for (size_t i = 0; i < list->count; i++) {
        const struct page_path *path = &list->paths[i];
        const uint64_t numbers[PATH_COLUMNS] = {
            i + 1 - path->parent,   path->function,      path->counts.calls,
            path->counts.own_words, path->counts.own_ns,
        };
        for (size_t k = 0; k < PATH_COLUMNS; k++) {
            ag_byte_list_number(&columns[k], numbers[k]);
        }
    }
    ag_byte_list_number(all, list->count);
    ag_byte_list_join(all, columns, PATH_COLUMNS);
}

static int fill_paths(const struct ag_functions *functions, const uint32_t *number_of,
                      struct ag_byte_list *all) {
    struct path_list list = {.path_of = calloc(functions->n_nodes + 1, sizeof(*list.path_of)),
                             .other_of = calloc(functions->n_nodes + 1, sizeof(*list.other_of))};
    uint8_t *kinds = calloc(functions->n_nodes + 1, sizeof(*kinds));
    int r = list.path_of && list.other_of && kinds ? choose_paths(functions, kinds) : -ENOMEM;
    for (uint32_t i = 1; i < functions->n_nodes && r == 0; i++) {
        if (kinds[i] != PATH_EMPTY) {
            r = add_node(&list, functions, i, kinds, number_of);
        }
    }
    if (r == 0) {
        write_path_columns(all, &list);
    }
    free(list.paths);
    free(list.path_of);
    free(list.other_of);
    free(kinds);
    return r;
}

static int fill_blocks(struct ag_page_trace *trace, const struct ag_functions *functions,
                       struct ag_byte_list *calls, struct ag_byte_list *paths) {
    struct ag_call_edge *edges = NULL;
    size_t n_edges = 0, count = 0;
    struct ranked *ranks = rank(functions, &count);
    uint32_t *number_of = calloc(functions->n_rows + 1, sizeof(*number_of));
    int r = ranks && number_of ? ag_profile_call_edges(trace->profile, &edges, &n_edges) : -ENOMEM;
    if (r == 0) {
        count = count < FUNCTIONS_MOST ? count : FUNCTIONS_MOST;
        for (size_t i = 0; i < count; i++) {
            number_of[ranks[i].row] = (uint32_t)i + 1;
        }
        add_functions(calls, trace, functions, ranks, count);
        r = add_edges(calls, edges, n_edges, number_of);
    }
    r = r < 0 ? r : fill_paths(functions, number_of, paths);
    free(ranks);
    free(number_of);
    free(edges);
    return r;
}

int ag_call_tables_write(struct ag_page_trace *trace, FILE *out) {
    const struct ag_functions *functions;
    struct ag_byte_list calls = {0}, paths = {0};
    int r = ag_profile_functions(trace->profile, &functions);
    if (r < 0 || functions->n_trees == 0) {
        return r;
    }
    r = fill_blocks(trace, functions, &calls, &paths);
    r = r < 0 ? r : ag_data_block_write(out, trace->number, "calls", &calls);
    r = r < 0 ? r : ag_data_block_write(out, trace->number, "paths", &paths);
    ag_byte_list_done(&calls);
    ag_byte_list_done(&paths);
    return r;
}

static void write_apart(struct ag_json *json, const char *key, const struct ag_apart *apart) {
    ag_json_open(json, key, '{');
    ag_json_integer(json, "count", apart->count);
    if (apart->is_unknown) {
        ag_json_null(json, "words");
    } else {
        ag_json_integer(json, "words", apart->words);
    }
    ag_json_close(json, '}');
}

void ag_call_facts_write(const struct ag_page_trace *trace, struct ag_json *json) {
    const struct ag_functions *functions;
    if (ag_profile_functions(trace->profile, &functions) < 0 || functions->n_trees == 0) {
        return;
    }
    ag_json_open(json, "functions", '{');
    ag_json_integer(json, "count", functions->n_rows);
    ag_json_integer(json, "calls", functions->total.calls);
    ag_json_integer(json, "words", functions->total.own_words);
    ag_json_integer(json, "ns", functions->total.own_ns);
    ag_json_integer(json, "partial_trees", functions->n_partial_trees);
    write_apart(json, "messages", &functions->messages);
    write_apart(json, "spawn_arguments", &functions->spawn_arguments);
    write_apart(json, "profiler", &functions->profiler);
    ag_json_close(json, '}');
}
