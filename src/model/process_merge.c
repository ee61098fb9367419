/* process_merge.c: merges the profiles of several processes, called parts here, into one profile.
 * The commands use it when the user names several traces.
 *
 * The same code has different addresses in different processes, so frames of two parts are merged
 * if their names (function, file, line) are equal. A merged profile has its own stack nodes: one
 * for each used node of each part. The site of such a node (normally a code address) contains the
 * number of the part and the number of the site in the part. merge_frames copies the frames of all
 * sites from the parts. After that the queries for sites, trees and types work as for one process.
 * Queries that need events (single blocks, lifetimes, sites by thread, the replay) are made for
 * each part, so the parts stay open. Functions of this file translate the results.
 *
 * Samples of different processes are independent, so the variance of a sum is the sum of the
 * variances. The counts of a part that was not sampled have variance 0.
 *
 * Processes reach their peaks at different moments. The peak of a merged site is the sum over all
 * processes of what the site had in use at the peak of the process. The merged timeline shows what
 * all processes had in use at the same time. */
#include "model/process_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/blocks.h"
#include "model/answers/memory_rows.h"
#include "model/metric.h"
#include "model/profile_state.h"
#include "table/array.h"

enum { POINTS_MOST = 4096 };
#define LEAF_IDS (UINT32_C(1) << 31) /* ids of leaves begin here; the ids of nodes are smaller */

/* ---- nodes and rows ---- */

static int add_nodes(struct ag_profile *merged, size_t number) {
    struct ag_merged_part *part = &merged->parts[number];
    struct ag_stack_nodes *nodes = &merged->definitions.nodes;
    const struct ag_stack_nodes *own = &part->profile->definitions.nodes;
    int r = ag_profile_resolve(part->profile);
    part->ids = calloc(own->count + 1, sizeof(*part->ids));
    r = r < 0 ? r : part->ids ? 0 : -ENOMEM;
    for (size_t i = 0; i < own->count && r == 0; i++) {
        if (!part->profile->node_is_used[i]) {
            continue;
        }
        if (i == AG_NODE_OF_NOT_KEPT) {
            part->ids[i] = AG_ROOT_NOT_KEPT;
            continue;
        }
        const uint32_t parent = own->nodes[i].parent;
        const struct ag_node node = {
            .id = AG_NODE_FIRST + (uint32_t)nodes->count,
            .parent = AG_IS_ROOT(parent) ? UINT32_MAX - parent : part->ids[parent],
            .pc = (uint64_t)number << AG_MERGED_SITE_BITS | own->nodes[i].site};
        part->ids[i] = node.id;
        r = ag_stack_nodes_add(nodes, &node);
    }
    return r;
}

/* Returns the number in the merged profile of the type NUMBER of a part (OWN). Types with equal
 * names are merged. 0: the part has no such type, or out of memory. */
static uint32_t merged_type(struct ag_profile *merged, const struct ag_profile *own,
                            uint32_t number) {
    const struct ag_model_type *type = ag_definitions_type(&own->definitions, number);
    struct ag_definitions *to = &merged->definitions;
    if (!type) {
        return 0;
    }
    const char *name = ag_text(&own->definitions.texts, type->name);
    const struct ag_model_type copy = {
        .name = ag_text_id(&to->texts, name, strlen(name)),
        .runtime = ag_text_keep(&to->texts, type->runtime, strlen(type->runtime))};
    return ag_definitions_add_type(to, copy.name + 1, &copy) == 0 ? copy.name + 1 : 0;
}

/* Returns the number in the merged profile of the label NUMBER of a part (OWN). Labels with equal
 * names are merged. 0: the part has no such label, or out of memory. */
static uint32_t merged_label(struct ag_profile *merged, const struct ag_profile *own,
                             uint32_t number) {
    const char *name = ag_definitions_label(&own->definitions, number);
    struct ag_definitions *to = &merged->definitions;
    if (!name) {
        return 0;
    }
    const uint32_t text = ag_text_id(&to->texts, name, strlen(name));
    const char *kept = ag_text(&to->texts, text);
    return ag_definitions_add_label(to, text + 1, kept) == 0 ? text + 1 : 0;
}

static int add_leaf(struct ag_stack_nodes *nodes, uint32_t number, uint32_t image,
                    uint32_t *parent) {
    const struct ag_node node = {.id = LEAF_IDS + (uint32_t)nodes->n_leaves,
                                 .parent = *parent,
                                 .pc = number,
                                 .image = image};
    *parent = node.id;
    return ag_stack_nodes_add(nodes, &node);
}

/* Adds the part's leaves to the merged profile. A leaf is a node below the innermost frame of a
 * stack, with the label or the type of the blocks. */
static int add_leaves(struct ag_profile *merged, struct ag_merged_part *part) {
    const struct ag_profile *own = part->profile;
    const struct ag_stack_nodes *from = &own->definitions.nodes;
    part->leaf_ids = calloc(from->n_leaves + 1, sizeof(*part->leaf_ids));
    int r = part->leaf_ids ? 0 : -ENOMEM;
    for (size_t i = 0; i < from->n_leaves && r == 0; i++) {
        const struct ag_stack_leaf *leaf = &from->leaves[i];
        const bool is_used = AG_IS_ROOT(leaf->node) || own->node_is_used[leaf->node];
        if (!is_used) {
            continue;
        }
        struct ag_stack_nodes *nodes = &merged->definitions.nodes;
        uint32_t id = AG_IS_ROOT(leaf->node) ? UINT32_MAX - leaf->node : part->ids[leaf->node];
        if (leaf->label != 0) {
            r = add_leaf(nodes, merged_label(merged, own, leaf->label), AG_IMAGE_LABEL, &id);
        }
        r = r < 0 ? r : add_leaf(nodes, merged_type(merged, own, leaf->type), AG_IMAGE_TYPE, &id);
        part->leaf_ids[i] = id;
    }
    return r;
}

/* Returns the id in the merged profile of a stack of a part. */
static uint32_t merged_stack(const struct ag_merged_part *part, uint32_t stack) {
    const struct ag_stack_nodes *nodes = &part->profile->definitions.nodes;
    const uint32_t leaf = ag_index_map_find(&nodes->by_leaf, stack);
    if (leaf != AG_INDEX_NONE && part->leaf_ids[leaf] != 0) {
        return part->leaf_ids[leaf];
    }
    const uint32_t node = ag_stack_nodes_find(nodes, stack);
    return AG_IS_ROOT(node) ? UINT32_MAX - node : part->ids[node];
}

static const char *merged_keep_text(struct ag_profile *merged, const char *text) {
    return text ? ag_text_keep(&merged->definitions.texts, text, strlen(text)) : NULL;
}

/* Copies the type that the part stores for a whole stack, if there is one. */
static int copy_stack_type(struct ag_profile *merged, const struct ag_profile *own, uint32_t stack,
                           uint32_t new_stack) {
    struct ag_index_map *to = &merged->definitions.stack_type_index;
    const uint32_t type = ag_index_map_find(&own->definitions.stack_type_index, stack);
    const uint32_t new_type = type != AG_INDEX_NONE ? merged_type(merged, own, type) : 0;
    return new_type == 0 ? 0 : ag_index_map_insert_first(to, new_stack, new_type);
}

static int add_rows(struct ag_profile *merged, struct ag_merged_part *part) {
    part->row_base = merged->n_rows;
    for (size_t i = 0; i < part->profile->n_rows; i++) {
        struct ag_stack_row *row = &merged->rows[merged->n_rows];
        *row = part->profile->rows[i];
        const uint32_t stack = row->stack;
        row->stack = merged_stack(part, stack);
        const int r = copy_stack_type(merged, part->profile, stack, row->stack);
        if (r < 0) {
            return r;
        }
        row->via = part->vias[row->via % AG_MODEL_VIAS];
        row->via_name = merged_keep_text(merged, row->via_name);
        row->heap_name = merged_keep_text(merged, row->heap_name);
        merged->row_nodes[merged->n_rows++] =
            ag_stack_nodes_find(&merged->definitions.nodes, row->stack);
    }
    return 0;
}

/* Gives each site of the merged profile the frames of a site of a part. The `pc` of the merged site
 * contains the numbers of the part and of its site. */
static int merge_frames(struct ag_profile *merged) {
    struct ag_definitions *definitions = &merged->definitions;
    int r = ag_frame_table_init(&merged->frames, definitions, merged->options.symbol);
    r = r < 0 ? r : ag_frame_table_make_answers(&merged->frames);
    /* Site 0 of every profile belongs to AG_NODE_OF_NOT_KEPT. Site 0 of the merged profile has the
     * pc 0, so the loop below copies its frames from site 0 of the first part. That part looks
     * these frames up now, because it has not done so if all of its stacks were kept. */
    r = r < 0 ? r : ag_frame_table_site(&merged->parts[0].profile->frames, 0) ? 0 : -ENOMEM;
    for (size_t site = 0; site < definitions->nodes.n_sites && r == 0; site++) {
        const uint64_t pc = definitions->nodes.sites[site].pc;
        const struct ag_frame_table *own =
            &merged->parts[pc >> AG_MERGED_SITE_BITS].profile->frames;
        const struct ag_frame_answer *answer =
            &own->answers[pc & ((UINT64_C(1) << AG_MERGED_SITE_BITS) - 1)];
        merged->frames.answers[site].is_shim = answer->is_shim;
        for (uint32_t i = 0; i < answer->count && r == 0; i++) {
            const uint32_t frame = own->list[answer->first + i];
            r = ag_frame_table_add_frame(&merged->frames, (uint32_t)site,
                                         &ag_frame_table_get(own, frame)->frame);
        }
    }
    return r;
}

/* ---- vias, heaps, threads ---- */

/* Adds HEAP and its sums to the merged profile. Heaps with equal names are merged, except that a
 * heap whose blocks contain other heaps (is_backing) is not merged with a heap whose blocks do
 * not. */
static int merged_heap(struct ag_profile *merged, const struct ag_heap_row *heap,
                       uint32_t *ret_heap) {
    const uint32_t name = ag_text_id(&merged->definitions.texts, heap->name, strlen(heap->name));
    const uint64_t key = (uint64_t)name << 1 | heap->is_backing;
    if (name == 0 && heap->name[0]) {
        return -ENOMEM;
    }
    uint32_t at;
    int r = ag_index_map_number(&merged->heaps_by_name, key, &at);
    r = r > 0 ? ag_index_map_number(&merged->definitions.heap_index, at, NULL) : r;
    if (r < 0) {
        return r;
    }
    struct ag_heap_row *row = &merged->heaps[at];
    if (r > 0) {
        *row = *heap;
        row->sum = (struct ag_heap_sum){.heap = (uint32_t)at};
        row->metrics = (struct ag_metrics){0};
        row->memory = (struct ag_heap_memory){0};
        merged->definitions.heaps[at] = (struct ag_model_heap){.heap = (uint32_t)at,
                                                               .name = heap->name,
                                                               .domain = heap->domain,
                                                               .allocator = heap->allocator,
                                                               .runtime = heap->runtime,
                                                               .kind = heap->kind,
                                                               .unit = heap->unit,
                                                               .is_backing = heap->is_backing};
        merged->definitions.n_heaps = ++merged->sums.n_heaps;
    }
    row->sum.allocated_blocks += heap->sum.allocated_blocks;
    row->sum.allocated_bytes += heap->sum.allocated_bytes;
    row->sum.in_use_blocks += heap->sum.in_use_blocks;
    row->sum.in_use_bytes += heap->sum.in_use_bytes;
    row->sum.peak_bytes += heap->sum.peak_bytes;
    row->sum.mapped_bytes += heap->sum.mapped_bytes;
    row->sum.moved_blocks += heap->sum.moved_blocks;
    row->sum.promoted_blocks += heap->sum.promoted_blocks;
    row->sum.collected_blocks += heap->sum.collected_blocks;
    ag_metrics_add(&row->metrics, &heap->metrics);
    ag_heap_memory_add(&row->memory, &heap->memory);
    *ret_heap = at;
    return 0;
}

/* Merges vias (allocation functions) with equal name and heap. If AG_MODEL_VIAS numbers are not
 * enough, all remaining vias get the last number. */
static int add_vias(struct ag_profile *merged, struct ag_merged_part *part) {
    struct ag_definitions *to = &merged->definitions;
    const struct ag_definitions *from = &part->profile->definitions;
    for (uint32_t via = 0; via < AG_MODEL_VIAS; via++) {
        if (!from->vias[via].name) {
            continue;
        }
        const struct ag_heap_row row = ag_heap_row_of(from, from->vias[via].heap);
        uint32_t number = 0;
        const int r = merged_heap(merged, &row, &number);
        if (r < 0) {
            return r;
        }
        uint32_t at = 0;
        while (
            at + 1 < AG_MODEL_VIAS && to->vias[at].name &&
            (to->vias[at].heap != number || strcmp(to->vias[at].name, from->vias[via].name) != 0)) {
            at++;
        }
        if (!to->vias[at].name) {
            to->vias[at].name = merged_keep_text(merged, from->vias[via].name);
            to->vias[at].heap = number;
        }
        part->vias[via] = at;
    }
    return 0;
}

static void add_threads(struct ag_profile *merged, struct ag_merged_part *part, uint32_t base) {
    const struct ag_profile *own = part->profile;
    for (size_t i = 0; i < own->n_threads; i++) {
        struct ag_thread_row *row = &merged->threads[merged->n_threads++];
        *row = own->threads[i];
        row->stream += base;
        row->sum.stream += base;
    }
    for (size_t i = 0; i < own->sums.n_pairs; i++) {
        const size_t at = merged->sums.n_pairs++;
        struct ag_thread_pair *pair = &merged->sums.pairs[at];
        *pair = own->sums.pairs[i];
        pair->allocated_by += base;
        pair->freed_by += base;
        if (merged->sums.pair_estimates) {
            merged->sums.pair_estimates[at] = ag_profile_pair_metrics(own, i);
        }
    }
}

/* ---- time ---- */

struct moment {
    /* values of one part; time_ns counts from the start of the merged profile */
    struct ag_timeline_point point;
    /* the values of `point` with variances; NULL: the part is not sampled */
    const struct ag_metrics *estimate;
    size_t part;
};

static int by_time(const void *a, const void *b) {
    const struct moment *left = a, *right = b;
    if (left->point.time_ns != right->point.time_ns) {
        return left->point.time_ns < right->point.time_ns ? -1 : 1;
    }
    return (left->part > right->part) - (left->part < right->part);
}

/* Lists the points of all timelines, sorted by time. After the last point of a process that ended,
 * a point with nothing in use is added. */
static size_t list_moments(const struct ag_profile *merged, struct moment *moments) {
    size_t count = 0;
    for (size_t p = 0; p < merged->n_parts; p++) {
        const struct ag_merged_part *part = &merged->parts[p];
        const struct ag_model_sums *sums = &part->profile->sums;
        const struct ag_metrics *last = NULL;
        uint64_t allocated_bytes = 0;
        for (size_t i = 0; i < sums->n_timeline; i++) {
            moments[count] = (struct moment){
                .point = sums->timeline[i],
                .estimate = sums->timeline_estimates ? &sums->timeline_estimates[i] : NULL,
                .part = p};
            moments[count++].point.time_ns += part->offset_ns;
            allocated_bytes = sums->timeline[i].allocated_bytes;
            last = sums->timeline_estimates ? &sums->timeline_estimates[i] : NULL;
        }
        if (sums->n_timeline > 0 && part->profile->definitions.has_end) {
            const uint64_t end_ns = sums->timeline[sums->n_timeline - 1].time_ns + part->offset_ns;
            moments[count++] = (struct moment){
                .point = {.time_ns = end_ns + 1, .allocated_bytes = allocated_bytes},
                .estimate = last,
                .part = p};
        }
    }
    qsort(moments, count, sizeof(*moments), by_time);
    return count;
}

/* Returns the values of POINT, which are sums over all parts, with the sums of the parts'
 * variances. OF_PARTS: the current point of each part. */
static struct ag_metrics estimate_of_all(const struct ag_profile *merged,
                                         const struct moment *of_parts,
                                         const struct ag_timeline_point *point) {
    struct ag_metrics all = {0};
    for (size_t p = 0; p < merged->n_parts; p++) {
        struct ag_metrics own = {0};
        own = of_parts[p].estimate ? *of_parts[p].estimate : own;
        /* the process has ended, or has nothing in use */
        if (of_parts[p].point.in_use_blocks == 0) {
            own.variance[AG_METRIC_IN_USE_BYTES - AG_METRIC_FIRST] = 0;
            own.variance[AG_METRIC_IN_USE_BLOCKS - AG_METRIC_FIRST] = 0;
        }
        ag_metrics_add(&all, &own);
    }
    all.in_use_bytes = point->in_use_bytes;
    all.in_use_blocks = point->in_use_blocks;
    all.allocated_bytes = point->allocated_bytes;
    return all;
}

/* Adds the timelines of all parts. If there are more than POINTS_MOST points, they are divided into
 * groups of consecutive points, and each group is replaced by its point with the most bytes in
 * use. */
static int merge_timelines(struct ag_profile *merged) {
    size_t most = 1;
    for (size_t p = 0; p < merged->n_parts; p++) {
        most += merged->parts[p].profile->sums.n_timeline + 1;
    }
    struct moment *moments = calloc(most, sizeof(*moments));
    struct moment *now = calloc(merged->n_parts, sizeof(*now));
    struct ag_model_sums *sums = &merged->sums;
    const bool is_sampled = merged->definitions.is_sampled;
    sums->timeline = calloc(POINTS_MOST + 1, sizeof(*sums->timeline));
    sums->timeline_estimates =
        is_sampled ? calloc(POINTS_MOST + 1, sizeof(*sums->timeline_estimates)) : NULL;
    const bool has_estimates = !is_sampled || sums->timeline_estimates;
    int r = moments && now && sums->timeline && has_estimates ? 0 : -ENOMEM;
    const size_t count = r == 0 ? list_moments(merged, moments) : 0;
    const size_t step = count / POINTS_MOST + 1;
    struct ag_timeline_point all = {0};
    for (size_t i = 0; i < count; i++) {
        const struct ag_timeline_point *was = &now[moments[i].part].point;
        const struct ag_timeline_point *is = &moments[i].point;
        all.time_ns = is->time_ns;
        all.in_use_bytes += is->in_use_bytes - was->in_use_bytes;
        all.in_use_blocks += is->in_use_blocks - was->in_use_blocks;
        all.allocated_bytes += is->allocated_bytes - was->allocated_bytes;
        all.rss_bytes += is->rss_bytes - was->rss_bytes;
        now[moments[i].part] = moments[i];
        struct ag_timeline_point *point = &sums->timeline[i / step];
        const bool is_shown = i % step == 0 || all.in_use_bytes > point->in_use_bytes;
        sums->n_timeline = i / step + 1;
        *point = is_shown ? all : *point;
        if (is_shown && is_sampled) {
            sums->timeline_estimates[i / step] = estimate_of_all(merged, now, &all);
        }
        struct ag_summary *summary = &merged->summary;
        if (all.rss_bytes > summary->rss_peak_bytes) {
            summary->rss_peak_bytes = all.rss_bytes;
        }
    }
    free(moments);
    free(now);
    return r;
}

/* ---- the summary ---- */

static void add_summary(struct ag_profile *merged, const struct ag_merged_part *part) {
    const struct ag_summary *own = &part->profile->summary;
    struct ag_summary *all = &merged->summary;
    const uint64_t end_ns = own->duration_ns + part->offset_ns;
    all->duration_ns = end_ns > all->duration_ns ? end_ns : all->duration_ns;
    all->time_resolution_ns = own->time_resolution_ns > all->time_resolution_ns
                                  ? own->time_resolution_ns
                                  : all->time_resolution_ns;
    all->allocated_blocks += own->allocated_blocks;
    all->allocated_bytes += own->allocated_bytes;
    all->freed_blocks += own->freed_blocks;
    all->freed_bytes += own->freed_bytes;
    all->in_use_blocks += own->in_use_blocks;
    all->in_use_bytes += own->in_use_bytes;
    all->peak_blocks += own->peak_blocks;
    all->peak_bytes += own->peak_bytes;
    all->peak_low_bytes += own->peak_low_bytes;
    all->peak_high_bytes += own->peak_high_bytes;
    all->temporary_blocks += own->temporary_blocks;
    all->ghost_frees += own->ghost_frees;
    all->inherited_frees += own->inherited_frees;
    all->unique_stacks += own->unique_stacks;
    all->truncated_stacks += own->truncated_stacks;
    all->incomplete_stacks += own->incomplete_stacks;
    all->lost_stacks += own->lost_stacks;
    all->threads += own->threads;
    all->order_repairs += own->order_repairs;
    all->events += own->events;
}

static void find_peak_time(struct ag_profile *merged) {
    uint64_t most = 0;
    for (size_t i = 0; i < merged->sums.n_timeline; i++) {
        if (merged->sums.timeline[i].in_use_bytes >= most) {
            most = merged->sums.timeline[i].in_use_bytes;
            merged->summary.peak_time_ns = merged->sums.timeline[i].time_ns;
        }
    }
}

static bool is_same_runtime(const struct ag_profile_runtime *one,
                            const struct ag_profile_runtime *other) {
    return strcmp(one->name, other->name) == 0 && strcmp(one->version, other->version) == 0 &&
           strcmp(one->note, other->note) == 0 && one->hooked == other->hooked;
}

/* Returns a hash of a runtime. Two different runtimes have the same hash with a probability of
 * 2^-64. */
static uint64_t runtime_key(const struct ag_profile_runtime *runtime) {
    const uint64_t parts[] = {ag_keyed_hash_bytes(runtime->name, strlen(runtime->name)),
                              ag_keyed_hash_bytes(runtime->version, strlen(runtime->version)),
                              ag_keyed_hash_bytes(runtime->note, strlen(runtime->note)),
                              runtime->hooked};
    return ag_keyed_hash_bytes(parts, sizeof(parts));
}

/* Adds FROM, the facts about one observed process, to the sums TO. The sampling rate and the cost
 * of a sample are those of the first process that was observed from outside. */
static void merge_observed(struct ag_profile_observed *to, const struct ag_profile_observed *from) {
    if (from->is_there && !to->is_there) {
        to->is_there = true;
        to->rate_hz = from->rate_hz;
        to->sample_cost_ns = from->sample_cost_ns;
    }
    to->samples += from->samples;
    to->lost += from->lost;
    to->stale += from->stale;
    to->complete_stacks += from->complete_stacks;
    to->target_cpu_ns += from->target_cpu_ns;
    to->collections_seen += from->collections_seen;
}

static int add_definitions(struct ag_profile *merged, const struct ag_profile *own) {
    struct ag_definitions *to = &merged->definitions;
    const struct ag_definitions *from = &own->definitions;
    for (size_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        to->lost[cause] += from->lost[cause];
    }
    to->cost.rss_bytes += from->cost.rss_bytes;
    to->cost.cpu_ns += from->cost.cpu_ns;
    to->cost.target_cpu_ns += from->cost.target_cpu_ns;
    to->cost.waited_ns += from->cost.waited_ns;
    to->cost.n_waits += from->cost.n_waits;
    to->sampler.cpu_ns += from->sampler.cpu_ns;
    merge_observed(&to->observed, &from->observed);
    for (size_t i = 0; i < from->n_runtimes; i++) {
        const struct ag_profile_runtime *runtime = &from->runtimes[i];
        const uint64_t key = runtime_key(runtime);
        const uint32_t known = ag_index_map_find(&to->runtime_index, key);
        if (known != AG_INDEX_NONE && is_same_runtime(&to->runtimes[known], runtime)) {
            to->runtimes[known].recorded += runtime->recorded;
            to->runtimes[known].counted += runtime->counted;
            continue;
        }
        const uint32_t at = (uint32_t)to->n_runtimes;
        if ((known == AG_INDEX_NONE && ag_index_map_insert(&to->runtime_index, key, at) < 0) ||
            AG_ARRAY_ADD(to->runtimes, to->n_runtimes, *runtime) < 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* Makes the identity and the time window of the merged profile from those of the first process. The
 * members that this function sets afterwards are for all processes. */
static void make_identity(struct ag_profile *merged) {
    merged->identity = merged->parts[0].profile->identity;
    merged->identity.n_processes = (uint32_t)merged->n_parts;
    merged->identity.is_damaged = false; /* ag_profile_identity finds the damage of the parts */
    merged->identity.is_sampled = merged->definitions.is_sampled;
    merged->identity.mode = merged->definitions.is_sampled ? "sample" : "exact";
    for (size_t p = 1; p < merged->n_parts; p++) {
        const struct ag_profile *own = merged->parts[p].profile;
        merged->identity.file_bytes += own->identity.file_bytes;
        /* shows the kill of the first process that the kernel killed */
        if (merged->identity.kernel_kill.certainty == 0) {
            merged->identity.kernel_kill = own->identity.kernel_kill;
        }
        if (own->identity.interval_bytes != merged->identity.interval_bytes) {
            merged->identity.interval_bytes = 0; /* the processes have different intervals */
        }
        if (strcmp(own->identity.end, merged->identity.end) != 0) {
            merged->identity.wait_status_known = 0;
            merged->identity.end =
                strcmp(own->identity.end, "exit") == 0 ? merged->identity.end : own->identity.end;
        }
    }
    merged->window = merged->parts[0].profile->window;
    merged->window.recording_ns = 0;
    merged->has_window = merged->parts[0].profile->has_window;
    for (size_t p = 0; p < merged->n_parts; p++) {
        const struct ag_merged_part *part = &merged->parts[p];
        const uint64_t end_ns = ag_profile_recording_ns(part->profile) + part->offset_ns;
        merged->window.recording_ns =
            end_ns > merged->window.recording_ns ? end_ns : merged->window.recording_ns;
    }
    for (size_t p = 1; p < merged->n_parts; p++) {
        const struct ag_profile_window *window = &merged->parts[p].profile->window;
        merged->window.older_frees += window->older_frees;
        merged->window.in_use_bytes_before += window->in_use_bytes_before;
        merged->window.in_use_blocks_before += window->in_use_blocks_before;
        merged->window.knows_before &= window->knows_before;
    }
}

/* ---- putting together ---- */

static int merged_make_room(struct ag_profile *merged) {
    size_t n_rows = 0, n_threads = 0, n_pairs = 0, n_heaps = 1;
    for (size_t p = 0; p < merged->n_parts; p++) {
        const struct ag_profile *own = merged->parts[p].profile;
        merged->definitions.is_sampled |= own->definitions.is_sampled;
        n_rows += own->n_rows;
        n_threads += own->n_threads;
        n_pairs += own->sums.n_pairs;
        n_heaps += own->sums.n_heaps + own->definitions.n_heaps + 1;
    }
    merged->rows = calloc(n_rows + 1, sizeof(*merged->rows));
    merged->row_nodes = calloc(n_rows + 1, sizeof(*merged->row_nodes));
    merged->threads = calloc(n_threads + 1, sizeof(*merged->threads));
    merged->sums.pairs = calloc(n_pairs + 1, sizeof(*merged->sums.pairs));
    merged->heaps = calloc(n_heaps, sizeof(*merged->heaps));
    merged->definitions.heaps = calloc(n_heaps, sizeof(*merged->definitions.heaps));
    merged->sums.pair_estimates = merged->definitions.is_sampled
                                      ? calloc(n_pairs + 1, sizeof(*merged->sums.pair_estimates))
                                      : NULL;
    if (merged->definitions.is_sampled && !merged->sums.pair_estimates) {
        return -ENOMEM;
    }
    const bool has_all = merged->rows && merged->row_nodes && merged->threads &&
                         merged->sums.pairs && merged->heaps && merged->definitions.heaps;
    return has_all ? 0 : -ENOMEM;
}

static int add_part(struct ag_profile *merged, size_t number, uint32_t *stream_base) {
    struct ag_merged_part *part = &merged->parts[number];
    const struct ag_profile *own = part->profile;
    int r = add_vias(merged, part);
    for (size_t i = 0; i < own->sums.n_heaps && r == 0; i++) {
        uint32_t number;
        r = merged_heap(merged, &own->heaps[i], &number);
    }
    if (r < 0) {
        return r;
    }
    part->image_base = number == 0 ? 0
                                   : merged->parts[number - 1].image_base +
                                         merged->parts[number - 1].profile->definitions.n_images;
    part->stream_base = *stream_base;
    add_threads(merged, part, *stream_base);
    for (size_t i = 0; i < own->sums.n_threads; i++) {
        const uint32_t next = part->stream_base + own->sums.threads[i].stream + 1;
        *stream_base = next > *stream_base ? next : *stream_base;
    }
    add_summary(merged, part);
    r = add_definitions(merged, own);
    r = r < 0 ? r : add_nodes(merged, number);
    r = r < 0 ? r : add_leaves(merged, part);
    return r < 0 ? r : add_rows(merged, part);
}

static void find_offsets(struct ag_profile *merged) {
    uint64_t first_ns = UINT64_MAX;
    for (size_t p = 0; p < merged->n_parts; p++) {
        const uint64_t start_ns = merged->parts[p].profile->identity.start_realtime_ns;
        first_ns = start_ns < first_ns ? start_ns : first_ns;
    }
    for (size_t p = 0; p < merged->n_parts; p++) {
        merged->parts[p].offset_ns =
            merged->parts[p].profile->identity.start_realtime_ns - first_ns;
    }
}

static int merge(struct ag_profile *merged) {
    struct ag_definitions *definitions = &merged->definitions;
    int r = ag_definitions_init(definitions);
    r = r < 0 ? r : merged_make_room(merged);
    find_offsets(merged);
    uint32_t stream_base = 0;
    for (size_t p = 0; p < merged->n_parts && r == 0; p++) {
        r = add_part(merged, p, &stream_base);
    }
    for (size_t i = 0; i < merged->n_rows; i++) {
        ag_metrics_add(&merged->total, &merged->rows[i].metrics);
    }
    /* adds the uncertainty of all parts, including parts without a row */
    for (size_t p = 0; p < merged->n_parts; p++) {
        const struct ag_metrics nothing = ag_profile_nothing(merged->parts[p].profile);
        ag_metrics_add(&merged->total, &nothing);
    }
    r = r < 0 ? r : merge_frames(merged);
    r = r < 0 ? r : merge_timelines(merged);
    const size_t n_nodes = definitions->nodes.count;
    merged->node_is_used = malloc(n_nodes + 1);
    if (r < 0 || !merged->node_is_used) {
        return r < 0 ? r : -ENOMEM;
    }
    memset(merged->node_is_used, true, n_nodes + 1);
    merged->nodes_are_resolved = true;
    for (size_t i = 0; i < merged->n_rows; i++) {
        merged->row_nodes[i] = ag_profile_start_node(merged, merged->row_nodes[i]);
    }
    find_peak_time(merged);
    make_identity(merged);
    return 0;
}

int ag_profile_merge(struct ag_profile *const *parts, size_t n_parts,
                     struct ag_profile **ret_profile) {
    struct ag_profile *merged = calloc(1, sizeof(*merged));
    struct ag_merged_part *list = calloc(n_parts + 1, sizeof(*list));
    if (!merged || !list || n_parts == 0) {
        for (size_t i = 0; i < n_parts; i++) {
            (void)ag_profile_close(parts[i]);
        }
        free(merged);
        free(list);
        return -ENOMEM;
    }
    merged->options = parts[0]->options;
    merged->parts = list;
    merged->n_parts = n_parts;
    for (size_t i = 0; i < n_parts; i++) {
        list[i].profile = parts[i];
    }
    const int r = merge(merged);
    if (r < 0) {
        (void)ag_profile_close(merged);
        return r;
    }
    *ret_profile = merged;
    return 0;
}

void ag_profile_close_parts(struct ag_profile *merged) {
    for (size_t i = 0; i < merged->n_parts; i++) {
        (void)ag_profile_close(merged->parts[i].profile);
        free(merged->parts[i].ids);
        free(merged->parts[i].leaf_ids);
    }
    free(merged->parts);
    free(merged->part_problems);
}

/* ---- queries that only the parts can answer ---- */

struct translation {
    const struct ag_merged_part *part;
    ag_block_row_visit *visit;
    void *context;
};

static void translate(void *context, const struct ag_block_row *row) {
    const struct translation *translation = context;
    const struct ag_merged_part *part = translation->part;
    struct ag_block_row merged = *row;
    if (!(row->state & AG_BLOCK_UNSEEN)) {
        merged.stack = merged_stack(part, row->stack);
        merged.via = part->vias[row->via % AG_MODEL_VIAS];
        merged.allocated_ns += part->offset_ns;
        merged.allocated_by += part->stream_base;
    }
    if (row->state != AG_BLOCK_OPEN) {
        merged.freed_ns += part->offset_ns;
        merged.freed_by += row->freed_by != UINT32_MAX ? part->stream_base : 0;
    }
    translation->visit(translation->context, &merged);
}

int ag_profile_blocks_of_parts(struct ag_profile *merged, unsigned states,
                               ag_block_row_visit *visit, void *context) {
    int r = 0;
    for (size_t p = 0; p < merged->n_parts && r == 0; p++) {
        struct translation translation = {
            .part = &merged->parts[p], .visit = visit, .context = context};
        r = ag_profile_blocks(merged->parts[p].profile, states, translate, &translation);
    }
    return r;
}

struct replayed_part {
    const struct ag_merged_part *part;
    ag_replay_visit *visit;
    void *context;
};

static int pass_step(void *context, const struct ag_replay_step *step) {
    const struct replayed_part *replayed = context;
    struct ag_replay_step merged = *step;
    merged.time_ns += replayed->part->offset_ns;
    merged.born_ns += replayed->part->offset_ns;
    merged.row += (uint32_t)replayed->part->row_base;
    return replayed->visit(replayed->context, &merged);
}

int ag_profile_replay_of_parts(struct ag_profile *merged, ag_replay_visit *visit, void *context) {
    int r = 0;
    for (size_t p = 0; p < merged->n_parts && r == 0; p++) {
        struct replayed_part replayed = {
            .part = &merged->parts[p], .visit = visit, .context = context};
        r = ag_profile_replay(merged->parts[p].profile, pass_step, &replayed);
    }
    return r;
}

/* Adds what one part had in use to MOMENTS. Each part has its own rows, so it writes to its own
 * range of row_bytes, and sums by row need not be added. */
static int add_moments(struct ag_merged_part *part, struct ag_moment *moments, size_t n) {
    struct ag_moment *own = calloc(n + 1, sizeof(*own));
    for (size_t i = 0; own && i < n; i++) {
        const uint64_t time_ns = moments[i].time_ns;
        own[i].time_ns = time_ns > part->offset_ns ? time_ns - part->offset_ns : 0;
        own[i].row_bytes = moments[i].row_bytes ? moments[i].row_bytes + part->row_base : NULL;
    }
    const int r = own ? ag_profile_moments(part->profile, own, n) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++) {
        moments[i].in_use_bytes += own[i].in_use_bytes;
        moments[i].in_use_blocks += own[i].in_use_blocks;
    }
    free(own);
    return r;
}

int ag_profile_moments_of_parts(struct ag_profile *merged, struct ag_moment *moments, size_t n) {
    int r = 0;
    for (size_t i = 0; i < n; i++) {
        moments[i].in_use_bytes = moments[i].in_use_blocks = 0;
    }
    for (size_t p = 0; p < merged->n_parts && r == 0; p++) {
        r = add_moments(&merged->parts[p], moments, n);
    }
    return r;
}

int ag_profile_threads_of_parts(struct ag_profile *merged) {
    struct ag_site_row *rows = NULL;
    size_t count = 0, capacity = 0;
    for (size_t p = 0; p < merged->n_parts; p++) {
        const struct ag_site_row *own;
        size_t n;
        int r = ag_profile_sites(merged->parts[p].profile, AG_BY_THREAD, &own, &n);
        r = r < 0 ? r : AG_ARRAY_RESERVE(rows, capacity, count + n + 1);
        if (r < 0) {
            free(rows);
            return r;
        }
        for (size_t i = 0; i < n; i++) {
            rows[count] = own[i];
            rows[count].frame = (uint32_t)count;
            count++;
        }
    }
    merged->sites[AG_BY_THREAD] = rows;
    merged->n_sites[AG_BY_THREAD] = count;
    return 0;
}

size_t ag_profile_problems_of_parts(struct ag_profile *merged, const char *const **ret_lines) {
    size_t count = 0;
    for (size_t p = 0; p < merged->n_parts; p++) {
        const char *const *own;
        const size_t n = ag_profile_problems(merged->parts[p].profile, &own);
        for (size_t i = 0; i < n; i++) {
            bool is_known = false;
            for (size_t k = 0; k < count && !is_known; k++) {
                is_known = strcmp(merged->part_problems[k], own[i]) == 0;
            }
            if (!is_known && AG_ARRAY_ADD(merged->part_problems, count, own[i]) < 0) {
                break;
            }
        }
    }
    *ret_lines = merged->part_problems;
    return count;
}
