/* profile_state.h: what a profile holds; shared by the files of the model that answer for it.
 *
 *     profile.c       opening: definitions, then the index or a pass over the events
 *     stack_rows.c    stacks with what they did, filtered, and their frames
 *     sites.c         functions, lines, images, threads, heaps
 *     stack_forest.c  callers downward, callees upward */
#ifndef AG_PROFILE_STATE_H
#define AG_PROFILE_STATE_H

#include <regex.h>

#include "model/definitions.h"
#include "model/event_pass.h"
#include "model/frame_table.h"
#include "model/profile.h"

struct ag_profile {
    struct ag_trace_file *file;
    struct ag_definitions definitions;
    struct ag_frame_table frames;
    struct ag_profile_options options;
    struct ag_pass_options pass;
    regex_t focus, ignore;
    bool has_focus, has_ignore, needs_pass, is_filtered;
    struct ag_profile_identity identity;
    char *path;

    struct ag_model_sums sums; /* of the index or of a pass */
    struct ag_live_sum *live;  /* beside sums.stacks where a time window makes a difference */
    struct ag_summary summary; /* of what the filters let through */

    struct ag_stack_row *rows;
    uint32_t *row_nodes; /* the innermost node of each row's stack, or AG_NODE_ROOT */
    size_t n_rows;
    bool *node_is_used;  /* by node: a row's stack goes through it */
    bool *node_is_exact; /* by node: interrupted by a signal */
    bool nodes_are_resolved;

    struct ag_index_map frame_lists; /* stack -> list_places */
    struct {
        uint32_t *frames;
        size_t count;
    } * list_places;
    size_t n_lists;
    uint64_t listed_frames;

    struct ag_site_row *sites[AG_BY_HEAP + 1];
    size_t n_sites[AG_BY_HEAP + 1];
    struct ag_tree_node *trees[2]; /* top-down, bottom-up */
    size_t n_tree_nodes[2];
    struct ag_thread_row *threads;
    size_t n_threads;
    struct ag_heap_row *heaps;
};

void ag_metrics_count(struct ag_metrics *sum, const struct ag_metrics *more);

/* ---- profile.c ---- */
/* A pass over the events with other options than the profile's. 0 or negative errno. */
int ag_profile_pass(struct ag_profile *profile, const struct ag_pass_options *options,
                    struct ag_model_sums *ret_sums, struct ag_live_sum **ret_live);

/* ---- stack_rows.c ---- */
int ag_profile_make_rows(struct ag_profile *profile);
/* Looks up every frame of every row. 0 or -ENOMEM. */
int ag_profile_resolve(struct ag_profile *profile);
/* The frames of a used node after ag_profile_resolve. */
const uint32_t *ag_profile_node_frames(struct ag_profile *profile, uint32_t node,
                                       size_t *ret_count);

/* ---- sites.c ---- */
/* Which frames count as one: by frame its key, by key one frame. The caller frees both. */
int ag_profile_function_keys(struct ag_profile *profile, enum ag_site_key by,
                             uint32_t **ret_of_frame, uint32_t **ret_frame, size_t *ret_count);

#endif
