/* sampled_pass.c: makes a pass over the events of a sampled trace for profile.c, and converts the
 * ledger's counts of samples to estimates with variances.
 *
 * 1. A group (weights.h) contains samples with equal weight, the number of blocks (or bytes) that
 * one sample represents. If a group has n samples of weight w, the estimate is n * w, and the
 * estimated variance is n * spread, where spread is the variance of one sample. Blocks are chosen
 * independently, so the variance of a sum of estimates is the sum of their variances. These
 * formulas also apply to every part of a group that does not depend on the choice of samples: the
 * freed blocks, the blocks in use, the blocks of one thread. Sums are computed as doubles and
 * rounded once.
 *
 * 2. The ledger (the code that computes sums from events) has a sum for each group; these are
 * converted to sums by stack and by heap. The ledger's sums of threads and of pairs of threads
 * count samples, so this file computes new sums from the single blocks that the ledger reports.
 * This file also computes a timeline of estimates ("moments") from the ledger's steps, the births
 * and deaths of blocks. The bytes that the ledger adds are estimates, so the ledger finds the
 * correct peak. moment_of finds the moment for each point of the ledger's timeline, by the bytes in
 * use.
 *
 * 3. The number of temporary blocks (freed before their thread allocated again) is unknown, because
 * most of the other allocations were not sampled. The number is set to 0, and the reports say that
 * it is not known. */
#include "model/pass/sampled_pass.h"

#include <errno.h>
#include <stdlib.h>

#include "model/interval.h"
#include "model/metric.h"
#include "table/array.h"

enum { MOMENTS = 1 << 16 };

struct estimate {
    /* index: metric - AG_METRIC_FIRST. heaviest, portion_bytes: see struct ag_metrics */
    double value[AG_METRICS], variance[AG_METRICS], heaviest, portion_bytes;
};
struct pair_estimate {
    uint32_t allocated_by, freed_by;
    struct estimate estimate;
};
struct thread_estimate {
    uint32_t stream;
    struct estimate estimate;
};
struct moment { /* estimates of what is in use at a time, and was allocated until then */
    uint64_t time_ns;
    /* sum of ag_weight_whole_bytes of the samples in use, equal to the ledger's bytes in use */
    uint64_t in_use_bytes;
    struct estimate estimate;
};
struct sampling {
    struct ag_weights weights;
    const struct ag_pass_options *options; /* options of the caller */
    struct thread_estimate *threads;
    struct pair_estimate *pairs;
    size_t n_threads, n_pairs;
    struct ag_index_map thread_index, pair_index;
    /* moments: one for each time slice of 2^slice_bits ns, the moment with the most bytes in use of
     * the slice; sorted by time */
    struct moment now, *moments;
    size_t n_moments;
    uint32_t slice_bits;
    int error;
};

/* ---- estimates ---- */

static void estimate_add(struct estimate *estimate, enum ag_metric metric, double n,
                         const struct ag_weight *weight) {
    const int i = metric - AG_METRIC_FIRST;
    const double size = (double)weight->size;
    const bool is_bytes = ag_metric_is_bytes(metric);
    estimate->value[i] += n * (is_bytes ? weight->bytes : weight->blocks);
    estimate->variance[i] += n * weight->spread * (is_bytes ? size * size : 1);
    estimate->heaviest = weight->blocks > estimate->heaviest ? weight->blocks : estimate->heaviest;
    estimate->portion_bytes = weight->portion_bytes > estimate->portion_bytes
                                  ? weight->portion_bytes
                                  : estimate->portion_bytes;
}

static void add_both(struct estimate *estimate, enum ag_metric bytes, double n,
                     const struct ag_weight *weight) {
    estimate_add(estimate, bytes, n, weight);
    estimate_add(estimate, ag_metric_blocks_of(bytes), n, weight);
}

/* Returns the rounded number of freed blocks or bytes. ALL (allocated), LEFT (in use) and GONE
 * (freed) were rounded separately, but must satisfy ALL = GONE + LEFT. So the result is ALL - LEFT
 * if this differs from GONE by at most 1. A larger difference occurs in sums of threads or of pairs
 * of threads, for which the equation does not hold; then the result is GONE. */
static uint64_t rest_of(uint64_t all, uint64_t left, uint64_t gone) {
    const uint64_t rest = all - left;
    return left <= all && rest <= gone + 1 && gone <= rest + 1 ? rest : gone;
}

static struct ag_metrics whole(const struct estimate *estimate) {
    struct ag_metrics metrics = {.heaviest = ag_estimate_variance(estimate->heaviest),
                                 .portion_bytes = ag_estimate_variance(estimate->portion_bytes)};
#define TAKE(NAME, name)                                                                   \
    metrics.name = ag_estimate_whole(estimate->value[AG_METRIC_##NAME - AG_METRIC_FIRST]); \
    metrics.variance[AG_METRIC_##NAME - AG_METRIC_FIRST] =                                 \
        ag_estimate_variance(estimate->variance[AG_METRIC_##NAME - AG_METRIC_FIRST]);
    AG_METRIC_TABLE(TAKE)
#undef TAKE
    metrics.freed_bytes =
        rest_of(metrics.allocated_bytes, metrics.in_use_bytes, metrics.freed_bytes);
    metrics.freed_blocks =
        rest_of(metrics.allocated_blocks, metrics.in_use_blocks, metrics.freed_blocks);
    return metrics;
}

/* ---- threads, from single blocks ---- */

static struct estimate *of_thread(struct sampling *sampling, uint32_t stream) {
    uint32_t at;
    int r = ag_index_map_number(&sampling->thread_index, stream, &at);
    r = r > 0 ? AG_ARRAY_ADD(sampling->threads, sampling->n_threads,
                             (struct thread_estimate){.stream = stream})
              : r;
    sampling->error = r < 0 ? r : sampling->error;
    return r < 0 ? NULL : &sampling->threads[at].estimate;
}

static struct estimate *of_pair(struct sampling *sampling, uint32_t allocated_by,
                                uint32_t freed_by) {
    const struct pair_estimate pair = {.allocated_by = allocated_by, .freed_by = freed_by};
    uint32_t at;
    int r =
        ag_index_map_number(&sampling->pair_index, (uint64_t)allocated_by << 32 | freed_by, &at);
    r = r > 0 ? AG_ARRAY_ADD(sampling->pairs, sampling->n_pairs, pair) : r;
    sampling->error = r < 0 ? r : sampling->error;
    return r < 0 ? NULL : &sampling->pairs[at].estimate;
}

static void count_block(struct sampling *sampling, const struct ag_block *block,
                        const struct ag_weight *weight) {
    const uint64_t from_ns = sampling->options->from_ns;
    struct estimate *allocated = of_thread(sampling, block->allocated_by);
    if (allocated && block->allocated_ns >= from_ns) {
        add_both(allocated, AG_METRIC_ALLOCATED_BYTES, 1, weight);
    }
    if (block->freed_ns == UINT64_MAX || block->freed_ns < from_ns ||
        block->freed_by == UINT32_MAX) {
        return;
    }
    struct estimate *freed = of_thread(sampling, block->freed_by);
    struct estimate *pair = block->freed_by == block->allocated_by
                                ? NULL
                                : of_pair(sampling, block->allocated_by, block->freed_by);
    if (freed) {
        add_both(freed, AG_METRIC_FREED_BYTES, 1, weight);
    }
    if (pair) {
        add_both(pair, AG_METRIC_FREED_BYTES, 1, weight);
    }
}

static void visit_block(void *context, const struct ag_block *block) {
    struct sampling *sampling = context;
    const struct ag_weight *weight = ag_weights_of(&sampling->weights, block->stack);
    if (!weight) {
        return; /* cannot happen: the ledger has the number of a group in place of a stack */
    }
    count_block(sampling, block, weight);
    if (sampling->options->visit_block) {
        struct ag_block shown = *block;
        shown.stack = weight->stack;
        shown.size = weight->size;
        shown.weight = weight;
        sampling->options->visit_block(sampling->options->visit_context, &shown);
    }
}

static void visit_ghost(void *context, const struct ag_ghost *ghost, bool is_taken_back) {
    const struct sampling *sampling = context;
    sampling->options->visit_ghost(sampling->options->visit_context, ghost, is_taken_back);
}

/* ---- the timeline, from steps ---- */

/* Doubles the length of the slices. Of the two moments in a new slice, the one with more bytes in
 * use is kept. */
static void thin_out(struct sampling *sampling) {
    struct moment *moments = sampling->moments;
    size_t kept = 0;
    sampling->slice_bits++;
    for (size_t i = 0; i < sampling->n_moments; i++) {
        const bool is_same = kept > 0 && moments[kept - 1].time_ns >> sampling->slice_bits ==
                                             moments[i].time_ns >> sampling->slice_bits;
        if (!is_same) {
            moments[kept++] = moments[i];
        } else if (moments[i].in_use_bytes >= moments[kept - 1].in_use_bytes) {
            moments[kept - 1] = moments[i];
        }
    }
    sampling->n_moments = kept;
}

static void keep_moment(struct sampling *sampling) {
    while (sampling->n_moments == MOMENTS) {
        thin_out(sampling);
    }
    struct moment *last =
        sampling->n_moments > 0 ? &sampling->moments[sampling->n_moments - 1] : NULL;
    if (!last ||
        last->time_ns >> sampling->slice_bits < sampling->now.time_ns >> sampling->slice_bits) {
        sampling->moments[sampling->n_moments++] = sampling->now;
    } else if (sampling->now.in_use_bytes >= last->in_use_bytes) {
        *last = sampling->now;
    }
}

static int take_step(void *context, const struct ag_step *step) {
    struct sampling *sampling = context;
    const struct ag_weight *weight = ag_weights_of(&sampling->weights, step->stack);
    struct moment *now = &sampling->now;
    if (!weight) {
        return 0;
    }
    const bool is_more = step->kind == AG_STEP_BIRTH || step->kind == AG_STEP_DEATH_UNDONE;
    const bool is_of_birth = step->kind == AG_STEP_BIRTH || step->kind == AG_STEP_BIRTH_UNDONE;
    const double n = is_more ? 1 : -1;
    add_both(&now->estimate, AG_METRIC_IN_USE_BYTES, n, weight);
    if (is_of_birth) {
        add_both(&now->estimate, AG_METRIC_ALLOCATED_BYTES, n, weight);
    }
    now->time_ns = step->time_ns > now->time_ns ? step->time_ns : now->time_ns;
    now->in_use_bytes +=
        is_more ? ag_weight_whole_bytes(weight) : 0 - ag_weight_whole_bytes(weight);
    keep_moment(sampling);
    return 0;
}

/* Finds the moment that belongs to a point of the ledger's timeline. Returns 1 + index of the
 * moment; 0: nothing had been sampled at this time. FIRST is the result for the previous point;
 * moments after UNTIL_NS are not considered. The point and its moment may have different times, but
 * have equal bytes in use. So of the moments that have the bytes of the point, the last at or
 * before the point is returned; if there is none, the first after the point. If no moment has these
 * bytes, the last moment that is not later than the point is returned. */
static size_t moment_of(const struct sampling *sampling, const struct ag_timeline_point *point,
                        uint64_t until_ns, size_t first) {
    const struct moment *moments = sampling->moments;
    size_t at = first;
    while (at < sampling->n_moments && moments[at].time_ns <= point->time_ns) {
        at++;
    }
    for (size_t i = at + 1; i-- > first;) {
        if ((i > 0 ? moments[i - 1].in_use_bytes : 0) == point->in_use_bytes) {
            return i;
        }
    }
    for (size_t i = at; i < sampling->n_moments && moments[i].time_ns <= until_ns; i++) {
        if (moments[i].in_use_bytes == point->in_use_bytes) {
            return i + 1;
        }
    }
    return at;
}

/* Replaces the numbers of each point of the ledger's timeline by the estimates of the moment that
 * belongs to it. */
static int estimate_timeline(const struct sampling *sampling, struct ag_model_sums *sums) {
    sums->timeline_estimates = calloc(sums->n_timeline + 1, sizeof(*sums->timeline_estimates));
    if (!sums->timeline_estimates) {
        return -ENOMEM;
    }
    size_t at = 0;
    for (size_t i = 0; i < sums->n_timeline; i++) {
        struct ag_timeline_point *point = &sums->timeline[i];
        const bool is_end = i + 1 == sums->n_timeline;
        const struct moment nothing = {.time_ns = 0}, *moment = &sampling->now;
        if (!is_end) {
            at = moment_of(sampling, point, point[1].time_ns, at);
            moment = at > 0 ? &sampling->moments[at - 1] : &nothing;
        }
        const struct ag_metrics metrics = whole(&moment->estimate);
        point->in_use_bytes = metrics.in_use_bytes;
        point->in_use_blocks = metrics.in_use_blocks;
        point->allocated_bytes = metrics.allocated_bytes;
        sums->timeline_estimates[i] = metrics;
    }
    return 0;
}

/* ---- stacks and heaps, from sums ---- */

static void add_group(struct estimate *estimate, const struct ag_stack_sum *sum,
                      const struct ag_live_sum *live, const struct ag_weight *weight) {
    add_both(estimate, AG_METRIC_ALLOCATED_BYTES, (double)sum->allocated_blocks, weight);
    add_both(estimate, AG_METRIC_FREED_BYTES, (double)sum->freed_blocks, weight);
    add_both(estimate, AG_METRIC_IN_USE_BYTES, (double)live->blocks, weight);
    add_both(estimate, AG_METRIC_PEAK_BYTES, (double)sum->peak_blocks, weight);
}

static void put_stack(struct ag_model_sums *sums, struct ag_live_sum *live, size_t at,
                      const struct ag_metrics *metrics) {
    struct ag_stack_sum *sum = &sums->stacks[at];
    sum->allocated_blocks = metrics->allocated_blocks;
    sum->allocated_bytes = metrics->allocated_bytes;
    sum->freed_blocks = metrics->freed_blocks;
    sum->freed_bytes = metrics->freed_bytes;
    sum->peak_blocks = metrics->peak_blocks;
    sum->peak_bytes = metrics->peak_bytes;
    sum->temporary_blocks = 0;
    live[at] =
        (struct ag_live_sum){.blocks = metrics->in_use_blocks, .bytes = metrics->in_use_bytes};
    sums->stack_estimates[at] = *metrics;
}

/* Converts the sums by group to estimates by stack and via (allocation function). */
static int estimate_stacks(const struct ag_weights *weights, struct ag_model_sums *sums,
                           struct ag_live_sum *live) {
    struct ag_index_map by_stack = {0};
    struct estimate *estimates = calloc(sums->n_stacks + 1, sizeof(*estimates));
    size_t n = 0;
    sums->stack_estimates = calloc(sums->n_stacks + 1, sizeof(*sums->stack_estimates));
    int r = estimates && sums->stack_estimates ? 0 : -ENOMEM;
    for (size_t i = 0; i < sums->n_stacks && r == 0; i++) {
        const struct ag_stack_sum sum = sums->stacks[i];
        const struct ag_weight *weight = ag_weights_of(weights, sum.stack);
        if (!weight) {
            continue; /* cannot happen: the ledger has the number of a group in place of a stack */
        }
        const uint64_t key = weight->stack | (uint64_t)sum.via << 32;
        uint32_t at;
        const int is_new = ag_index_map_number(&by_stack, key, &at);
        if (is_new < 0) {
            r = is_new;
            break;
        }
        n += (size_t)is_new;
        add_group(&estimates[at], &sum, &live[i], weight);
        /* at <= i, so this overwrites no sum that is still needed */
        sums->stacks[at].stack = weight->stack;
        sums->stacks[at].via = sum.via;
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct ag_metrics metrics = whole(&estimates[i]);
        put_stack(sums, live, i, &metrics);
    }
    sums->n_stacks = n;
    ag_index_map_done(&by_stack);
    free(estimates);
    return r;
}

static int estimate_heaps(const struct ag_definitions *definitions, struct ag_model_sums *sums) {
    sums->heap_estimates = calloc(sums->n_heaps + 1, sizeof(*sums->heap_estimates));
    if (!sums->heap_estimates) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < sums->n_heaps; i++) {
        struct ag_heap_sum *heap = &sums->heaps[i];
        struct ag_metrics *metrics = &sums->heap_estimates[i];
        for (size_t k = 0; k < sums->n_stacks; k++) {
            const uint32_t via = sums->stacks[k].via % AG_MODEL_VIAS;
            if (definitions->vias[via].heap == heap->heap) {
                ag_metrics_add(metrics, &sums->stack_estimates[k]);
            }
        }
        heap->allocated_blocks = metrics->allocated_blocks;
        heap->allocated_bytes = metrics->allocated_bytes;
        heap->in_use_blocks = metrics->in_use_blocks;
        heap->in_use_bytes = metrics->in_use_bytes;
        heap->peak_bytes = metrics->peak_bytes;
    }
    return 0;
}

/* ---- threads ---- */

/* Returns the row of the thread to which STREAM belongs; SIZE_MAX: none. The signal handlers of a
 * thread have a stream of their own, but the ledger has merged the row of that stream with the row
 * of the thread. So if no row has the stream, the row with the thread id is returned. */
static size_t row_of(const struct ag_definitions *definitions, const struct ag_model_sums *sums,
                     uint32_t stream) {
    const uint32_t known = ag_index_map_find(&definitions->stream_index, stream);
    const uint32_t thread_id =
        known != AG_INDEX_NONE ? definitions->threads[known].thread_id & ~AG_THREAD_NESTED : 0;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < sums->n_threads; i++) {
        if (sums->threads[i].stream == stream) {
            return i;
        }
        found = thread_id != 0 && sums->threads[i].thread_id == thread_id ? i : found;
    }
    return found;
}

static int estimate_threads(const struct sampling *sampling,
                            const struct ag_definitions *definitions, struct ag_model_sums *sums) {
    sums->thread_estimates = calloc(sums->n_threads + 1, sizeof(*sums->thread_estimates));
    if (!sums->thread_estimates) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < sampling->n_threads; i++) {
        const size_t row = row_of(definitions, sums, sampling->threads[i].stream);
        if (row != SIZE_MAX) {
            const struct ag_metrics metrics = whole(&sampling->threads[i].estimate);
            ag_metrics_add(&sums->thread_estimates[row], &metrics);
        }
    }
    for (size_t i = 0; i < sums->n_threads; i++) {
        const struct ag_metrics *metrics = &sums->thread_estimates[i];
        sums->threads[i].allocated_blocks = metrics->allocated_blocks;
        sums->threads[i].allocated_bytes = metrics->allocated_bytes;
        sums->threads[i].freed_blocks = metrics->freed_blocks;
        sums->threads[i].freed_bytes = metrics->freed_bytes;
    }
    return 0;
}

static int estimate_pairs(const struct sampling *sampling, const struct ag_definitions *definitions,
                          struct ag_model_sums *sums) {
    free(sums->pairs);
    sums->n_pairs = 0;
    sums->pairs = calloc(sampling->n_pairs + 1, sizeof(*sums->pairs));
    sums->pair_estimates = calloc(sampling->n_pairs + 1, sizeof(*sums->pair_estimates));
    if (!sums->pairs || !sums->pair_estimates) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < sampling->n_pairs; i++) {
        const struct pair_estimate *pair = &sampling->pairs[i];
        const size_t from = row_of(definitions, sums, pair->allocated_by),
                     to = row_of(definitions, sums, pair->freed_by);
        if (from == to || from == SIZE_MAX || to == SIZE_MAX) {
            continue;
        }
        const struct ag_metrics metrics = whole(&pair->estimate);
        sums->pair_estimates[sums->n_pairs] = metrics;
        sums->pairs[sums->n_pairs++] =
            (struct ag_thread_pair){.allocated_by = sums->threads[from].stream,
                                    .freed_by = sums->threads[to].stream,
                                    .blocks = metrics.freed_blocks,
                                    .bytes = metrics.freed_bytes};
    }
    return 0;
}

/* ---- the pass ---- */

static void sampling_end(struct sampling *sampling) {
    ag_weights_done(&sampling->weights);
    ag_index_map_done(&sampling->thread_index);
    ag_index_map_done(&sampling->pair_index);
    free(sampling->threads);
    free(sampling->pairs);
    free(sampling->moments);
}

static int sampling_run(struct sampling *sampling, const struct ag_trace_file *file,
                        struct ag_definitions *definitions, struct ag_ledger *ledger) {
    struct ag_pass_options options = *sampling->options;
    options.weights = &sampling->weights;
    options.visit_block = visit_block;
    options.visit_ghost = options.visit_ghost ? visit_ghost : NULL;
    options.visit_context = sampling;
    int r = ag_ledger_on_step(ledger, take_step, sampling);
    r = r < 0 ? r : ag_event_pass(file, definitions, &options, ledger);
    return r < 0 ? r : sampling->error;
}

int ag_sampled_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                    const struct ag_pass_options *options, struct ag_ledger *ledger,
                    ag_take_results *take_results, struct ag_model_sums *ret_sums,
                    struct ag_live_sum **ret_live) {
    struct sampling sampling = {.options = options,
                                .moments = malloc(MOMENTS * sizeof(*sampling.moments))};
    int r = sampling.moments ? sampling_run(&sampling, file, definitions, ledger) : -ENOMEM;
    r = r < 0 ? r : take_results(ledger, ret_sums, ret_live);
    r = r < 0 ? r : estimate_stacks(&sampling.weights, ret_sums, *ret_live);
    r = r < 0 ? r : estimate_heaps(definitions, ret_sums);
    r = r < 0 ? r : estimate_threads(&sampling, definitions, ret_sums);
    r = r < 0 ? r : estimate_pairs(&sampling, definitions, ret_sums);
    r = r < 0 ? r : estimate_timeline(&sampling, ret_sums);
    sampling_end(&sampling);
    return r;
}
