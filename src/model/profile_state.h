/* profile_state.h: the state of a profile. The files of src/model that implement the queries of a
 * profile share this state; all other modules use model/profile.h.
 *
 *     profile.c       opening: definitions, then the index or a pass over the events
 *     stack_rows.c    stacks with their sums, filtered, and their frames
 *     sites.c         functions, lines, images, threads, heaps
 *     stack_forest.c  trees of stacks, from callers to callees and reverse
 *     blocks.c        single blocks
 *     types.c         types of blocks
 *     lifetimes.c     lifetimes of blocks
 *     functions.c     function counters, from the trees of call_trees.c
 *     collections.c   collections and their causes
 *     program_mappings.c  the mappings that the program made itself
 *     blamed_lines.c  the lines that the reader can change
 *     known_blocks.c  blocks that the runtime keeps until the end
 *     findings.c      what the summary suggests to examine first
 *     resident_parts.c  the classes of resident memory
 *     outline.c, history.c  a shortened call tree, and its memory over time
 *     places.c        stacks as addresses, for exporters
 *     process_tree.c  the processes of a recording as a tree
 *     replay.c        the history, block by block
 *     step_rows.c     the row of a step of the ledger
 *     process_merge.c  several profiles as one */
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
    /* by node of the part's stack tree: the id in the merged profile */
    uint32_t *ids;
    /* by leaf of the part (a node that contains the type or label of blocks): the id in the merged
     * profile; 0: none */
    uint32_t *leaf_ids;
    /* by via (allocation function) of the part: the via of the merged profile */
    uint32_t vias[AG_MODEL_VIAS];
    /* time from the start of the earliest process to the start of this process */
    uint64_t offset_ns;
    uint32_t stream_base; /* number of the part's first stream (thread) in the merged profile */
    size_t row_base;      /* number of the part's first row in the merged profile */
    size_t image_base;    /* number of the part's first image in the merged profile */
};
/* A site (a code address in a stack) of a merged profile has no address of its own. Its pc is
 * (number of the part) << AG_MERGED_SITE_BITS | (number of the site in the part). */
enum { AG_MERGED_SITE_BITS = 40 };

struct ag_profile {
    struct ag_trace_file *file;
    struct ag_definitions definitions;
    struct ag_frame_table frames;
    struct ag_profile_options options;
    struct ag_pass_options pass;
    regex_t focus, ignore;
    bool has_focus, has_ignore, needs_pass, is_filtered;
    bool is_reset; /* the time window (--from, --to) begins at the moment when the recording was
                    * reset */
    struct ag_profile_identity identity;
    char *path;

    /* taken from the trace's index, or computed by a pass over the events */
    struct ag_model_sums sums;
    bool has_index_sums; /* the sums are those of the index */
    /* by entry of sums.stacks: its blocks in use at the end; NULL: no pass was made */
    struct ag_live_sum *live;
    struct ag_metrics total;   /* sum of all rows */
    struct ag_summary summary; /* summary of the rows that the filters select */
    struct ag_profile_window window;
    bool has_window;

    struct ag_stack_row *rows;
    /* by row: the innermost node of its stack that users see (after ag_profile_resolve without
     * shims, after ag_profile_fold the node of the blamed line), or AG_NODE_ROOT(...) */
    uint32_t *row_nodes;
    size_t n_rows;
    bool *node_is_used; /* by node: whether the stack of any row contains the node */
    bool nodes_are_resolved;

    uint8_t *known_of_row; /* by row, see ag_profile_known (known_blocks.h); NULL: not found yet */
    uint32_t *left_out;    /* see ag_profile_left_out (blamed_lines.h); NULL: not computed yet */
    /* Set by ag_profile_fold (blamed_lines.c); before, the pointers are NULL. */
    uint32_t
        *folded_start;   /* by node: 1 + the node at which a folded stack begins; 0: not folded */
    uint32_t *row_types; /* by row: the type of the blocks, found in the whole stack */
    struct ag_index_map type_of_stack; /* stack -> the type */

    struct ag_index_map frame_lists; /* stack -> index in `lists` */
    /* of a merged profile: (text id of a heap's name) << 1 | is_backing -> number of the heap */
    struct ag_index_map heaps_by_name;
    struct ag_frame_list {
        uint32_t *frames;
        size_t count;
    } * lists;
    size_t n_lists;
    uint64_t listed_frames; /* number of frames in all `lists` */

    struct ag_blamed_line *blamed_lines; /* NULL: not requested yet */
    size_t n_blamed_lines;
    uint32_t *line_of_row; /* by row: index in blamed_lines */
    struct ag_site_row *sites[AG_SITE_KEYS];
    size_t n_sites[AG_SITE_KEYS];
    uint32_t *site_types; /* by site: cached type of the blocks, see types.c */
    bool has_learned_types;
    struct ag_index_map learned_types; /* types.c: type number -> text id of the name */
    /* types.c: the set of stacks whose blocks are objects of the recorded type number */
    struct ag_index_map object_stacks;
    struct ag_type_row *types;
    size_t n_types;
    struct ag_lifetimes lifetimes[AG_SITE_KEYS];
    struct ag_tree_node *trees[2]; /* top-down, bottom-up */
    size_t n_tree_nodes[2];
    struct ag_thread_row *threads;
    size_t n_threads;
    struct ag_heap_row *heaps;

    struct ag_functions functions; /* functions.c: made by the first query */
    uint32_t *outer_callers;       /* by node of `functions`: the node of its caller */
    bool has_functions;
    struct ag_collections collections; /* collections.c: made by the first query */
    bool has_collections;

    struct ag_profile *mappings; /* the profile of the mappings (program_mappings.c); NULL: not
                                  * requested yet */

    struct ag_merged_part *parts; /* the profiles of the processes, if this profile is merged from
                                   * several */
    size_t n_parts;
    const char **part_problems;
};

/* ---- profile.c ---- */
/* Makes a pass over the events with OPTIONS and returns the sums. Returns 0 or a negative errno. */
int ag_profile_pass(struct ag_profile *profile, const struct ag_pass_options *options,
                    struct ag_model_sums *ret_sums, struct ag_live_sum **ret_live);

/* Makes a pass only to call the visitors (callbacks) in OPTIONS for each block; discards the
 * sums. */
int ag_profile_visit(struct ag_profile *profile, const struct ag_pass_options *options);

/* ---- stack_rows.c ---- */
/* Returns the set of the stacks of all rows, for ag_pass_options.kept; the caller frees it with
 * ag_index_map_done. If the filters select all stacks, *ret_is_needed is false and the set is
 * empty. */
int ag_profile_kept_stacks(struct ag_profile *profile, struct ag_index_map *ret_kept,
                           bool *ret_is_needed);
/* Whether a --focus or --ignore expression matches the frame's function or label ("[vm] f"). */
bool ag_frame_matches(const regex_t *regex, const struct ag_frame *frame);
/* Converts the sums of a stack to metrics. LIVE: the blocks in use; NULL: in use is what was
 * allocated and not freed. MAPPED: NULL if the blocks are not mappings. */
struct ag_metrics ag_metrics_of_stack(const struct ag_stack_sum *sum,
                                      const struct ag_live_sum *live,
                                      const struct ag_mapped_sum *mapped);
/* Returns the row of the heap NUMBER of the trace, without sums; if the trace does not define
 * NUMBER, the row has the name "unknown". (Defined in profile.c.) */
struct ag_heap_row ag_heap_row_of(const struct ag_definitions *definitions, uint32_t number);
int ag_profile_make_rows(struct ag_profile *profile);
/* Sets node_is_used. Call it after row_nodes have changed. */
void ag_profile_mark_used(struct ag_profile *profile);
/* Looks up the frames of all rows. Returns 0 or -ENOMEM. */
int ag_profile_resolve(struct ag_profile *profile);
/* If NODE is a shim (a function that only forwards a runtime's call to its allocator), returns the
 * innermost caller of NODE that users see; otherwise returns NODE. Call ag_profile_resolve
 * first. */
uint32_t ag_profile_start_node(const struct ag_profile *profile, uint32_t node);
/* Returns the frames of a node, for which node_is_used must be true. Call ag_profile_resolve
 * first. */
const uint32_t *ag_profile_node_frames(struct ag_profile *profile, uint32_t node,
                                       size_t *ret_count);

/* ---- types.c ---- */
/* Calls ag_profile_resolve, and prepares ag_profile_row_type. Returns 0 or -ENOMEM. */
int ag_profile_prepare_types(struct ag_profile *profile);
void ag_profile_forget_types(struct ag_profile *profile);
/* Returns the text id of the type of the blocks of rows[row]; 0: unknown. Call
 * ag_profile_prepare_types first. */
uint32_t ag_profile_row_type(struct ag_profile *profile, size_t row);

/* ---- process_merge.c ---- */
void ag_profile_close_parts(struct ag_profile *merged);
/* Each function NAME_of_parts makes the query NAME (such as ag_profile_blocks) for a merged
 * profile, by calling NAME for each process. */
int ag_profile_blocks_of_parts(struct ag_profile *merged, unsigned states,
                               ag_block_row_visit *visit, void *context);
/* sets sites[AG_BY_THREAD]; 0 or a negative errno */
int ag_profile_threads_of_parts(struct ag_profile *merged);
int ag_profile_replay_of_parts(struct ag_profile *merged, ag_replay_visit *visit, void *context);
int ag_profile_moments_of_parts(struct ag_profile *merged, struct ag_moment *moments, size_t n);
size_t ag_profile_problems_of_parts(struct ag_profile *merged, const char *const **ret_lines);

/* ---- functions.c ---- */
void ag_functions_end(struct ag_profile *profile);

/* ---- collections.c ---- */
void ag_collections_end(struct ag_profile *profile);
/* Whether a garbage collector frees the blocks of a heap. RET_NS: the start of the newest
 * collection that was not a minor one, since the start of the recording; 0: there was none. */
bool ag_heap_is_collected(const struct ag_definitions *definitions,
                          const struct ag_model_heap *heap, uint64_t *ret_ns);

/* ---- lifetimes.c ---- */
void ag_lifetimes_end(struct ag_lifetimes *lifetimes);

/* ---- sites.c ---- */
/* Numbers the keys of all frames (functions, lines or images, as BY requires). *ret_of_frame: by
 * frame, the number of its key. *ret_frame: by key, one of its frames. The caller frees both
 * arrays. */
int ag_profile_function_keys(struct ag_profile *profile, enum ag_site_key by,
                             uint32_t **ret_of_frame, uint32_t **ret_frame, size_t *ret_count);

#endif
