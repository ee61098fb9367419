/* collections.c: lists the garbage collections of a trace, and sums them by runtime, by cause (the
 * function whose allocation started them) and by process of a runtime, for the gc view and exports.
 *
 * A trace contains the stack in which a collection started, or only one function of that stack. The
 * cause is the innermost managed function of the stack (a function of the virtual machine's
 * language). The native frames that it called are the runtime's own path to its collector. Stacks
 * and functions repeat, so the verdict on each (which frame is the cause, whether the filters
 * select it) is cached by its id.
 *
 * Reclaimed bytes. A collection of the young generation has the sizes of this generation before and
 * after it, and reports how many bytes it promoted: these bytes left the young generation, but they
 * are no garbage. So they are subtracted. All other collections have the sizes of the whole heap,
 * in which promoted blocks stay.
 *
 * A collection may run within another one: a cycle of the old generation consists of slices, and a
 * slice may first collect the young generation. Both are listed. In sums, the pause of the outer
 * collection contains that of the inner one. If both are of the same heap, the outer collection
 * also contains the bytes that the inner one freed. If only the inner one is of the young
 * generation, the blocks that it promoted made the heap of the outer one larger, so they are added
 * to the bytes that the outer one freed. */
#include "model/answers/collections.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/filters.h"
#include "model/profile_state.h"
#include "table/array.h"

#define NO_FRAME UINT32_MAX

struct verdict { /* result for a stack or a function */
    uint32_t cause_frame;
    bool is_kept;
    /* whether any frame belongs to the runtime that --runtime names; with --runtime=c, whether any
     * frame belongs to a runtime */
    bool has_frame;
};
struct gathering {
    struct ag_profile *profile; /* the profile that gets the collections */
    /* the profile whose trace is read: `profile` or, if `profile` is merged from several processes,
     * the profile of one of them */
    struct ag_profile *source;
    uint64_t offset_ns; /* time from the start of `profile` to the start of `source` */
    /* of `source`: stack id, or (id of a FRAME record) << 32 -> index in `verdicts` */
    struct ag_index_map stacks;
    struct verdict *verdicts;
    size_t n_verdicts;
};

/* ---- stacks ---- */

/* Returns the frames that determine the cause of a collection and whether the filters select it,
 * innermost first. ONE gets the frame if the trace has only a function. */
static size_t frames_of(struct gathering *gathering, const struct ag_model_collection *raw,
                        uint32_t *one, const uint32_t **ret_frames) {
    if (raw->frame == 0) {
        return ag_profile_stack_frames(gathering->source, raw->stack, ret_frames);
    }
    *one = ag_frame_table_managed(&gathering->source->frames, raw->frame,
                                  /* line= */ 0);
    *ret_frames = one;
    return *one != AG_INDEX_NONE; /* AG_INDEX_NONE: out of memory; the collection then has no known
                                   * cause */
}

static struct verdict judge(struct gathering *gathering, const struct ag_model_collection *raw) {
    struct ag_profile *source = gathering->source;
    const uint32_t *frames;
    uint32_t one;
    const size_t n = frames_of(gathering, raw, &one, &frames);
    uint32_t cause = n > 0 ? frames[0] : NO_FRAME;
    const char *wanted = source->options.runtime;
    const bool wants_native = wanted && ag_runtime_wants_native(wanted);
    bool is_managed = false, is_focused = !source->has_focus, is_ignored = false;
    bool has_frame = false;
    for (size_t i = 0; i < n; i++) {
        const struct ag_frame *frame = ag_profile_frame(source, frames[i]);
        if (!is_managed && ag_frame_is_managed(frame)) {
            cause = frames[i];
            is_managed = true;
        }
        is_focused |= source->has_focus && ag_frame_matches(&source->focus, frame);
        is_ignored |= source->has_ignore && ag_frame_matches(&source->ignore, frame);
        has_frame |= wanted && (wants_native ? ag_frame_is_managed(frame)
                                             : strcmp(frame->runtime, wanted) == 0);
    }
    if (cause != NO_FRAME && source != gathering->profile) {
        cause = ag_frame_table_copy(&gathering->profile->frames, ag_profile_frame(source, cause));
    }
    return (struct verdict){
        .cause_frame = cause, .is_kept = is_focused && !is_ignored, .has_frame = has_frame};
}

static int verdict_on(struct gathering *gathering, const struct ag_model_collection *raw,
                      struct verdict *ret_verdict) {
    const uint64_t key = raw->frame != 0 ? (uint64_t)raw->frame << 32 : raw->stack;
    uint32_t at;
    int r = ag_index_map_number(&gathering->stacks, key, &at);
    r = r > 0 ? AG_ARRAY_ADD(gathering->verdicts, gathering->n_verdicts, judge(gathering, raw)) : r;
    if (r == 0) {
        *ret_verdict = gathering->verdicts[at];
    }
    return r;
}

/* ---- rows ---- */

static bool is_wanted(const struct ag_profile *source, const struct ag_model_collection *raw) {
    const struct ag_profile_options *options = &source->options;
    const uint64_t start_ns = source->definitions.start_ns;
    const uint64_t since_ns = raw->row.start_ns > start_ns ? raw->row.start_ns - start_ns : 0;
    return since_ns >= options->from_ns && (options->to_ns == 0 || since_ns < options->to_ns) &&
           (options->thread < 0 || options->thread == raw->thread_id);
}

/* Whether --runtime selects the collection: it is of the heap of this runtime, or was caused by its
 * code. --runtime=c selects the collections of heaps without a runtime whose stacks have no frame
 * of a runtime. */
static bool is_of_runtime(const struct ag_profile *source, const struct ag_model_collection *raw,
                          const struct verdict *verdict) {
    const char *wanted = source->options.runtime;
    return !wanted ? true
           : ag_runtime_wants_native(wanted)
               ? !verdict->has_frame && ag_runtime_is_native(raw->row.runtime)
               : verdict->has_frame || strcmp(wanted, raw->row.runtime) == 0;
}

static int add_source(struct gathering *gathering, struct ag_profile *source, uint64_t offset_ns) {
    const struct ag_definitions *definitions = &source->definitions;
    struct ag_collections *to = &gathering->profile->collections;
    gathering->source = source;
    gathering->offset_ns = offset_ns;
    gathering->n_verdicts = 0;
    int r = 0;
    for (size_t i = 0; i < definitions->n_collections && r == 0; i++) {
        const struct ag_model_collection *raw = &definitions->collections[i];
        struct verdict verdict = {.is_kept = false};
        r = is_wanted(source, raw) ? verdict_on(gathering, raw, &verdict) : 0;
        if (r == 0 && verdict.is_kept && is_of_runtime(source, raw, &verdict)) {
            struct ag_collection_row *row = &to->rows[to->n_rows++];
            *row = raw->row;
            row->cause_frame = verdict.cause_frame;
            row->thread_id = raw->thread_id;
            row->start_ns =
                row->start_ns > definitions->start_ns ? row->start_ns - definitions->start_ns : 0;
            row->start_ns += offset_ns;
        }
    }
    ag_index_map_done(&gathering->stacks);
    return r;
}

static int by_start(const void *a, const void *b) {
    const struct ag_collection_row *left = a, *right = b;
    if (left->start_ns != right->start_ns) {
        return left->start_ns < right->start_ns ? -1 : 1;
    }
    /* an outer collection comes before the collections within it */
    return (left->pause_ns < right->pause_ns) - (left->pause_ns > right->pause_ns);
}

/* ---- collections within collections ---- */

static bool is_within(const struct ag_collection_row *inner,
                      const struct ag_collection_row *outer) {
    return inner->known & outer->known & AG_GC_KNOWN_END && !inner->process &&
           inner->start_ns + inner->pause_ns <= outer->start_ns + outer->pause_ns;
}

/* Sets is_nested and reclaimed_bytes of all rows. */
static int find_reclaimed(struct ag_profile *profile) {
    struct ag_collections *all = &profile->collections;
    struct ag_index_map threads = {0}; /* runtime << 32 | thread -> number in `outer` */
    /* by number of the thread: its newest row that is not nested */
    uint32_t *outer = calloc(all->n_rows + 1, sizeof(*outer));
    __int128 *reclaimed = calloc(all->n_rows + 1, sizeof(*reclaimed));
    int r = outer && reclaimed ? 0 : -ENOMEM;
    for (size_t i = 0; i < all->n_rows && r >= 0; i++) {
        struct ag_collection_row *row = &all->rows[i];
        const uint64_t runtime =
            ag_text_id(&profile->definitions.texts, row->runtime, strlen(row->runtime));
        const bool is_young = row->known & AG_GC_KNOWN_PROMOTED;
        if (row->known & AG_GC_KNOWN_HEAP) {
            reclaimed[i] = (__int128)row->heap_before_bytes - row->heap_after_bytes -
                           (is_young ? row->promoted_bytes : 0);
        }
        uint32_t at;
        r = ag_index_map_number(&threads, runtime << 32 | row->thread_id, &at);
        const struct ag_collection_row *before = r == 0 ? &all->rows[outer[at]] : NULL;
        row->is_nested = before && is_within(row, before);
        if (r >= 0 && !row->is_nested) {
            outer[at] = (uint32_t)i;
        } else if (row->is_nested && is_young == !!(before->known & AG_GC_KNOWN_PROMOTED)) {
            reclaimed[i] = 0;
        } else if (row->is_nested && is_young && before->known & AG_GC_KNOWN_HEAP) {
            reclaimed[outer[at]] += row->promoted_bytes;
        }
    }
    for (size_t i = 0; i < all->n_rows && r >= 0; i++) {
        all->rows[i].reclaimed_bytes = reclaimed[i] > 0 ? (uint64_t)reclaimed[i] : 0;
    }
    ag_index_map_done(&threads);
    free(outer);
    free(reclaimed);
    return r < 0 ? r : 0;
}

/* ---- sums ---- */

static void add_to_sum(struct ag_collection_sum *sum, const struct ag_collection_row *row) {
    sum->collections++;
    if (row->known & AG_GC_KNOWN_END) {
        sum->pause_total_ns += row->is_nested ? 0 : row->pause_ns;
        sum->pause_max_ns = row->pause_ns > sum->pause_max_ns ? row->pause_ns : sum->pause_max_ns;
    } else {
        sum->unended++;
    }
    if (strcmp(row->kind, "minor") != 0 && row->start_ns > sum->last_ns) {
        sum->last_ns = row->start_ns;
    }
    sum->needed_bytes += row->known & AG_GC_KNOWN_NEED ? row->needed_bytes : 0;
    sum->reclaimed_bytes += row->reclaimed_bytes;
    if (row->known & AG_GC_KNOWN_PROMOTED) {
        sum->promoted_bytes += row->promoted_bytes;
        sum->has_promoted = true;
    }
    sum->allocated_bytes += row->known & AG_GC_KNOWN_ALLOCATED ? row->weight_bytes : 0;
}

/* Returns the sum of KEY in LIST. If KEY has no sum, adds MADE, for which LIST has room. NULL: out
 * of memory. */
static struct ag_collection_sum *sum_of(struct ag_collection_sum *list, size_t *count,
                                        struct ag_index_map *map, uint64_t key,
                                        struct ag_collection_sum made) {
    uint32_t at;
    const int r = ag_index_map_number(map, key, &at);
    if (r > 0) {
        list[(*count)++] = made;
    }
    return r < 0 ? NULL : &list[at];
}

/* Two causes are equal if their functions and images are equal, even if their lines differ. The
 * image of a managed function is the runtime in brackets. */
static uint64_t cause_key(const struct ag_profile *profile, uint32_t frame) {
    if (frame == NO_FRAME) {
        return UINT64_MAX;
    }
    const struct ag_model_frame *model = ag_frame_table_get(&profile->frames, frame);
    return model->function | (uint64_t)model->image << 32;
}

static int add_to_process(struct ag_profile *profile, struct ag_index_map *processes,
                          const struct ag_collection_row *row, uint32_t runtime) {
    struct ag_collections *all = &profile->collections;
    const uint32_t name =
        ag_text_id(&profile->definitions.texts, row->process, strlen(row->process));
    struct ag_collection_sum *sum = sum_of(
        all->processes, &all->n_processes, processes, name | (uint64_t)runtime << 32,
        (struct ag_collection_sum){
            .runtime = row->runtime, .process = row->process, .cause_frame = row->cause_frame});
    if (!sum) {
        return -ENOMEM;
    }
    if (row->known & AG_GC_KNOWN_END && row->pause_ns > sum->pause_max_ns) {
        sum->cause_frame = row->cause_frame;
    }
    add_to_sum(sum, row);
    return 0;
}

static int add_up(struct ag_profile *profile) {
    struct ag_collections *all = &profile->collections;
    struct ag_index_map runtimes = {0}, causes = {0}, processes = {0};
    int r = 0;
    for (size_t i = 0; i < all->n_rows && r == 0; i++) {
        const struct ag_collection_row *row = &all->rows[i];
        const uint32_t name =
            ag_text_id(&profile->definitions.texts, row->runtime, strlen(row->runtime));
        struct ag_collection_sum *runtime =
            sum_of(all->runtimes, &all->n_runtimes, &runtimes, name,
                   (struct ag_collection_sum){.runtime = row->runtime, .cause_frame = NO_FRAME});
        const char *of_cause = row->cause_frame != NO_FRAME
                                   ? ag_profile_frame(profile, row->cause_frame)->runtime
                                   : NULL;
        struct ag_collection_sum *cause = sum_of(
            all->causes, &all->n_causes, &causes, cause_key(profile, row->cause_frame),
            (struct ag_collection_sum){.runtime = of_cause, .cause_frame = row->cause_frame});
        if (runtime && cause) {
            add_to_sum(runtime, row);
            add_to_sum(cause, row);
        } else {
            r = -ENOMEM;
        }
        r = r < 0 || !row->process ? r : add_to_process(profile, &processes, row, name);
    }
    ag_index_map_done(&runtimes);
    ag_index_map_done(&causes);
    ag_index_map_done(&processes);
    return r;
}

static int gather(struct ag_profile *profile) {
    struct ag_collections *all = &profile->collections;
    struct gathering gathering = {.profile = profile};
    size_t most = profile->definitions.n_collections;
    for (size_t p = 0; p < profile->n_parts; p++) {
        most += profile->parts[p].profile->definitions.n_collections;
    }
    all->rows = calloc(most + 1, sizeof(*all->rows));
    all->runtimes = calloc(most + 1, sizeof(*all->runtimes));
    all->causes = calloc(most + 1, sizeof(*all->causes));
    all->processes = calloc(most + 1, sizeof(*all->processes));
    int r = all->rows && all->runtimes && all->causes && all->processes ? 0 : -ENOMEM;
    if (r == 0 && profile->n_parts == 0) {
        r = add_source(&gathering, profile, /* offset_ns= */ 0);
    }
    for (size_t p = 0; p < profile->n_parts && r == 0; p++) {
        const struct ag_merged_part *part = &profile->parts[p];
        r = add_source(&gathering, part->profile, part->offset_ns);
    }
    free(gathering.verdicts);
    if (r == 0) {
        qsort(all->rows, all->n_rows, sizeof(*all->rows), by_start);
        r = find_reclaimed(profile);
        r = r < 0 ? r : add_up(profile);
    }
    return r;
}

int ag_profile_collections(struct ag_profile *profile,
                           const struct ag_collections **ret_collections) {
    if (!profile->has_collections) {
        const int r = gather(profile);
        if (r < 0) {
            ag_collections_end(profile);
            return r;
        }
        profile->has_collections = true;
    }
    *ret_collections = &profile->collections;
    return 0;
}

void ag_collections_end(struct ag_profile *profile) {
    free(profile->collections.rows);
    free(profile->collections.runtimes);
    free(profile->collections.causes);
    free(profile->collections.processes);
    profile->collections = (struct ag_collections){0};
}

/* ---- heaps ---- */

bool ag_heap_is_collected(const struct ag_definitions *definitions,
                          const struct ag_model_heap *heap, uint64_t *ret_ns) {
    bool is_found = strcmp(heap->kind, "malloc") != 0;
    *ret_ns = 0;
    for (size_t i = 0; i < definitions->n_runtimes; i++) {
        const struct ag_profile_runtime *runtime = &definitions->runtimes[i];
        is_found |= runtime->counted > 0 && strcmp(runtime->name, heap->runtime) == 0;
    }
    for (size_t i = 0; i < definitions->n_collections; i++) {
        const struct ag_collection_row *row = &definitions->collections[i].row;
        if (strcmp(row->runtime, heap->runtime) == 0) {
            const uint64_t start_ns =
                row->start_ns > definitions->start_ns ? row->start_ns - definitions->start_ns : 0;
            is_found = true;
            if (strcmp(row->kind, "minor") != 0 && start_ns > *ret_ns) {
                *ret_ns = start_ns;
            }
        }
    }
    return is_found;
}

bool ag_profile_row_is_collected(const struct ag_profile *profile, size_t row) {
    const struct ag_model_heap *heap =
        ag_definitions_heap_of_via(&profile->definitions, profile->rows[row].via);
    uint64_t unused;
    return heap && ag_heap_is_collected(&profile->definitions, heap, &unused);
}
