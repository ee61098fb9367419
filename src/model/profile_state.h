/* profile_state.h: the state of a profile; shared by the files of the model that implement its
 * queries.
 *
 *     profile.c       opening: definitions, then the index or a pass over the events
 *     stack_rows.c    stacks with their sums, filtered, and their frames
 *     sites.c         functions, lines, images, threads, heaps
 *     stack_forest.c  callers downward, callees upward
 *     blocks.c        single blocks
 *     types.c         types of blocks
 *     lifetimes.c     lifetimes of blocks
 *     functions.c     function counters, from the trees of call_trees.c
 *     collections.c   collections and their causes
 *     blamed_lines.c  the lines that the reader can change
 *     findings.c      what is most worth a look */
#ifndef AG_PROFILE_STATE_H
#define AG_PROFILE_STATE_H

#include <regex.h>

#include "model/answers/blamed_lines.h"
#include "model/answers/blocks.h"
#include "model/answers/functions.h"
#include "model/answers/lifetimes.h"
#include "model/answers/types.h"
#include "model/definitions/definitions.h"
#include "model/definitions/frame_table.h"
#include "model/pass/event_pass.h"
#include "model/pass/replay.h"
#include "model/profile.h"

struct ag_merged_part { /* process_merge.c: one process of a merged profile */
    struct ag_profile *profile;
    uint32_t *ids;                /* by node: its id in the merged profile */
    uint32_t *leaf_ids;           /* by leaf: the same, 0: none */
    uint32_t vias[AG_MODEL_VIAS]; /* by via: the merged profile's */
    uint64_t offset_ns;           /* from the start of the earliest process to its own */
    uint32_t stream_base;         /* what its streams are counted from */
    size_t row_base;              /* what its rows are counted from */
    size_t image_base;            /* what its images are counted from */
};
/* The pc of a site of a merged profile: part << this | the part's site << 1 | is it exact. */
enum { AG_MERGED_SITE_BITS = 40 };

struct ag_profile {
    struct ag_trace_file *file;
    struct ag_definitions definitions;
    struct ag_frame_table frames;
    struct ag_profile_options options;
    struct ag_pass_options pass;
    regex_t focus, ignore;
    bool has_focus, has_ignore, needs_pass, is_filtered;
    bool is_reset; /* a pass begins where the program reset the recording */
    struct ag_profile_identity identity;
    char *path;

    struct ag_model_sums sums; /* of the index or of a pass */
    struct ag_live_sum *live;  /* beside sums.stacks where a time window makes a difference */
    struct ag_metrics total;   /* of all rows */
    struct ag_summary summary; /* of what the filters let through */
    struct ag_profile_window window;
    bool has_window;

    struct ag_stack_row *rows;
    uint32_t *row_nodes; /* the innermost node of each row's stack, or AG_NODE_ROOT */
    size_t n_rows;
    bool *node_is_used;  /* by node: a row's stack goes through it */
    bool *node_is_exact; /* by node: interrupted by a signal */
    bool nodes_are_resolved;

    struct ag_index_map frame_lists;   /* stack -> list_places */
    struct ag_index_map heaps_by_name; /* of a merged profile: text << 1 | is_backing -> heap */
    struct ag_frame_list {
        uint32_t *frames;
        size_t count;
    } * list_places;
    size_t n_lists;
    uint64_t listed_frames;

    struct ag_blamed_line *blamed_lines; /* NULL: not requested yet */
    size_t n_blamed_lines;
    uint32_t *line_of_row;
    struct ag_site_row *sites[AG_SITE_KEYS];
    size_t n_sites[AG_SITE_KEYS];
    uint32_t *site_types; /* types.c: by site and exactness */
    bool has_learned_types;
    struct ag_index_map learned_types; /* types.c: number -> text */
    struct ag_type_row *types;
    size_t n_types;
    struct ag_lifetimes lifetimes[AG_SITE_KEYS];
    struct ag_tree_node *trees[2]; /* top-down, bottom-up */
    size_t n_tree_nodes[2];
    struct ag_thread_row *threads;
    size_t n_threads;
    struct ag_heap_row *heaps;

    struct ag_functions functions; /* functions.c, once asked for */
    uint32_t *outer_callers;       /* by node of functions */
    bool has_functions;
    struct ag_collections collections; /* collections.c, once asked for */
    bool has_collections;

    struct ag_merged_part *parts; /* of a merged profile, which has no file */
    size_t n_parts;
    const char **part_problems;
};

/* ---- profile.c ---- */
/* A pass over the events with other options than the profile's. 0 or negative errno. */
int ag_profile_pass(struct ag_profile *profile, const struct ag_pass_options *options,
                    struct ag_model_sums *ret_sums, struct ag_live_sum **ret_live);

/* The same for the visits of single blocks that OPTIONS request; the sums are not used. */
int ag_profile_visit(struct ag_profile *profile, const struct ag_pass_options *options);

/* ---- stack_rows.c ---- */
/* The stacks of all rows, for ag_pass_options.kept; the caller ends the map. If nothing is left out
 * *ret_is_needed is false and the map is empty. */
int ag_profile_kept_stacks(struct ag_profile *profile, struct ag_index_map *ret_kept,
                           bool *ret_is_needed);
int ag_profile_make_rows(struct ag_profile *profile);
/* Looks up every frame of every row. 0 or -ENOMEM. */
int ag_profile_resolve(struct ag_profile *profile);
/* The node where the stack begins for users: not in a runtime's binding to its allocator. After
 * ag_profile_resolve. */
uint32_t ag_profile_start_node(const struct ag_profile *profile, uint32_t node);
/* The frames of a used node after ag_profile_resolve. */
const uint32_t *ag_profile_node_frames(struct ag_profile *profile, uint32_t node,
                                       size_t *ret_count);

/* ---- types.c ---- */
int ag_profile_prepare_types(struct ag_profile *profile); /* resolves; 0 or -ENOMEM */
void ag_profile_forget_types(struct ag_profile *profile);
/* After prepare: the text of the type of rows[row], 0: unknown. */
uint32_t ag_profile_row_type(struct ag_profile *profile, size_t row);

/* ---- process_merge.c ---- */
void ag_profile_close_parts(struct ag_profile *merged);
int ag_profile_blocks_of_parts(struct ag_profile *merged, unsigned states,
                               ag_block_row_visit *visit, void *context);
int ag_profile_threads_of_parts(struct ag_profile *merged); /* sites by thread */
int ag_profile_replay_of_parts(struct ag_profile *merged, ag_replay_visit *visit, void *context);
int ag_profile_moments_of_parts(struct ag_profile *merged, struct ag_moment *moments, size_t n);
size_t ag_profile_problems_of_parts(struct ag_profile *merged, const char *const **ret_lines);

/* ---- functions.c ---- */
void ag_functions_end(struct ag_profile *profile);

/* ---- collections.c ---- */
void ag_collections_end(struct ag_profile *profile);

/* ---- lifetimes.c ---- */
void ag_lifetimes_end(struct ag_lifetimes *lifetimes);

/* ---- sites.c ---- */
/* Which frames have the same key: by frame its key, by key one frame. The caller frees both. */
int ag_profile_function_keys(struct ag_profile *profile, enum ag_site_key by,
                             uint32_t **ret_of_frame, uint32_t **ret_frame, size_t *ret_count);

#endif
