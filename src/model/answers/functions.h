/* functions.h: function counters: how often functions were called, what they allocated and how long
 * they took, by function and by call path; the sums over the trees of all threads and processes.
 *
 * own is of a function (or a path) alone, acc with all that it called; acc of a function counts a
 * path once however often the function recurs in it. They are counts of the whole recording: no
 * time window narrows them.
 *
 * A function is identified by its name, its runtime, and the file and line where it begins, as in
 * allogram.h and the format. In samples from outside, files and lines are those of the samples:
 * there name, runtime and image identify the function.
 *
 * With the option call_group each process (or initial call) is also a row and a node, above the
 * paths that it counted: a group. As a row it has the sum of all its functions. */
#ifndef AG_FUNCTIONS_H
#define AG_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metric.h"
#include "model/profile.h"

struct ag_function_row {
    uint32_t frame; /* of the profile: has its name and runtime */
    struct ag_call_counts counts;
    bool is_group;
    uint32_t n_trees; /* of a group: processes or threads in it */
    /* "new list.vm:7", if its runtime has other functions called "new"; NULL: as its frame */
    const char *name;
};
/* The row's frame as people read it: the name is one that no other row of its runtime has. */
static inline struct ag_frame ag_function_frame(const struct ag_function_row *row,
                                                const struct ag_frame *frame) {
    struct ag_frame named = *frame;
    named.function = row->name ? row->name : frame->function;
    return named;
}
struct ag_function_node {                       /* index 0 is the root; children are linked */
    uint32_t row;                               /* UINT32_MAX at the root */
    uint32_t parent, first_child, next_sibling; /* UINT32_MAX: none */
    struct ag_call_counts counts;
};
struct ag_apart { /* what is not part of the functions */
    uint64_t count, words, bytes;
};
struct ag_functions {
    struct ag_function_row *rows;
    size_t n_rows;
    struct ag_function_node *nodes;
    size_t n_nodes;
    struct ag_call_counts total; /* own and acc are the same */
    enum ag_call_group group;
    struct ag_apart messages, spawn_arguments, profiler;
    size_t n_trees;         /* number of threads and processes that counted */
    size_t n_partial_trees; /* of these: without a complete snapshot, so that their counts are too
                             * low */
};
/* Whether only time was counted: samples from outside have no words. */
static inline bool ag_functions_is_time_only(const struct ag_functions *functions) {
    return functions->total.own_words == 0 && functions->total.own_ns != 0;
}
/* Narrowed by --focus, --ignore (a path is kept when a function on it matches), --runtime and
 * --thread. Valid until the profile is closed. 0 or -ENOMEM. */
int ag_profile_functions(struct ag_profile *profile, const struct ag_functions **ret_functions);

struct ag_caller_row {
    uint32_t row; /* of the functions; UINT32_MAX: called by nothing that is counted */
    uint64_t calls, words, bytes, ns;
};
/* The callers of the function NAME (with or without the mark of its runtime), and what it did
 * itself for each. Recursion is folded: the caller is the one from outside. Several functions with
 * that name are merged; the name of a row ("new list.vm:7") is that of one alone. The caller of
 * this frees *ret_rows. Returns 0, -ENOMEM, or -ENOENT: no function has that name. */
int ag_profile_callers(struct ag_profile *profile, const char *name,
                       struct ag_caller_row **ret_rows, size_t *ret_count);

/* Callers and callees among the counted functions: for each pair, the sum of what the callee did
 * for the caller, over all paths. Calls and own_* are as ag_profile_callers has them: recursion is
 * folded, the caller is the one from outside. acc_* is what the callee had with all that it called,
 * of the caller's paths that are below no other call of the caller: the callees of a function have
 * together what it has in all, less what these paths did themselves. */
struct ag_call_edge {
    uint32_t caller,
        callee; /* rows of ag_profile_functions; caller UINT32_MAX: called by nothing */
    uint64_t calls, own_words, own_ns, acc_words, acc_ns;
};
/* Ordered by callee, then caller. The caller of this frees *ret_edges. 0 or -ENOMEM. */
int ag_profile_call_edges(struct ag_profile *profile, struct ag_call_edge **ret_edges,
                          size_t *ret_count);

#endif
