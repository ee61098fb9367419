/* functions.h: the function counters of a trace: how often functions were called, how much they
 * allocated and how long they took, by function and by call path. They are sums over all threads
 * and processes of the runtimes that counted.
 *
 * `own` counts are those of a function (or call path) alone; `acc` counts include all functions
 * that it called. acc of a function counts a path once, even if the function occurs several times
 * on it. The counters cover the whole recording; a time window does not change them.
 *
 * A function is identified by its name, its runtime, and the file and line where it begins, as in
 * allogram.h and the format. If the counts come from samples of an observed process, files and
 * lines are those of the samples; then name, runtime and image identify the function.
 *
 * With the option call_group, each process (or initial call) is also a row and a node, called a
 * group. The node is above the paths that were counted for the process; the row has the sum of all
 * its functions. */
#ifndef AG_FUNCTIONS_H
#define AG_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metric.h"
#include "model/profile.h"

struct ag_function_row {
    uint32_t frame; /* a frame of the profile, which has the function's name and runtime */
    struct ag_call_counts counts;
    bool is_group;
    uint32_t n_trees; /* of a group: number of processes or threads in it */
    /* such as "new list.vm:7", if its runtime has other functions named "new"; NULL: the name of
     * its frame */
    const char *name;
};
/* The row's frame with a name that no other row of its runtime has. */
static inline struct ag_frame ag_function_frame(const struct ag_function_row *row,
                                                const struct ag_frame *frame) {
    struct ag_frame named = *frame;
    named.function = row->name ? row->name : frame->function;
    return named;
}
/* index 0 is the root; the children of a node are a linked list */
struct ag_function_node {
    uint32_t row;                               /* UINT32_MAX at the root */
    uint32_t parent, first_child, next_sibling; /* UINT32_MAX: none */
    struct ag_call_counts counts;
};
struct ag_apart { /* allocations that are not attributed to functions */
    uint64_t count, words, bytes;
};
struct ag_functions {
    struct ag_function_row *rows;
    size_t n_rows;
    struct ag_function_node *nodes;
    size_t n_nodes;
    struct ag_call_counts total; /* own and acc counts are equal */
    enum ag_call_group group;
    struct ag_apart messages, spawn_arguments, profiler;
    size_t n_trees; /* number of threads and processes that counted */
    /* of these, the number without a complete snapshot, so their counts are too low */
    size_t n_partial_trees;
};
/* Whether only time was counted, no words: so it is if the counts come from samples of an observed
 * process. */
static inline bool ag_functions_is_time_only(const struct ag_functions *functions) {
    return functions->total.own_words == 0 && functions->total.own_ns != 0;
}
/* The filters --focus and --ignore (a call path is selected or excluded if a function on it
 * matches), --runtime and --thread apply. The result is valid until the profile is closed. 0 or
 * -ENOMEM. */
int ag_profile_functions(struct ag_profile *profile, const struct ag_functions **ret_functions);

struct ag_caller_row {
    uint32_t row; /* of the functions; UINT32_MAX: no counted function called it */
    uint64_t calls, words, bytes, ns;
};
/* The callers of the function NAME (with or without "[runtime] " before it), with the function's
 * own counts when called by each. If a function calls itself, its caller is that of the outermost
 * of these calls. Several functions with that name are merged; the name of a row ("new list.vm:7")
 * denotes one function. The caller of ag_profile_callers frees *ret_rows. Returns 0, -ENOMEM, or
 * -ENOENT: no function has that name. */
int ag_profile_callers(struct ag_profile *profile, const char *name,
                       struct ag_caller_row **ret_rows, size_t *ret_count);

/* A pair of a calling and a called function, with the callee's counts summed over all paths on
 * which this caller called it. calls and own_* are as in ag_profile_callers: if a function calls
 * itself, its caller is that of the outermost of these calls. acc_* includes all functions that the
 * callee called; paths on which the caller occurs again further out are left out. So the acc_* of a
 * function's callees, together with its own counts on these paths, add up to the acc of the
 * function. */
struct ag_call_edge {
    /* rows of ag_profile_functions; caller UINT32_MAX: no counted function called it */
    uint32_t caller, callee;
    uint64_t calls, own_words, own_ns, acc_words, acc_ns;
};
/* Returns the edges sorted by callee, then caller. The caller of ag_profile_call_edges frees
 * *ret_edges. 0 or -ENOMEM. */
int ag_profile_call_edges(struct ag_profile *profile, struct ag_call_edge **ret_edges,
                          size_t *ret_count);

#endif
