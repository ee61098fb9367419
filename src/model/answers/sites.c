/* sites.c: computes the own and total metrics of functions, lines, images and other keys (sites)
 * for reports, from up to a million stacks. `own` counts the stacks whose innermost frame belongs
 * to the site; `total` counts the stacks with any frame of the site.
 *
 * A walk through the stack tree (a node is a frame of a stack), from the outermost nodes inward,
 * sums for each node of the current path the metrics of all stacks below it. When the walk leaves a
 * node, its sum is complete. The total of a function is the sum over its nodes. If a path contains
 * the function several times, only the outermost of these nodes counts, because its sum includes
 * those of the other nodes. For each function (in general: each key of a site), a counter shows how
 * often the function is on the current path. The walk needs one step per node, regardless of the
 * number and depth of stacks. The walk keeps one sum for each depth, not one for each node. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/metric.h"
#include "model/pass/mapped_memory.h"
#include "model/profile_state.h"

/* ---- keys: frames that are counted together ---- */

struct keys {
    uint32_t *of_frame; /* by frame: its key */
    uint32_t *frame;    /* by key: one of its frames */
    size_t count;
};

static uint64_t key_of(const struct ag_profile *profile, enum ag_site_key by, uint32_t frame) {
    const struct ag_model_frame *model = ag_frame_table_get(&profile->frames, frame);
    switch (by) {
    case AG_BY_FUNCTION:
        return model->function | (uint64_t)model->image << 32;
    case AG_BY_IMAGE:
        return model->image;
    case AG_BY_LINE:
    case AG_BY_STACK:
    case AG_BY_THREAD:
    case AG_BY_HEAP:
    case AG_BY_TYPE:
    case AG_BY_LABEL:
    case AG_BY_OS_PROCESS:
    case AG_BY_PROCESS:
    case AG_BY_INITIAL_CALL:
        break;
    }
    return frame;
}

static void end_keys(struct keys *keys) {
    free(keys->of_frame);
    free(keys->frame);
}

int ag_profile_function_keys(struct ag_profile *profile, enum ag_site_key by,
                             uint32_t **ret_of_frame, uint32_t **ret_frame, size_t *ret_count) {
    const size_t n_frames = profile->frames.n_frames;
    struct keys keys = {.of_frame = calloc(n_frames + 1, sizeof(*keys.of_frame)),
                        .frame = calloc(n_frames + 1, sizeof(*keys.frame))};
    struct ag_index_map map = {0};
    int r = keys.of_frame && keys.frame ? 0 : -ENOMEM;
    for (uint32_t frame = 0; frame < n_frames && r >= 0; frame++) {
        r = ag_index_map_number(&map, key_of(profile, by, frame), &keys.of_frame[frame]);
        if (r > 0) {
            keys.frame[keys.count++] = frame;
        }
    }
    ag_index_map_done(&map);
    if (r < 0) {
        end_keys(&keys);
        return r;
    }
    *ret_of_frame = keys.of_frame;
    *ret_frame = keys.frame;
    *ret_count = keys.count;
    return 0;
}

/* ---- own and total ---- */

struct walk {
    struct ag_profile *profile;
    const struct keys *keys;
    struct ag_site_row *rows; /* by key */
    /* by depth: sum of the stacks visited so far that contain the current path's node at this
     * depth */
    struct ag_metrics *below;
    uint32_t *first_row, *next_row;
    uint32_t *first_child, *next_sibling;
    /* by key: how many frames with this key are on the path to the current node */
    uint32_t *on_path;
};

static void end_walk(struct walk *walk) {
    free(walk->below);
    free(walk->first_row);
    free(walk->next_row);
    free(walk->first_child);
    free(walk->next_sibling);
    free(walk->on_path);
}

static uint32_t *no_links(size_t count) {
    uint32_t *links = malloc((count + 1) * sizeof(*links));
    return links ? memset(links, 0xff, (count + 1) * sizeof(*links)) : NULL;
}

/* Makes for each node the list of its children, and the list of the rows (stacks) that end in it.
 * Nodes without a parent are in the child list with index `n`. */
static int start_walk(struct walk *walk) {
    struct ag_profile *profile = walk->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    const size_t n = nodes->count;
    size_t depth = 0;
    walk->first_row = no_links(n);
    walk->next_row = no_links(profile->n_rows);
    walk->first_child = no_links(n);
    walk->next_sibling = no_links(n);
    walk->on_path = calloc(walk->keys->count + 1, sizeof(*walk->on_path));
    if (!walk->first_row || !walk->next_row || !walk->first_child || !walk->next_sibling ||
        !walk->on_path) {
        return -ENOMEM;
    }
    for (size_t i = profile->n_rows; i-- > 0;) {
        const uint32_t node = profile->row_nodes[i];
        if (!AG_IS_ROOT(node)) {
            walk->next_row[i] = walk->first_row[node];
            walk->first_row[node] = (uint32_t)i;
        }
    }
    for (size_t i = n; i-- > 0;) {
        if (profile->node_is_used[i]) {
            const uint32_t parent = nodes->nodes[i].parent;
            const size_t list = AG_IS_ROOT(parent) ? n : parent;
            walk->next_sibling[i] = walk->first_child[list];
            walk->first_child[list] = (uint32_t)i;
            depth = nodes->nodes[i].depth > depth ? nodes->nodes[i].depth : depth;
        }
    }
    walk->below = calloc(depth + 1, sizeof(*walk->below));
    return walk->below ? 0 : -ENOMEM;
}

static void enter(struct walk *walk, uint32_t node) {
    struct ag_metrics *below = &walk->below[walk->profile->definitions.nodes.nodes[node].depth];
    size_t n;
    const uint32_t *frames = ag_profile_node_frames(walk->profile, node, &n);
    for (size_t i = 0; i < n; i++) {
        walk->on_path[walk->keys->of_frame[frames[i]]]++;
    }
    *below = (struct ag_metrics){0};
    for (uint32_t row = walk->first_row[node]; row != UINT32_MAX; row = walk->next_row[row]) {
        ag_metrics_add(below, &walk->profile->rows[row].metrics);
    }
}

/* Called when the sum of NODE is complete: adds it to the sum of the parent, and to the keys of the
 * node's frames, except keys that also occur in a caller on the path. */
static void leave(struct walk *walk, uint32_t node) {
    const uint32_t depth = walk->profile->definitions.nodes.nodes[node].depth;
    const struct ag_metrics *below = &walk->below[depth];
    size_t n;
    const uint32_t *frames = ag_profile_node_frames(walk->profile, node, &n);
    for (size_t i = 0; i < n; i++) {
        const uint32_t key = walk->keys->of_frame[frames[i]];
        if (--walk->on_path[key] == 0) {
            ag_metrics_add(&walk->rows[key].total, below);
        }
    }
    ag_metrics_add(&walk->below[depth - 1], below);
}

/* Visits all used nodes, children after parents. The walk returns to callers by `parent`, so no
 * stack is needed. */
static void count_totals(struct walk *walk) {
    const struct ag_stack_nodes *nodes = &walk->profile->definitions.nodes;
    uint32_t node = walk->first_child[nodes->count];
    while (node != UINT32_MAX) {
        enter(walk, node);
        uint32_t next = walk->first_child[node];
        while (next == UINT32_MAX) {
            leave(walk, node);
            next = walk->next_sibling[node];
            const uint32_t parent = nodes->nodes[node].parent;
            if (next == UINT32_MAX && AG_IS_ROOT(parent)) {
                return;
            }
            node = next == UINT32_MAX ? parent : node;
        }
        node = next;
    }
}

static void count_own(struct walk *walk) {
    struct ag_profile *profile = walk->profile;
    for (size_t i = 0; i < profile->n_rows; i++) {
        const uint32_t node = profile->row_nodes[i];
        const struct ag_metrics *metrics = &profile->rows[i].metrics;
        size_t n;
        if (AG_IS_ROOT(node)) {
            struct ag_site_row *row = &walk->rows[walk->keys->of_frame[profile->frames.no_stack]];
            ag_metrics_add(&row->own, metrics);
            ag_metrics_add(&row->total, metrics);
            continue;
        }
        const uint32_t *frames = ag_profile_node_frames(profile, node, &n);
        ag_metrics_add(&walk->rows[walk->keys->of_frame[frames[0]]].own, metrics);
    }
}

/* Removes rows whose total is empty. */
static size_t compact(struct ag_site_row *rows, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!ag_metrics_are_empty(&rows[i].total)) {
            rows[kept++] = rows[i];
        }
    }
    return kept;
}

static int sites_by_frame(struct ag_profile *profile, enum ag_site_key by) {
    struct keys keys;
    int r = ag_profile_resolve(profile);
    r = r < 0 ? r : ag_profile_function_keys(profile, by, &keys.of_frame, &keys.frame, &keys.count);
    if (r < 0) {
        return r;
    }
    struct walk walk = {
        .profile = profile, .keys = &keys, .rows = calloc(keys.count + 1, sizeof(*walk.rows))};
    r = walk.rows ? start_walk(&walk) : -ENOMEM;
    if (r == 0) {
        for (size_t key = 0; key < keys.count; key++) {
            walk.rows[key].frame = keys.frame[key];
        }
        count_totals(&walk);
        count_own(&walk);
        profile->sites[by] = walk.rows;
        profile->n_sites[by] = compact(walk.rows, keys.count);
    } else {
        free(walk.rows);
    }
    end_walk(&walk);
    end_keys(&keys);
    return r;
}

/* ---- by stack, heap, type, label, thread: own and total are equal ---- */

static int sites_by_stack(struct ag_profile *profile) {
    struct ag_site_row *rows = calloc(profile->n_rows + 1, sizeof(*rows));
    struct ag_index_map map = {0};
    int r = rows ? 0 : -ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < profile->n_rows && r >= 0; i++) {
        const uint32_t stack = profile->rows[i].stack;
        uint32_t at = 0;
        r = ag_index_map_number(&map, stack, &at);
        if (r > 0) {
            const uint32_t *frames;
            rows[count++].frame = ag_profile_stack_frames(profile, stack, &frames) > 0
                                      ? frames[0]
                                      : profile->frames.no_stack;
        }
        ag_metrics_add(&rows[at].own, &profile->rows[i].metrics);
        rows[at].total = rows[at].own;
    }
    ag_index_map_done(&map);
    if (r < 0) {
        free(rows);
        return r;
    }
    profile->sites[AG_BY_STACK] = rows;
    profile->n_sites[AG_BY_STACK] = count;
    return 0;
}

/* Makes a site row for each of N names, and a last row with the name OTHER. INDEX_OF returns the
 * number of the name to which a stack row of the profile belongs; AG_INDEX_NONE: OTHER. */
static int sites_by_name(struct ag_profile *profile, enum ag_site_key by, size_t n,
                         const char *(*name_of)(const struct ag_definitions *, size_t),
                         uint32_t (*index_of)(const struct ag_definitions *,
                                              const struct ag_stack_row *),
                         const char *other) {
    struct ag_site_row *rows = calloc(n + 1, sizeof(*rows));
    if (!rows) {
        return -ENOMEM;
    }
    for (size_t i = 0; i <= n; i++) {
        rows[i].frame = (uint32_t)i;
        rows[i].label = i < n ? name_of(&profile->definitions, i) : other;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        const uint32_t at = index_of(&profile->definitions, &profile->rows[i]);
        struct ag_site_row *row = &rows[at != AG_INDEX_NONE ? at : n];
        ag_metrics_add(&row->own, &profile->rows[i].metrics);
        row->total = row->own;
    }
    profile->sites[by] = rows;
    profile->n_sites[by] = compact(rows, n + 1);
    return 0;
}

static const char *heap_name(const struct ag_definitions *definitions, size_t heap) {
    return definitions->heaps[heap].name;
}

static uint32_t heap_of(const struct ag_definitions *definitions, const struct ag_stack_row *row) {
    const uint32_t heap = definitions->vias[row->via % AG_MODEL_VIAS].heap;
    return row->heap_name ? ag_index_map_find(&definitions->heap_index, heap) : AG_INDEX_NONE;
}

static const char *label_name(const struct ag_definitions *definitions, size_t label) {
    return definitions->labels[label].name;
}

static uint32_t label_of(const struct ag_definitions *definitions, const struct ag_stack_row *row) {
    const uint32_t label = ag_stack_nodes_leaf(&definitions->nodes, row->stack).label;
    return label != 0 ? ag_index_map_find(&definitions->label_index, label) : AG_INDEX_NONE;
}

static int sites_by_type(struct ag_profile *profile) {
    const struct ag_type_row *types;
    size_t n;
    const int r = ag_profile_types(profile, &types, &n);
    struct ag_site_row *rows = r == 0 ? calloc(n + 1, sizeof(*rows)) : NULL;
    if (!rows) {
        return r < 0 ? r : -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct ag_site_row){.frame = (uint32_t)i,
                                       .label = types[i].type,
                                       .own = types[i].metrics,
                                       .total = types[i].metrics};
    }
    profile->sites[AG_BY_TYPE] = rows;
    profile->n_sites[AG_BY_TYPE] = n;
    return 0;
}

/* Returns "name (4711)". The label contains the thread id, because threads often have equal
 * names. */
static const char *thread_label(struct ag_profile *profile, const struct ag_model_sums *sums,
                                uint32_t stream) {
    char text[128];
    uint32_t thread_id = 0;
    for (size_t i = 0; i < sums->n_threads; i++) {
        if (sums->threads[i].stream == stream) {
            thread_id = sums->threads[i].thread_id;
        }
    }
    const char *name = ag_definitions_thread_name(&profile->definitions, stream);
    const int length =
        snprintf(text, sizeof(text), "%.64s (%u)", *name ? name : "thread", thread_id);
    return ag_text_keep(&profile->definitions.texts, text, (size_t)length);
}

static int thread_rows(struct ag_profile *profile, const struct ag_model_sums *sums,
                       const struct ag_live_sum *live) {
    struct ag_site_row *rows = calloc(sums->n_stacks + 1, sizeof(*rows));
    struct ag_index_map map = {0};
    int r = rows ? 0 : -ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < sums->n_stacks && r >= 0; i++) {
        const uint32_t stream = sums->stacks[i].stack; /* with is_by_stream, `stack` is a stream */
        if (stream == AG_STACK_OTHER) {
            continue;
        }
        uint32_t at = 0;
        r = ag_index_map_number(&map, stream, &at);
        if (r > 0) {
            rows[count].frame = at;
            rows[count++].label = thread_label(profile, sums, stream);
        }
        const struct ag_metrics counted =
            ag_metrics_of_stack(&sums->stacks[i], &live[i], sums->mapped ? &sums->mapped[i] : NULL);
        ag_metrics_add(&rows[at].own, sums->stack_estimates ? &sums->stack_estimates[i] : &counted);
        rows[at].total = rows[at].own;
    }
    ag_index_map_done(&map);
    if (r < 0) {
        free(rows);
        return r;
    }
    profile->sites[AG_BY_THREAD] = rows;
    profile->n_sites[AG_BY_THREAD] = compact(rows, count);
    return 0;
}

/* Makes another pass over the events, which sums by stream (the events of one thread), because the
 * index of the trace contains neither the peak nor the blocks in use of each thread. */
static int sites_by_thread(struct ag_profile *profile) {
    struct ag_pass_options options = profile->pass;
    struct ag_index_map kept = {0};
    options.is_by_stream = true;
    bool is_needed;
    int r = ag_profile_kept_stacks(profile, &kept, &is_needed);
    options.kept = is_needed ? &kept : NULL;
    struct ag_model_sums sums = {0};
    struct ag_live_sum *live = NULL;
    r = r < 0 ? r : ag_profile_pass(profile, &options, &sums, &live);
    r = r < 0 ? r : thread_rows(profile, &sums, live);
    ag_index_map_done(&kept);
    ag_model_sums_done(&sums);
    free(live);
    return r;
}

/* ---- processes ---- */

const struct ag_profile_identity *ag_profile_process(const struct ag_profile *profile,
                                                     uint32_t number) {
    return ag_profile_identity(profile->n_parts > 0 ? profile->parts[number].profile : profile);
}

size_t ag_profile_n_processes(const struct ag_profile *profile) {
    return profile->n_parts > 0 ? profile->n_parts : 1;
}

struct ag_profile *ag_profile_of_process(struct ag_profile *profile, uint32_t number) {
    return profile->n_parts > 0 ? profile->parts[number].profile : profile;
}

/* Returns the last part whose first row, or first stream if BY_STREAM, is not larger than AT. (A
 * part without rows begins where the next part begins.) */
static uint32_t find_part(const struct ag_profile *profile, size_t at, bool by_stream) {
    size_t low = 0, high = profile->n_parts; /* the part is in [low, high) */
    while (high > low + 1) {
        const size_t middle = low + (high - low) / 2;
        const struct ag_merged_part *part = &profile->parts[middle];
        if ((by_stream ? part->stream_base : part->row_base) <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (uint32_t)low;
}

uint32_t ag_profile_process_of_row(const struct ag_profile *profile, size_t row) {
    return find_part(profile, row, /* by_stream= */ false);
}

uint32_t ag_profile_process_of_stream(const struct ag_profile *profile, uint32_t stream) {
    return find_part(profile, stream, /* by_stream= */ true);
}

const char *ag_profile_process_name(struct ag_profile *profile, uint32_t number) {
    char text[128];
    const struct ag_profile_identity *identity = ag_profile_process(profile, number);
    const char *name = ag_base_name(identity->n_arguments > 0 ? identity->arguments[0]
                                    : identity->exe           ? identity->exe
                                                              : "");
    const int length =
        snprintf(text, sizeof(text), "%.64s (%u)", *name ? name : "process", identity->pid);
    return ag_text_keep(&profile->definitions.texts, text, (size_t)length);
}

/* The sums of the processes whose traces are merged. In a profile of one trace there is one row. */
static int sites_by_os_process(struct ag_profile *profile) {
    const size_t n = ag_profile_n_processes(profile);
    struct ag_site_row *rows = calloc(n, sizeof(*rows));
    if (!rows) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        rows[i].frame = (uint32_t)i;
        rows[i].label = ag_profile_process_name(profile, (uint32_t)i);
        rows[i].own = *ag_profile_total(ag_profile_of_process(profile, (uint32_t)i));
        rows[i].total = rows[i].own;
    }
    profile->sites[AG_BY_OS_PROCESS] = rows;
    profile->n_sites[AG_BY_OS_PROCESS] = n;
    return 0;
}

int ag_profile_sites(struct ag_profile *profile, enum ag_site_key by,
                     const struct ag_site_row **ret_rows, size_t *ret_count) {
    int r = 0;
    if (by == AG_BY_PROCESS || by == AG_BY_INITIAL_CALL) {
        return -EINVAL; /* blocks do not have these keys */
    }
    if (!profile->sites[by]) {
        switch (by) {
        case AG_BY_FUNCTION:
        case AG_BY_LINE:
        case AG_BY_IMAGE:
            r = sites_by_frame(profile, by);
            break;
        case AG_BY_STACK:
            r = sites_by_stack(profile);
            break;
        case AG_BY_THREAD:
            r = profile->n_parts > 0 ? ag_profile_threads_of_parts(profile)
                                     : sites_by_thread(profile);
            break;
        case AG_BY_HEAP:
            r = sites_by_name(profile, by, profile->definitions.n_heaps, heap_name, heap_of,
                              "unknown");
            break;
        case AG_BY_TYPE:
            r = sites_by_type(profile);
            break;
        case AG_BY_LABEL:
            r = sites_by_name(profile, by, profile->definitions.n_labels, label_name, label_of,
                              NULL);
            break;
        case AG_BY_OS_PROCESS:
            r = sites_by_os_process(profile);
            break;
        case AG_BY_PROCESS:
        case AG_BY_INITIAL_CALL:
            break; /* returned above */
        }
    }
    if (r < 0) {
        return r;
    }
    *ret_rows = profile->sites[by];
    *ret_count = profile->n_sites[by];
    return 0;
}
