/* stack_rows.c: converts the sums of each stack to the rows of a profile, from which all views are
 * made. Applies the filters to the rows, and finds the frames of stacks on request.
 *
 * Filters select whole stacks. A stack is a chain of nodes (frames). Callers have smaller node
 * numbers than callees, so one loop determines for every node whether the node or one of its
 * callers matches the filter. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/filters.h"
#include "model/metric.h"
#include "model/pass/mapped_memory.h"
#include "model/profile_state.h"
#include "table/array.h"

/* limits the memory for lists of frames to 1 GiB, for hostile traces */
enum { LISTED_FRAMES_MOST = 1 << 28 };

/* ---- frames of nodes ---- */

void ag_profile_mark_used(struct ag_profile *profile) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    memset(profile->node_is_used, 0, nodes->count * sizeof(*profile->node_is_used));
    for (size_t i = 0; i < profile->n_rows; i++) {
        if (!AG_IS_ROOT(profile->row_nodes[i])) {
            profile->node_is_used[profile->row_nodes[i]] = true;
        }
    }
    for (size_t i = nodes->count; i-- > 0;) {
        const uint32_t parent = nodes->nodes[i].parent;
        if (profile->node_is_used[i] && !AG_IS_ROOT(parent)) {
            profile->node_is_used[parent] = true;
        }
    }
}

int ag_profile_resolve(struct ag_profile *profile) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    if (profile->nodes_are_resolved) {
        return 0;
    }
    for (size_t i = nodes->count; i-- > 0;) {
        if (profile->node_is_used[i] &&
            !ag_frame_table_site(&profile->frames, nodes->nodes[i].site)) {
            return -ENOMEM;
        }
    }
    profile->nodes_are_resolved = true;
    for (size_t i = 0; i < profile->n_rows; i++) {
        profile->row_nodes[i] = ag_profile_start_node(profile, profile->row_nodes[i]);
    }
    return 0;
}

uint32_t ag_profile_start_node(const struct ag_profile *profile, uint32_t node) {
    const struct ag_stack_node *nodes = profile->definitions.nodes.nodes;
    while (!AG_IS_ROOT(node) && !AG_IS_ROOT(nodes[node].parent) &&
           profile->frames.answers[nodes[node].site].is_shim) {
        node = nodes[node].parent;
    }
    return node;
}

const uint32_t *ag_profile_node_frames(struct ag_profile *profile, uint32_t node,
                                       size_t *ret_count) {
    const struct ag_stack_node *where = &profile->definitions.nodes.nodes[node];
    const struct ag_frame_answer *answer = &profile->frames.answers[where->site];
    *ret_count = answer->count;
    return profile->frames.list + answer->first;
}

/* ---- filters ---- */

bool ag_frame_matches(const regex_t *regex, const struct ag_frame *frame) {
    return regexec(regex, frame->function, 0, NULL, 0) == 0 ||
           regexec(regex, frame->label, 0, NULL, 0) == 0;
}

/* Whether a frame matches REGEX. KNOWN caches the result by frame: 0 not known, 1 no, 2 yes.
 * Results are not cached by function name, because a match takes only about a microsecond and a
 * trace has some ten thousand frames. */
static bool frame_matches(struct ag_profile *profile, const regex_t *regex, uint8_t *known,
                          uint32_t frame) {
    if (known[frame] == 0) {
        const struct ag_frame *asked = &ag_frame_table_get(&profile->frames, frame)->frame;
        known[frame] = ag_frame_matches(regex, asked) ? 2 : 1;
    }
    return known[frame] == 2;
}

/* Sets matches[node] if a frame of the node or of its callers matches. */
static int match_nodes(struct ag_profile *profile, const regex_t *regex, bool *matches) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    uint8_t *known = calloc(profile->frames.n_frames + 1, 1);
    if (!known) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < nodes->count; i++) {
        if (!profile->node_is_used[i]) {
            continue;
        }
        const uint32_t parent = nodes->nodes[i].parent;
        size_t n;
        const uint32_t *frames = ag_profile_node_frames(profile, (uint32_t)i, &n);
        bool is_match = !AG_IS_ROOT(parent) && matches[parent];
        for (size_t k = 0; k < n && !is_match; k++) {
            is_match = frame_matches(profile, regex, known, frames[k]);
        }
        matches[i] = is_match;
    }
    free(known);
    return 0;
}

/* Removes the rows whose stacks do not match REGEX, or if KEEP_MATCHING is false, the rows whose
 * stacks match. */
static int filter_rows(struct ag_profile *profile, const regex_t *regex, bool keep_matching) {
    bool *matches = calloc(profile->definitions.nodes.count + 1, sizeof(*matches));
    int r = matches ? ag_profile_resolve(profile) : -ENOMEM;
    r = r < 0 ? r : match_nodes(profile, regex, matches);
    size_t kept = 0;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        const uint32_t node = profile->row_nodes[i];
        if ((!AG_IS_ROOT(node) && matches[node]) == keep_matching) {
            profile->rows[kept] = profile->rows[i];
            profile->row_nodes[kept++] = node;
        }
    }
    profile->n_rows = r == 0 ? kept : profile->n_rows;
    free(matches);
    return r;
}

/* ---- rows ---- */

struct ag_metrics ag_metrics_of_stack(const struct ag_stack_sum *sum,
                                      const struct ag_live_sum *live,
                                      const struct ag_mapped_sum *mapped) {
    static const struct ag_mapped_sum none;
    mapped = mapped ? mapped : &none;
    return (struct ag_metrics){
        .allocated_blocks = sum->allocated_blocks,
        .allocated_bytes = sum->allocated_bytes,
        .freed_blocks = sum->freed_blocks,
        .freed_bytes = sum->freed_bytes,
        .in_use_blocks = live ? live->blocks : sum->allocated_blocks - sum->freed_blocks,
        .in_use_bytes = live ? live->bytes : sum->allocated_bytes - sum->freed_bytes,
        .peak_blocks = sum->peak_blocks,
        .peak_bytes = sum->peak_bytes,
        .temporary_blocks = sum->temporary_blocks,
        .half_way_bytes = mapped->half_way_bytes,
        .resident_bytes = mapped->resident_bytes,
        .untouched_bytes = mapped->untouched_bytes,
    };
}

/* In a forged index, frees may exceed allocations; the blocks or bytes in use are then set to 0. */
static void metrics_check(struct ag_metrics *metrics) {
    if (metrics->in_use_blocks > INT64_MAX) {
        metrics->in_use_blocks = 0;
    }
    if (metrics->in_use_bytes > INT64_MAX) {
        metrics->in_use_bytes = 0;
    }
}

static void add_row(struct ag_profile *profile, const struct ag_runtime_filter *filter,
                    size_t index) {
    const struct ag_stack_sum *sum = &profile->sums.stacks[index];
    const struct ag_live_sum *live = profile->live ? &profile->live[index] : NULL;
    const struct ag_definitions *definitions = &profile->definitions;
    const uint32_t via = sum->via % AG_MODEL_VIAS;
    const struct ag_model_heap *heap = ag_definitions_heap_of_via(definitions, via);
    const struct ag_mapped_sum *mapped = profile->sums.mapped ? &profile->sums.mapped[index] : NULL;
    struct ag_metrics metrics = profile->sums.stack_estimates
                                    ? profile->sums.stack_estimates[index]
                                    : ag_metrics_of_stack(sum, live, mapped);
    metrics_check(&metrics);
    const uint32_t node = ag_stack_nodes_find(&definitions->nodes, sum->stack);
    const uint32_t root = ag_stack_nodes_root(&definitions->nodes, node);
    if (root == AG_ROOT_NOT_KEPT) { /* lost_stacks is counted for the whole process, regardless of
                                     * filters */
        profile->sums.summary.lost_stacks += metrics.allocated_blocks;
    }
    if (sum->stack == AG_STACK_OTHER || ag_metrics_are_empty(&metrics) ||
        !ag_runtime_filter_keeps(filter, node, heap)) {
        return;
    }
    struct ag_stack_row *row = &profile->rows[profile->n_rows];
    *row = (struct ag_stack_row){.stack = sum->stack,
                                 .via = sum->via,
                                 .via_name = definitions->vias[via].name,
                                 .heap_name = heap ? heap->name : NULL,
                                 .metrics = metrics};
    switch (root) {
    case AG_ROOT_COMPLETE:
        row->state = AG_STACK_COMPLETE;
        break;
    case AG_ROOT_CUT:
        row->state = AG_STACK_CUT;
        break;
    case AG_ROOT_NOT_KEPT:
        row->state = AG_STACK_NOT_KEPT;
        break;
    default:
        row->state = AG_STACK_INCOMPLETE;
        break;
    }
    profile->row_nodes[profile->n_rows++] = node;
}

int ag_profile_make_rows(struct ag_profile *profile) {
    /* add_row counts lost stacks again, because a time window (--from, --to) and sampling change
     * their number */
    profile->sums.summary.lost_stacks = 0;
    const struct ag_model_sums *sums = &profile->sums;
    const size_t n_nodes = profile->definitions.nodes.count;
    profile->rows = calloc(sums->n_stacks + 1, sizeof(*profile->rows));
    profile->row_nodes = calloc(sums->n_stacks + 1, sizeof(*profile->row_nodes));
    profile->node_is_used = calloc(n_nodes + 1, sizeof(*profile->node_is_used));
    if (!profile->rows || !profile->row_nodes || !profile->node_is_used) {
        return -ENOMEM;
    }
    struct ag_runtime_filter filter;
    int r = ag_runtime_filter_start(&filter, &profile->definitions, &profile->frames,
                                    profile->options.runtime);
    if (r == 0 && profile->options.runtime && !filter.wants_native) {
        r = ag_stack_nodes_show_only(&profile->definitions.nodes, filter.is_frame);
    }
    for (size_t i = 0; i < sums->n_stacks && r == 0; i++) {
        add_row(profile, &filter, i);
    }
    ag_runtime_filter_end(&filter);
    ag_profile_mark_used(profile);
    if (r == 0 && profile->has_focus) {
        r = filter_rows(profile, &profile->focus, /* keep_matching= */ true);
    }
    if (r == 0 && profile->has_ignore) {
        r = filter_rows(profile, &profile->ignore, /* keep_matching= */ false);
    }
    if (r == 0 && (profile->has_focus || profile->has_ignore)) {
        ag_profile_mark_used(profile);
    }
    return r;
}

/* The type of a block may become known after its allocation. The row of such a block has the stack
 * with the type, but the event of its allocation has the stack without it. So the set also has, for
 * each row, the stack without the type. */
int ag_profile_kept_stacks(struct ag_profile *profile, struct ag_index_map *ret_kept,
                           bool *ret_is_needed) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    *ret_is_needed = profile->has_focus || profile->has_ignore || profile->options.runtime;
    if (!*ret_is_needed) {
        return 0;
    }
    bool *is_kept = calloc(nodes->count + 1, sizeof(*is_kept));
    int r = is_kept ? 0 : -ENOMEM;
    for (size_t i = 0; i < profile->n_rows && r >= 0; i++) {
        const uint32_t node = ag_stack_nodes_find_recorded(nodes, profile->rows[i].stack);
        r = ag_index_map_number(ret_kept, profile->rows[i].stack, NULL);
        if (r >= 0 && AG_IS_ROOT(node)) {
            r = ag_index_map_number(ret_kept, AG_NODE_ROOT(node), NULL); /* the id of the root */
        } else if (r >= 0) {
            is_kept[node] = true;
        }
    }
    r = r < 0 || nodes->n_leaves == 0 ? r : ag_stack_nodes_add_ids(nodes, is_kept, ret_kept);
    free(is_kept);
    return r < 0 ? r : 0;
}

size_t ag_profile_stacks(struct ag_profile *profile, const struct ag_stack_row **ret_rows) {
    *ret_rows = profile->rows;
    return profile->n_rows;
}

uint64_t ag_profile_recorded_stack(const struct ag_profile *profile,
                                   const struct ag_stack_row *row) {
    const uint32_t node = ag_stack_nodes_find_recorded(&profile->definitions.nodes, row->stack);
    return AG_IS_ROOT(node) ? UINT64_C(1) << 32 | row->stack : node;
}

/* ---- frames of a stack, on demand ---- */

/* Writes the frames of NODE and its callers to TO, innermost first; if TO is NULL, only counts
 * them. */
static size_t list_frames(struct ag_profile *profile, uint32_t node, uint32_t *to) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    size_t count = 0;
    if (profile->folded_start && !AG_IS_ROOT(node) && profile->folded_start[node] != 0) {
        node = profile->folded_start[node] - 1;
    }
    for (; !AG_IS_ROOT(node); node = nodes->nodes[node].parent) {
        const struct ag_frame_answer *answer =
            ag_frame_table_site(&profile->frames, nodes->nodes[node].site);
        if (!answer) {
            break;
        }
        if (answer->is_shim && count == 0 && !AG_IS_ROOT(nodes->nodes[node].parent)) {
            continue;
        }
        if (to) {
            memcpy(to + count, profile->frames.list + answer->first, answer->count * sizeof(*to));
        }
        count += answer->count;
    }
    return count;
}

static int add_list(struct ag_profile *profile, uint32_t stack) {
    const uint32_t node = ag_stack_nodes_find(&profile->definitions.nodes, stack);
    const size_t count = list_frames(profile, node, NULL);
    uint32_t *frames = NULL;
    if (profile->listed_frames + count <= LISTED_FRAMES_MOST) {
        frames = malloc((count + 1) * sizeof(*frames));
    }
    const struct ag_frame_list list = {.frames = frames, .count = count};
    if (!frames || AG_ARRAY_ADD(profile->lists, profile->n_lists, list) < 0) {
        free(frames);
        return -ENOMEM;
    }
    (void)list_frames(profile, node, frames);
    profile->listed_frames += count;
    return ag_index_map_insert(&profile->frame_lists, stack, (uint32_t)profile->n_lists - 1);
}

size_t ag_profile_stack_frames(struct ag_profile *profile, uint32_t stack,
                               const uint32_t **ret_frames) {
    uint32_t at = ag_index_map_find(&profile->frame_lists, stack);
    if (at == AG_INDEX_NONE) {
        at = add_list(profile, stack) == 0 ? (uint32_t)profile->n_lists - 1 : AG_INDEX_NONE;
    }
    if (at == AG_INDEX_NONE) {
        *ret_frames = NULL;
        return 0;
    }
    *ret_frames = profile->lists[at].frames;
    return profile->lists[at].count;
}

const struct ag_frame *ag_profile_frame(const struct ag_profile *profile, uint32_t frame) {
    return &ag_frame_table_get(&profile->frames, frame)->frame;
}
