/* functions.h: the function counters of a trace: how often functions were called, how much they
 * allocated and how long they took, by function and by call path. The counters are sums over all
 * threads and processes of the runtimes (virtual machines) that counted.
 *
 * The `own` counts are those of a function (or call path) alone. The `acc` counts include those of
 * all functions that it called. The acc counts of a function contain each path once, even if the
 * function occurs several times on the path. The counters cover the whole recording; a time window
 * (--from, --to) does not change them.
 *
 * A function is identified by its name, its runtime, and the file and line where it begins. If the
 * counts come from CPU samples of a process that was observed from outside, files and lines are
 * those of the samples; then name, runtime and image identify the function.
 *
 * With the option call_group, each process of a runtime (or each initial call, the function with
 * which processes begin, or each process of the operating system) is also a row and a node, called
 * a group. The node is above the paths that were counted for the process. The row has the sum over
 * all functions of the process. */
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
    uint32_t n_trees; /* if the row is a group: number of the group's processes or threads */
    /* if groups are processes of the operating system: number for ag_profile_process */
    uint32_t process;
    /* name with file and line, such as "new list.vm:7", if the runtime has several functions named
     * "new"; NULL: the function's name in `frame` is distinct */
    const char *name;
};
/* Returns FRAME, the frame of ROW, with a function name that no other row of the same runtime
 * has. */
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
    bool is_unknown; /* the recorder could not determine how many words they have */
};
struct ag_functions {
    struct ag_function_row *rows;
    size_t n_rows;
    struct ag_function_node *nodes;
    size_t n_nodes;
    struct ag_call_counts total; /* sum over all functions; own_ and acc_ counts are equal */
    enum ag_call_group group;
    /* allocations for messages between processes, for the arguments of new processes, and by the
     * counting itself */
    struct ag_apart messages, spawn_arguments, profiler;
    size_t n_trees; /* number of threads and processes that counted */
    /* number of these threads and processes for which the trace has no complete copy of the call
     * tree, so that their counts are too low */
    size_t n_partial_trees;
};
/* Whether time was counted but no allocated words. This is the case if the counts come from samples
 * of an observed process. */
static inline bool ag_functions_is_time_only(const struct ag_functions *functions) {
    return functions->total.own_words == 0 && functions->total.own_ns != 0;
}
/* The filters --focus and --ignore (a call path is selected or excluded if a function on it
 * matches), --runtime and --thread apply. The result is valid until the profile is closed. 0 or
 * -ENOMEM. */
int ag_profile_functions(struct ag_profile *profile, const struct ag_functions **ret_functions);

struct ag_caller_row {
    /* the caller: a row of struct ag_functions; UINT32_MAX: no counted function made the calls */
    uint32_t row;
    uint64_t calls, words, bytes, ns;
};
/* Returns the callers of the function NAME ("[runtime] " may precede the name). A caller row has
 * the own counts of the function for the calls by this caller. If the function calls itself
 * directly, the nested calls count for the caller of the outermost one. If several functions have
 * the name NAME, their counts are merged; the name of a row ("new list.vm:7") denotes one function.
 * NAME may be shortened as in reports ("a_long…name/2"), if only one function has that shortened
 * name. The caller of ag_profile_callers frees *ret_rows. Returns 0, -ENOMEM, or -ENOENT: no
 * function has that name. */
int ag_profile_callers(struct ag_profile *profile, const char *name,
                       struct ag_caller_row **ret_rows, size_t *ret_count);

/* Sets is_named for each row whose name is NAME, as in ag_profile_callers. Returns the number of
 * these rows. */
size_t ag_functions_find_named(const struct ag_functions *functions,
                               const struct ag_profile *profile, const char *name, bool *is_named);
/* Adds up the counts of all functions with the name NAME, as in ag_profile_callers. The acc counts
 * contain each path once, even if several of these functions are on it. Returns 0, -ENOMEM, or
 * -ENOENT: no function has that name. */
int ag_profile_function_counts(struct ag_profile *profile, const char *name,
                               struct ag_call_counts *ret_counts);

/* A pair of a calling and a called function, with the callee's counts summed over all paths on
 * which this caller called it. In calls and own_*, as in ag_profile_callers, the nested calls of a
 * function that calls itself directly count for the caller of the outermost one. acc_* includes all
 * functions that the callee called. A call of the callee is left out of acc_* if the caller is on
 * its path more than once. So the acc_* of all callees of a function, together with the function's
 * own counts, add up to the acc counts of the function. */
struct ag_call_edge {
    /* rows of ag_profile_functions; caller UINT32_MAX: no counted function called the callee */
    uint32_t caller, callee;
    uint64_t calls, own_words, own_ns, acc_words, acc_ns;
};
/* Returns the edges sorted by callee, then caller. The caller of ag_profile_call_edges frees
 * *ret_edges. 0 or -ENOMEM. */
int ag_profile_call_edges(struct ag_profile *profile, struct ag_call_edge **ret_edges,
                          size_t *ret_count);

#endif
