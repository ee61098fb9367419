/* history.c: computes how the memory of a profile changed over time, for the page of `allogram
 * view`. The profile is open already, so its stacks are known. This file makes a pass over the
 * events in which every stack is replaced by its group of stacks (see outline.h), so that the
 * ledger (the code that computes sums from the events) has some thousand sums instead of a million.
 * A merged profile has a pass for each process. Each group belongs to one process, so a pass has
 * only the groups of its process, and numbers them without gaps (local groups). The slices are the
 * same for all processes. At the end of each slice of time the sums are compared with the previous
 * ones; a group whose sums changed gets an entry. The ledger finds the peak of each slice, so what
 * was in use at the peak of any range of slices is exactly known.
 *
 * Sizes, lifetimes, leaks and threads are counted from single blocks. The ledger reports each block
 * when it is freed, or at the end of the pass.
 *
 * The rows of all groups exceed the CPU's caches, and consecutive blocks belong to unrelated
 * groups. So the row of a block is prefetched when the ledger reports the block, and the block is
 * counted AHEAD blocks later.
 *
 * In a sampled trace, each sample has a weight: the number of blocks that it represents
 * (weights.h). In such a trace, the ledger's groups are not those of the outline: each contains the
 * samples of one weight. The bytes in the ledger are already estimates. The ledger's numbers of
 * blocks are numbers of samples; this file multiplies them by the weights. Single blocks are
 * counted in units of 1 / AG_REPLAY_ONE_BLOCK, and rounded once at the end. */
#include "model/answers/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/interval.h"
#include "model/pass/replay.h"
#include "model/profile_state.h"
#include "table/array.h"
#include "table/table_memory.h"

enum { AHEAD = 16 }; /* number of blocks between the prefetch of a row and its use */

struct making {
    /* of the whole history */
    struct ag_profile *whole;
    const struct ag_outline *outline;
    struct ag_history *history;
    ag_history_visit *visit;
    void *context;
    struct ag_index_map threads; /* stream -> number of its thread in the history */
    /* slice, allocating and freeing thread -> index in history->pairs */
    struct ag_index_map pairs;
    struct ag_index_map leaks; /* slice and group -> index in history->leaks */
    int error;
    /* the groups of the outline, sorted by process; those of process P begin at first_group[P] */
    uint32_t *sorted_groups;
    size_t *first_group;

    /* of the process whose events are read; the members below are only valid during its pass */
    struct ag_profile *profile;
    size_t first_row;      /* the number in `whole` of the first row of `profile` */
    uint32_t first_stream; /* what to add to a stream of `profile` for its number in `whole` */
    uint64_t start_ns;  /* start of the recording of this process, in session time (since the start
                         * of the session, the recording of all processes) */
    uint64_t offset_ns; /* from the start of the history to the start of this process */
    size_t first_slice;
    const uint32_t *group_of;        /* by local group: the group of the outline */
    size_t n_groups;                 /* number of local groups */
    struct ag_history_slice *slices; /* what this process had in use; by slice */
    struct ag_index_map groups;      /* made by ag_pass_group: (stack, via) -> local group */
    bool is_sampled;
    /* used if is_sampled: the groups of samples; their member `stack` is a local group */
    struct ag_weights weights;
    /* used if is_sampled: the estimated numbers of blocks before rounding; the index is group *
     * BLOCK_SUMS + one of BLOCKS_ALLOCATED ... */
    double *now_blocks;
    struct ag_stack_sum *before;   /* by local group: sums at the end of the previous slice */
    struct ag_stack_sum *now;      /* by local group: sums at the end of this slice */
    struct ag_history_entry *list; /* the entries of one slice, for `visit` */
    /* the last AHEAD blocks that the ledger reported, which are counted later; block number N is at
     * index N % AHEAD */
    struct ag_block waiting[AHEAD];
    size_t n_reported;
    uint64_t slice_from_ns; /* start of `slice` in session time */
    size_t slice;
};

/* The start of a slice in session time. It may be before the start of the session, if traces of
 * different sessions are merged: then it is the difference to 2^64. */
static uint64_t start_of_slice(const struct making *making, size_t slice) {
    return making->start_ns - making->offset_ns + slice * making->history->slice_ns;
}

/* Returns the slice of TIME_NS, a session time. Most calls have a time in the slice of the previous
 * call, for which no division is needed. */
static size_t slice_of(struct making *making, uint64_t time_ns) {
    const struct ag_history *history = making->history;
    if (time_ns - making->slice_from_ns < history->slice_ns) {
        return making->slice;
    }
    const uint64_t since_ns = time_ns > making->start_ns ? time_ns - making->start_ns : 0;
    const uint64_t slice = (making->offset_ns + since_ns) / history->slice_ns;
    making->slice = slice < history->n_slices ? (size_t)slice : history->n_slices - 1;
    making->slice_from_ns = start_of_slice(making, making->slice);
    return making->slice;
}

static uint32_t order_of(uint64_t number) {
    return number == 0 ? 0 : 63 - (uint32_t)__builtin_clzll(number);
}

/* ---- the sums at the end of a slice ---- */

/* Numbers of blocks of a sampled trace, computed as doubles because weights are fractions. */
enum { BLOCKS_ALLOCATED, BLOCKS_FREED, BLOCKS_AT_PEAK, BLOCK_SUMS };

static void add_blocks(const struct making *making, const struct ag_stack_sum *sum,
                       const struct ag_weight *weight) {
    double *blocks = &making->now_blocks[(size_t)weight->stack * BLOCK_SUMS];
    blocks[BLOCKS_ALLOCATED] += weight->blocks * (double)sum->allocated_blocks;
    blocks[BLOCKS_FREED] += weight->blocks * (double)sum->freed_blocks;
    blocks[BLOCKS_AT_PEAK] += weight->blocks * (double)sum->peak_blocks;
}

static void round_blocks(const struct making *making) {
    for (size_t i = 0; i < making->n_groups; i++) {
        const double *blocks = &making->now_blocks[i * BLOCK_SUMS];
        making->now[i].allocated_blocks = ag_estimate_whole(blocks[BLOCKS_ALLOCATED]);
        making->now[i].freed_blocks = ag_estimate_whole(blocks[BLOCKS_FREED]);
        making->now[i].peak_blocks = ag_estimate_whole(blocks[BLOCKS_AT_PEAK]);
        making->now[i].temporary_blocks = 0; /* unknown in a sampled trace */
    }
}

/* Adds up the ledger's sums by group. The ledger has one sum for each via (allocation function) of
 * a group. */
static void add_up(struct making *making, const struct ag_ledger *ledger) {
    const struct ag_stack_sum *sums;
    const size_t n = ag_ledger_stack_sums(ledger, &sums);
    memset(making->now, 0, making->n_groups * sizeof(*making->now));
    if (making->is_sampled) {
        memset(making->now_blocks, 0, making->n_groups * BLOCK_SUMS * sizeof(*making->now_blocks));
    }
    for (size_t i = 0; i < n; i++) {
        const struct ag_weight *weight =
            making->is_sampled ? ag_weights_of(&making->weights, sums[i].stack) : NULL;
        const uint32_t group = weight ? weight->stack : sums[i].stack;
        if (group >= making->n_groups) {
            continue; /* AG_STACK_OTHER: the sum of the blocks that filters exclude */
        }
        if (weight) {
            add_blocks(making, &sums[i], weight);
        }
        struct ag_stack_sum *sum = &making->now[group];
        sum->allocated_blocks += sums[i].allocated_blocks;
        sum->allocated_bytes += sums[i].allocated_bytes;
        sum->freed_blocks += sums[i].freed_blocks;
        sum->freed_bytes += sums[i].freed_bytes;
        sum->temporary_blocks += sums[i].temporary_blocks;
        sum->peak_blocks += sums[i].peak_blocks;
        sum->peak_bytes += sums[i].peak_bytes;
    }
    if (making->is_sampled) {
        round_blocks(making);
    }
}

static int64_t change(uint64_t now, uint64_t before) {
    return (int64_t)(now - before);
}

static struct ag_history_entry entry_of(uint32_t group, const struct ag_stack_sum *now,
                                        const struct ag_stack_sum *before) {
    return (struct ag_history_entry){
        .group = group,
        .allocated_blocks = change(now->allocated_blocks, before->allocated_blocks),
        .allocated_bytes = change(now->allocated_bytes, before->allocated_bytes),
        .freed_blocks = change(now->freed_blocks, before->freed_blocks),
        .freed_bytes = change(now->freed_bytes, before->freed_bytes),
        .temporary_blocks = change(now->temporary_blocks, before->temporary_blocks),
        .rise_blocks = change(now->peak_blocks, before->allocated_blocks - before->freed_blocks),
        .rise_bytes = change(now->peak_bytes, before->allocated_bytes - before->freed_bytes),
    };
}

static void note_slice(struct making *making, size_t slice, const struct ag_ledger *ledger,
                       const struct ag_ledger_period *period) {
    struct ag_history_slice *result = &making->slices[slice];
    size_t count = 0;
    add_up(making, ledger);
    for (uint32_t group = 0; group < making->n_groups; group++) {
        const struct ag_stack_sum *now = &making->now[group], *before = &making->before[group];
        result->in_use_bytes += now->allocated_bytes - now->freed_bytes;
        result->in_use_blocks += now->allocated_blocks - now->freed_blocks;
        result->allocated_bytes += now->allocated_bytes - before->allocated_bytes;
        result->peak_blocks += now->peak_blocks;
        if (now->allocated_blocks != before->allocated_blocks ||
            now->freed_blocks != before->freed_blocks ||
            now->allocated_bytes != before->allocated_bytes ||
            now->temporary_blocks != before->temporary_blocks) {
            making->list[count++] = entry_of(making->group_of[group], now, before);
        }
    }
    const uint64_t peak_ns = period->peak_time_ns;
    result->peak_bytes = period->peak_bytes;
    result->peak_blocks = making->is_sampled ? result->peak_blocks : period->peak_blocks;
    result->peak_time_ns =
        making->offset_ns + (peak_ns > making->start_ns ? peak_ns - making->start_ns : 0);
    struct ag_stack_sum *spare = making->before;
    making->before = making->now;
    making->now = spare;
    if (making->error == 0) {
        making->error = making->visit(making->context, slice, making->list, count);
    }
}

static void end_slice(void *context, size_t period_number, struct ag_ledger *ledger) {
    struct making *making = context;
    struct ag_ledger_period period;
    ag_ledger_end_period(ledger, &period);
    note_slice(making, making->first_slice + period_number, ledger, &period);
}

/* ---- the blocks ---- */

static void add_pair(struct making *making, size_t slice, uint32_t by, uint32_t freed_by,
                     const struct ag_history_count *what) {
    struct ag_history *history = making->history;
    const uint64_t key = (uint64_t)slice << 32 | by << 16 | freed_by;
    const struct ag_history_pair pair = {
        .slice = (uint32_t)slice, .allocated_by = by, .freed_by = freed_by};
    uint32_t at = ag_index_map_find(&making->pairs, key);
    if (at == AG_INDEX_NONE && history->n_pairs == AG_HISTORY_PAIRS) {
        return;
    }
    if (at == AG_INDEX_NONE && (ag_index_map_number(&making->pairs, key, &at) < 0 ||
                                AG_ARRAY_ADD(history->pairs, history->n_pairs, pair) < 0)) {
        making->error = -ENOMEM;
        return;
    }
    history->pairs[at].blocks += what->blocks;
    history->pairs[at].bytes += what->bytes;
}

static void add_leak(struct making *making, size_t slice, uint32_t group,
                     const struct ag_history_count *what) {
    struct ag_history *history = making->history;
    const uint64_t key = (uint64_t)slice << 32 | group;
    uint32_t at;
    int r = ag_index_map_number(&making->leaks, key, &at);
    r = r > 0 ? AG_ARRAY_ADD(history->leaks, history->n_leaks,
                             (struct ag_history_leak){.slice = (uint32_t)slice, .group = group})
              : r;
    if (r < 0) {
        making->error = r;
        return;
    }
    history->leaks[at].blocks += what->blocks;
    history->leaks[at].bytes += what->bytes;
}

/* Returns the number of the thread to which STREAM belongs. The last number is for all threads that
 * have no row of their own. */
static uint32_t thread_of(const struct making *making, uint32_t stream) {
    const uint32_t known = ag_index_map_find(&making->threads, making->first_stream + stream);
    return known != AG_INDEX_NONE ? known : (uint32_t)making->history->n_threads - 1;
}

static void count_threads(struct making *making, const struct ag_block *block, size_t born,
                          const struct ag_history_count *what) {
    struct ag_history *history = making->history;
    const size_t n = history->n_threads;
    const uint32_t by = thread_of(making, block->allocated_by);
    history->threads[born * n + by].allocated_blocks += what->blocks;
    history->threads[born * n + by].allocated_bytes += what->bytes;
    if (block->freed_ns == UINT64_MAX || block->freed_by == UINT32_MAX) {
        return;
    }
    const size_t died = slice_of(making, block->freed_ns);
    const uint32_t freed_by = thread_of(making, block->freed_by);
    history->threads[died * n + freed_by].freed_blocks += what->blocks;
    history->threads[died * n + freed_by].freed_bytes += what->bytes;
    if (by != freed_by) {
        add_pair(making, died, by, freed_by, what);
    }
}

static void add_count(struct ag_history_count *count, const struct ag_history_count *what) {
    count->blocks += what->blocks;
    count->bytes += what->bytes;
}

static uint32_t life_order_of(const struct ag_block *block) {
    return order_of(block->freed_ns > block->allocated_ns ? block->freed_ns - block->allocated_ns
                                                          : 0);
}

static const struct ag_weight *weight_of(const struct making *making,
                                         const struct ag_block *block) {
    return making->is_sampled ? ag_weights_of(&making->weights, block->stack) : NULL;
}

/* The unit of numbers of blocks, until round_counts: all processes of a merged profile have the
 * same unit, also those that were not sampled. */
static uint64_t one_block(const struct making *making) {
    return making->whole->definitions.is_sampled ? AG_REPLAY_ONE_BLOCK : 1;
}

static void count_block(struct making *making, const struct ag_block *block) {
    struct ag_history *history = making->history;
    const struct ag_weight *weight = weight_of(making, block);
    const uint32_t local = weight ? weight->stack : block->stack;
    const struct ag_history_count what = {
        .blocks =
            weight ? ag_estimate_whole(weight->blocks * AG_REPLAY_ONE_BLOCK) : one_block(making),
        .bytes = block->size};
    const size_t born = slice_of(making, block->allocated_ns);
    const uint32_t size_order = order_of(weight ? weight->size : block->size);
    const bool is_open = block->freed_ns == UINT64_MAX;
    const uint32_t life_order = life_order_of(block);
    add_count(&history->sizes[born * AG_HISTORY_ORDERS + size_order], &what);
    if (!is_open) {
        add_count(&history->lifetimes[born * AG_HISTORY_ORDERS + life_order], &what);
    }
    if (local < making->n_groups) {
        const uint32_t group = making->group_of[local];
        history->groups[group].sizes[size_order] += what.blocks;
        if (is_open) {
            add_leak(making, born, group, &what);
        } else {
            history->groups[group].lifetimes[life_order] += what.blocks;
        }
    }
    if (history->n_threads > 0) {
        count_threads(making, block, born, &what);
    }
}

static void ask_for_row(const struct making *making, const struct ag_block *block) {
    const struct ag_history *history = making->history;
    const struct ag_weight *weight = weight_of(making, block);
    const uint32_t local = weight ? weight->stack : block->stack;
    if (local < making->n_groups) {
        const struct ag_history_orders *orders = &history->groups[making->group_of[local]];
        AG_PREFETCH(&orders->sizes[order_of(weight ? weight->size : block->size)]);
        AG_PREFETCH(&orders->lifetimes[life_order_of(block)]);
    }
}

static void take_block(void *context, const struct ag_block *block) { /* an ag_block_visit */
    struct making *making = context;
    struct ag_block *place = &making->waiting[making->n_reported % AHEAD];
    if (making->n_reported >= AHEAD) {
        count_block(making, place);
    }
    ask_for_row(making, block);
    *place = *block;
    making->n_reported++;
}

static void count_waiting(struct making *making) {
    const size_t n = making->n_reported < AHEAD ? making->n_reported : AHEAD;
    for (size_t i = making->n_reported - n; i < making->n_reported; i++) {
        count_block(making, &making->waiting[i % AHEAD]);
    }
    making->n_reported = 0;
}

static void round_one(uint64_t *blocks) {
    *blocks = (*blocks + AG_REPLAY_ONE_BLOCK / 2) / AG_REPLAY_ONE_BLOCK;
}

/* Converts the counts of a sampled trace from units of 1 / AG_REPLAY_ONE_BLOCK to blocks. */
static void round_counts(const struct making *making) {
    struct ag_history *history = making->history;
    for (size_t i = 0; i < history->n_slices * AG_HISTORY_ORDERS; i++) {
        round_one(&history->sizes[i].blocks);
        round_one(&history->lifetimes[i].blocks);
    }
    for (size_t i = 0; i < history->n_groups; i++) {
        for (size_t order = 0; order < AG_HISTORY_ORDERS; order++) {
            round_one(&history->groups[i].sizes[order]);
            round_one(&history->groups[i].lifetimes[order]);
        }
    }
    for (size_t i = 0; i < history->n_slices * history->n_threads; i++) {
        round_one(&history->threads[i].allocated_blocks);
        round_one(&history->threads[i].freed_blocks);
    }
    for (size_t i = 0; i < history->n_pairs; i++) {
        round_one(&history->pairs[i].blocks);
    }
    for (size_t i = 0; i < history->n_leaks; i++) {
        round_one(&history->leaks[i].blocks);
    }
}

/* ---- threads: the threads that allocate most have a row of their own ---- */

static int by_allocations(const void *a, const void *b, void *context) {
    const struct ag_thread_row *rows = context;
    const uint64_t left = rows[*(const uint32_t *)a].sum.allocated_bytes,
                   right = rows[*(const uint32_t *)b].sum.allocated_bytes;
    return (left < right) - (left > right);
}

static int name_threads(struct making *making) {
    struct ag_history *history = making->history;
    const struct ag_thread_row *rows;
    const size_t n = ag_profile_threads(making->whole, &rows);
    history->thread_rows = malloc((n + 1) * sizeof(*history->thread_rows));
    if (!history->thread_rows) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        history->thread_rows[i] = (uint32_t)i;
    }
    qsort_r(history->thread_rows, n, sizeof(*history->thread_rows), by_allocations, (void *)rows);
    history->has_other_threads = n > AG_HISTORY_THREADS;
    history->n_threads = history->has_other_threads ? AG_HISTORY_THREADS : n;
    const size_t n_distinct = history->n_threads - history->has_other_threads;
    int r = 0;
    for (size_t i = 0; i < n_distinct && r == 0; i++) {
        r = ag_index_map_insert(&making->threads, rows[history->thread_rows[i]].stream,
                                (uint32_t)i);
    }
    return r;
}

/* The events in signal handlers of a thread are in a stream of their own; that stream is counted
 * for the thread. */
static int name_nested(struct making *making) {
    const struct ag_definitions *definitions = &making->profile->definitions;
    const struct ag_thread_row *rows;
    const size_t n_rows = ag_profile_threads(making->profile, &rows);
    int r = 0;
    for (size_t i = 0; i < definitions->n_threads && r == 0; i++) {
        const struct ag_model_thread *thread = &definitions->threads[i];
        const uint32_t stream = making->first_stream + thread->stream;
        if (!(thread->thread_id & AG_THREAD_NESTED) ||
            ag_index_map_find(&making->threads, stream) != AG_INDEX_NONE) {
            continue;
        }
        for (size_t k = 0; k < n_rows && r == 0; k++) {
            const uint32_t number =
                rows[k].thread_id == (thread->thread_id & ~AG_THREAD_NESTED)
                    ? ag_index_map_find(&making->threads, making->first_stream + rows[k].stream)
                    : AG_INDEX_NONE;
            if (number != AG_INDEX_NONE) {
                r = ag_index_map_insert(&making->threads, stream, number);
                break;
            }
        }
    }
    return r;
}

/* ---- making a history ---- */

/* Sorts the groups of the outline by process (a counting sort). */
static int sort_groups(struct making *making) {
    const struct ag_outline *outline = making->outline;
    const size_t n_processes = ag_profile_n_processes(making->whole);
    making->sorted_groups = calloc(outline->n_groups + 1, sizeof(*making->sorted_groups));
    making->first_group = calloc(n_processes + 2, sizeof(*making->first_group));
    if (!making->sorted_groups || !making->first_group) {
        return -ENOMEM;
    }
    /* first_group[P + 2] counts the groups of P, then first_group[P + 1] is where the next group of
     * P goes, and thus in the end where the groups of P + 1 begin. */
    for (size_t i = 0; i < outline->n_groups; i++) {
        making->first_group[outline->groups[i].process + 2]++;
    }
    for (size_t p = 2; p < n_processes + 2; p++) {
        making->first_group[p] += making->first_group[p - 1];
    }
    for (uint32_t i = 0; i < outline->n_groups; i++) {
        making->sorted_groups[making->first_group[outline->groups[i].process + 1]++] = i;
    }
    return 0;
}

/* LOCAL_OF: by group of the outline, the local group; only its elements for the groups of this
 * process are written and read. */
static int group_stacks(struct making *making, uint32_t *local_of) {
    const struct ag_stack_row *rows;
    const size_t n = ag_profile_stacks(making->profile, &rows);
    int r = 0;
    for (uint32_t i = 0; i < making->n_groups; i++) {
        local_of[making->group_of[i]] = i;
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        r = ag_pass_group(&making->groups, &making->profile->definitions.nodes, rows[i].stack,
                          rows[i].via,
                          local_of[making->outline->group_of_row[making->first_row + i]]);
    }
    return r;
}

static size_t groups_bytes(const struct ag_history *history) {
    return (history->n_groups + 1) * sizeof(*history->groups);
}

static int history_start(struct making *making) {
    struct ag_history *history = making->history;
    if (name_threads(making) < 0 || sort_groups(making) < 0) {
        return -ENOMEM;
    }
    const size_t n_orders = history->n_slices * AG_HISTORY_ORDERS;
    if (making->whole->n_parts > 0) {
        history->n_processes = making->whole->n_parts;
        history->processes = calloc(history->n_processes, sizeof(*history->processes));
        history->of_processes =
            calloc(history->n_processes * history->n_slices, sizeof(*history->of_processes));
        if (!history->processes || !history->of_processes) {
            return -ENOMEM;
        }
    }
    history->slices = calloc(history->n_slices, sizeof(*history->slices));
    history->sizes = calloc(n_orders, sizeof(*history->sizes));
    history->lifetimes = calloc(n_orders, sizeof(*history->lifetimes));
    history->groups = ag_table_memory_new(groups_bytes(history));
    history->threads =
        calloc(history->n_slices * (history->n_threads + 1), sizeof(*history->threads));
    if (!history->slices || !history->sizes || !history->lifetimes || !history->groups ||
        !history->threads) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < history->n_slices; i++) {
        history->slices[i].end_ns = history->slice_ns * (i + 1);
    }
    return 0;
}

static int by_slice(const void *a, const void *b) {
    const struct ag_history_leak *left = a, *right = b;
    if (left->slice != right->slice) {
        return left->slice < right->slice ? -1 : 1;
    }
    return (left->group > right->group) - (left->group < right->group);
}

/* Makes the pass over the events of the process. */
static int read_process(struct making *making, const uint64_t *ends_ns) {
    struct ag_history *history = making->history;
    struct ag_profile *profile = making->profile;
    struct ag_pass_options options = profile->pass;
    if (profile->is_reset) {
        /* the slices show the whole recording, also what was before the reset */
        options.from_ns = 0;
        options.counts_older = false;
    }
    options.groups = &making->groups;
    options.period_ends_ns = ends_ns;
    options.n_periods = history->n_slices - making->first_slice;
    options.end_period = end_slice;
    options.period_context = making;
    options.visit_block = take_block;
    options.visit_context = making;
    options.weights = making->is_sampled ? &making->weights : NULL;
    struct ag_ledger *ledger = ag_ledger_new();
    int r =
        ledger ? ag_event_pass(profile->file, &profile->definitions, &options, ledger) : -ENOMEM;
    if (r == 0) { /* the last slice ends when the ledger is closed, so end_slice is not called for
                   * it */
        const struct ag_summary *summary = ag_ledger_summary(ledger);
        count_waiting(making);
        note_slice(making, history->n_slices - 1, ledger,
                   &(struct ag_ledger_period){.peak_bytes = summary->peak_bytes,
                                              .peak_blocks = summary->peak_blocks,
                                              .peak_time_ns = summary->peak_time_ns});
        r = making->error;
    }
    (void)ag_ledger_free(ledger);
    return r;
}

/* Adds the process NUMBER, whose profile is making->profile, to the history. */
static int add_process(struct making *making, size_t number) {
    struct ag_history *history = making->history;
    making->start_ns = making->profile->definitions.start_ns;
    making->is_sampled = making->profile->definitions.is_sampled;
    const uint64_t first_slice = making->offset_ns / history->slice_ns;
    making->first_slice =
        first_slice < history->n_slices ? (size_t)first_slice : history->n_slices - 1;
    making->slice = making->first_slice;
    making->slice_from_ns = start_of_slice(making, making->slice);
    making->group_of = making->sorted_groups + making->first_group[number];
    making->n_groups = making->first_group[number + 1] - making->first_group[number];
    making->slices =
        history->processes ? history->of_processes + number * history->n_slices : history->slices;
    making->groups = (struct ag_index_map){0};
    making->weights = (struct ag_weights){0};
    const size_t n = making->n_groups + 1;
    making->before = calloc(n, sizeof(*making->before));
    making->now = calloc(n, sizeof(*making->now));
    making->list = calloc(n, sizeof(*making->list));
    making->now_blocks =
        making->is_sampled ? calloc(n * BLOCK_SUMS, sizeof(*making->now_blocks)) : NULL;
    uint64_t *ends_ns = calloc(history->n_slices, sizeof(*ends_ns));
    uint32_t *local_of = calloc(history->n_groups + 1, sizeof(*local_of));
    int r = making->before && making->now && making->list && ends_ns && local_of &&
                    (making->now_blocks || !making->is_sampled)
                ? 0
                : -ENOMEM;
    for (size_t i = making->first_slice; i < history->n_slices && r == 0; i++) {
        ends_ns[i - making->first_slice] = start_of_slice(making, i + 1);
    }
    r = r < 0 ? r : name_nested(making);
    r = r < 0 ? r : group_stacks(making, local_of);
    r = r < 0 ? r : read_process(making, ends_ns);
    ag_index_map_done(&making->groups);
    ag_weights_done(&making->weights);
    free(making->before);
    free(making->now);
    free(making->list);
    free(making->now_blocks);
    free(ends_ns);
    free(local_of);
    return r;
}

/* ---- the slices of a merged profile ---- */

/* A process has nothing in use after its end. Before its start, all its numbers are 0. */
static void add_slices(struct making *making, size_t number) {
    struct ag_history *history = making->history;
    const struct ag_profile *profile = making->profile;
    const uint64_t end_ns = making->offset_ns + profile->summary.duration_ns;
    struct ag_history_process *process = &history->processes[number];
    const uint64_t end_slice =
        profile->definitions.has_end ? end_ns / history->slice_ns + 1 : history->n_slices;
    process->first_slice = making->first_slice;
    process->end_slice = end_slice < history->n_slices ? (size_t)end_slice : history->n_slices;
    process->slices = making->slices + making->first_slice;
    for (size_t i = making->first_slice; i < process->end_slice; i++) {
        const bool has_ended = i + 1 == process->end_slice && end_slice < history->n_slices;
        history->slices[i].allocated_bytes += making->slices[i].allocated_bytes;
        history->slices[i].in_use_bytes += has_ended ? 0 : making->slices[i].in_use_bytes;
        history->slices[i].in_use_blocks += has_ended ? 0 : making->slices[i].in_use_blocks;
    }
}

/* Sets the peaks of the slices from the timeline of the merged profile. */
static void find_peaks(const struct making *making) {
    struct ag_history *history = making->history;
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(making->whole, &points);
    for (size_t i = 0; i < n; i++) {
        const uint64_t at = points[i].time_ns / history->slice_ns;
        struct ag_history_slice *slice =
            &history->slices[at < history->n_slices ? at : history->n_slices - 1];
        if (points[i].in_use_bytes >= slice->peak_bytes) {
            slice->peak_bytes = points[i].in_use_bytes;
            slice->peak_blocks = points[i].in_use_blocks;
            slice->peak_time_ns = points[i].time_ns;
        }
    }
}

static int history_run(struct making *making) {
    struct ag_profile *whole = making->whole;
    struct ag_history *history = making->history;
    int r = 0;
    if (whole->n_parts == 0) {
        making->profile = whole;
        r = add_process(making, 0);
    }
    for (size_t p = 0; p < whole->n_parts && r == 0; p++) {
        const struct ag_merged_part *part = &whole->parts[p];
        making->profile = part->profile;
        making->first_row = part->row_base;
        making->first_stream = part->stream_base;
        making->offset_ns = part->offset_ns;
        r = add_process(making, p);
        if (r == 0) {
            add_slices(making, p);
        }
    }
    if (whole->n_parts > 0) {
        find_peaks(making);
    }
    if (history->n_leaks > 0) {
        qsort(history->leaks, history->n_leaks, sizeof(*history->leaks), by_slice);
    }
    if (whole->definitions.is_sampled) {
        round_counts(making);
    }
    return r;
}

int ag_history_make(struct ag_profile *profile, const struct ag_outline *outline, size_t n_slices,
                    ag_history_visit *visit, void *context, struct ag_history *ret_history) {
    const uint64_t duration_ns = profile->summary.duration_ns;
    *ret_history = (struct ag_history){.n_slices = n_slices,
                                       .n_groups = outline->n_groups,
                                       .slice_ns = duration_ns / n_slices + 1};
    struct making making = {.whole = profile,
                            .outline = outline,
                            .history = ret_history,
                            .visit = visit,
                            .context = context};
    int r = history_start(&making);
    r = r < 0 ? r : history_run(&making);
    ag_index_map_done(&making.threads);
    ag_index_map_done(&making.pairs);
    ag_index_map_done(&making.leaks);
    free(making.sorted_groups);
    free(making.first_group);
    return r;
}

void ag_history_done(struct ag_history *history) {
    free(history->slices);
    free(history->processes);
    free(history->of_processes);
    free(history->sizes);
    free(history->lifetimes);
    ag_table_memory_free(history->groups, groups_bytes(history));
    free(history->threads);
    free(history->thread_rows);
    free(history->pairs);
    free(history->leaks);
    *history = (struct ag_history){0};
}
