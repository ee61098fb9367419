/* ledger.c: creates and closes a ledger, manages its streams and their windows (the events between
 * two stamps), keeps the deaths of open windows, counts ghosts and pairs of threads, notifies
 * visitors (callbacks), takes data other than events (memory maps, resident sizes), and computes
 * the results. */
#include "format/segment.h"
#include "ledger/apply_fast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "table/table_memory.h"

enum {
    /* most deaths (freed blocks) that a window keeps; without this limit, a trace without stamps
     * would keep all deaths */
    DEATHS_KEPT = 1 << 16,
    /* this percentage of the events is in windows of at most time_resolution_ns */
    RESOLUTION_PERCENT = 99,
};

/* ---- ledgers, sums and streams ---- */
struct ag_ledger *ag_ledger_new(void) {
    struct ag_ledger *ledger = calloc(1, sizeof(*ledger));
    if (!ledger) {
        return NULL;
    }
    ledger->applying = AG_INDEX_NONE;
    ledger->tally.peak_version = 1; /* a new sum has version 0: it has no share of a peak */
    if (ag_live_table_init(&ledger->live) < 0 || ag_timeline_init(&ledger->timeline) < 0) {
        return ag_ledger_free(ledger);
    }
    return ledger;
}

struct ag_ledger *ag_ledger_free(struct ag_ledger *ledger) {
    if (!ledger) {
        return NULL;
    }
    for (size_t i = 0; i < ledger->n_streams; i++) {
        free(ledger->streams[i].deaths);
        free(ledger->streams[i].death_entries);
    }
    ag_live_table_done(&ledger->live);
    ag_sum_index_done(&ledger->sum_index);
    ag_index_map_done(&ledger->stream_index);
    ag_index_map_done(&ledger->pair_index);
    ag_index_map_done(&ledger->unseen_index);
    ag_timeline_done(&ledger->timeline);
    ag_residents_done(&ledger->residents);
    ag_mapped_ranges_done(&ledger->mapped);
    ag_order_bounds_done(&ledger->bounds);
    ag_repair_done(&ledger->repair);
    ag_open_deaths_done(&ledger->open_deaths);
    ag_table_memory_free(ledger->sums, ledger->sum_capacity * sizeof(*ledger->sums));
    free(ledger->results);
    free(ledger->streams);
    free(ledger->pairs);
    free(ledger->unseen_frees);
    free(ledger->sum_bases);
    free(ledger->live_results);
    free(ledger->thread_results);
    free(ledger->heap_results);
    free(ledger);
    return NULL;
}

/* Sums are aligned to cache lines, which realloc does not support. */
static int grow_sums(struct ag_ledger *ledger) {
    if (ledger->n_sums < ledger->sum_capacity) {
        return 0;
    }
    const size_t capacity = ledger->sum_capacity ? ledger->sum_capacity * 2 : 256;
    struct ag_sum *sums = ag_table_memory_grow(ledger->sums, ledger->sum_capacity * sizeof(*sums),
                                               capacity * sizeof(*sums));
    if (!sums) {
        return -ENOMEM;
    }
    ledger->sums = sums;
    ledger->sum_capacity = capacity;
    return 0;
}

uint32_t ag_ledger_sum_slow(struct ag_ledger *ledger, uint32_t stack, uint8_t via) {
    const uint32_t sum = (uint32_t)ledger->n_sums;
    const struct ag_stack_sum result = {.stack = stack, .via = via};
    if (sum == AG_INDEX_NONE || grow_sums(ledger) < 0 ||
        AG_ARRAY_ADD(ledger->results, ledger->n_sums, result) < 0) {
        return AG_INDEX_NONE;
    }
    ledger->sums[sum] = (struct ag_sum){0};
    if (ag_sum_index_insert(&ledger->sum_index, stack, via, sum) < 0) {
        ledger->n_sums--;
        return AG_INDEX_NONE;
    }
    return sum;
}

uint32_t ag_ledger_stream(struct ag_ledger *ledger, uint32_t number) {
    const uint32_t known = ag_index_map_find(&ledger->stream_index, number);
    if (known != AG_INDEX_NONE) {
        return known;
    }
    const uint32_t index = (uint32_t)ledger->n_streams;
    const struct ag_stream made = {.number = number, .pair_with = AG_INDEX_NONE};
    const bool is_added = ag_order_bounds_add_stream(&ledger->bounds) == 0 &&
                          AG_ARRAY_ADD(ledger->streams, ledger->n_streams, made) == 0 &&
                          ag_index_map_insert(&ledger->stream_index, number, index) == 0;
    return is_added ? index : AG_INDEX_NONE;
}

void ag_ledger_expect_streams(struct ag_ledger *ledger) {
    ledger->is_concurrent = true;
    ledger->deaths_are_kept = true;
}

void ag_ledger_set_temporary_within(struct ag_ledger *ledger, uint32_t within) {
    ledger->within = within;
}

int ag_ledger_on_block(struct ag_ledger *ledger, ag_block_visit *visit, void *context) {
    ledger->visit = visit;
    ledger->visit_context = context;
    ledger->deaths_are_kept = true;
    return ag_live_table_keep_times(&ledger->live);
}

void ag_ledger_on_ghost(struct ag_ledger *ledger, ag_ghost_visit *visit, void *context) {
    ledger->visit_ghost = visit;
    ledger->ghost_context = context;
}

void ag_ledger_expect_inherited(struct ag_ledger *ledger) {
    ledger->expects_inherited = true;
}

/* Returns the address of the counter of the frees at ADDRESS that found no block. NULL: the process
 * was not forked, or there is no memory; then the free counts as a ghost. */
static uint32_t *unseen_frees_at(struct ag_ledger *ledger, uint64_t address) {
    uint32_t at;
    if (!ledger->expects_inherited) {
        return NULL;
    }
    const int r = ag_index_map_number(&ledger->unseen_index, address, &at);
    if (r > 0) {
        size_t count = at; /* AG_ARRAY_ADD increments it */
        const int added = AG_ARRAY_ADD(ledger->unseen_frees, count, 0);
        ledger->expects_inherited = added == 0;
        return added == 0 ? &ledger->unseen_frees[at] : NULL;
    }
    return r == 0 ? &ledger->unseen_frees[at] : NULL;
}

void ag_ledger_count_ghost(struct ag_ledger *ledger, const struct ag_ghost *ghost) {
    uint32_t *n_frees = unseen_frees_at(ledger, ghost->address);
    struct ag_ghost counted = *ghost;
    counted.is_inherited = n_frees && (*n_frees)++ == 0;
    ledger->inherited_frees += counted.is_inherited;
    ledger->ghost_frees += !counted.is_inherited;
    if (ledger->visit_ghost) {
        ledger->visit_ghost(ledger->ghost_context, &counted, /* is_taken_back= */ false);
    }
}

void ag_ledger_uncount_ghost(struct ag_ledger *ledger, uint64_t address) {
    uint32_t *n_frees = unseen_frees_at(ledger, address);
    const bool is_inherited = n_frees && *n_frees > 0 && --*n_frees == 0;
    ledger->inherited_frees -= is_inherited;
    ledger->ghost_frees -= !is_inherited;
    if (ledger->visit_ghost) {
        const struct ag_ghost ghost = {.address = address};
        ledger->visit_ghost(ledger->ghost_context, &ghost, /* is_taken_back= */ true);
    }
}

void ag_ledger_thread(struct ag_ledger *ledger, uint32_t number, uint32_t thread_id) {
    const uint32_t index = ag_ledger_stream(ledger, number);
    if (index == AG_INDEX_NONE) {
        ledger->error = -ENOMEM;
        return;
    }
    ledger->streams[index].thread_id = thread_id;
}

/* ---- deaths of the open windows ---- */
#define NO_DEATH UINT64_MAX

/* Returns when a block ended: the later of the two times. The time of an event is that of the
 * preceding stamp in its stream. So a thread that stamps less often may seem to free another
 * thread's block before that block's birth. */
static uint64_t not_before_birth(uint64_t time_ns, uint64_t born_ns) {
    return time_ns > born_ns ? time_ns : born_ns;
}

void ag_ledger_visit_death(const struct ag_ledger *ledger, const struct ag_death *death,
                           uint32_t freed_by) {
    const struct ag_stack_sum *sum = &ledger->results[death->block.sum];
    const struct ag_block block = {.address = death->block.address,
                                   .size = death->block.size,
                                   .allocated_ns = death->past.born_ns,
                                   .freed_ns =
                                       not_before_birth(death->freed_ns, death->past.born_ns),
                                   .stack = sum->stack,
                                   .via = (uint8_t)sum->via,
                                   .allocated_by = ledger->streams[death->block.stream].number,
                                   .freed_by = freed_by,
                                   .free_stack = death->free_stack,
                                   .n_moves = death->past.collections.n_moves,
                                   .n_promotions = death->past.collections.n_promotions};
    ledger->visit(ledger->visit_context, &block);
}

/* Notifies the visitor (the callback of a reader) of all deaths of the stream's window and drops
 * them, except the death with the number KEPT. Prefetches the sums, because consecutive deaths
 * belong to unrelated sums. */
static void notify_deaths(struct ag_ledger *ledger, struct ag_stream *stream, uint64_t kept) {
    enum { AHEAD = 8 };
    uint32_t n_kept = 0, n_indexed = 0;
    for (uint32_t i = 0; i < stream->n_deaths; i++) {
        if (ledger->visit && i + AHEAD < stream->n_deaths) {
            AG_PREFETCH(&ledger->results[stream->deaths[i + AHEAD].block.sum].stack);
        }
        if (stream->deaths[i].block.address == 0) {
            continue;
        }
        if (stream->deaths[i].number == kept) {
            stream->deaths[n_kept++] = stream->deaths[i];
            if (i < stream->n_indexed) {
                stream->death_entries[n_indexed++] = stream->death_entries[i];
            }
            continue;
        }
        ag_ledger_forget_death(ledger, stream, i);
        if (ledger->visit) {
            ag_ledger_visit_death(ledger, &stream->deaths[i], stream->number);
        }
    }
    stream->n_deaths = n_kept;
    stream->n_indexed = n_indexed;
}

/* Notifies the visitor of the deaths of the stream's window and drops them. If the stream made no
 * allocation after the free of its last realloc, that death is kept: the stream's next event may
 * show that the realloc failed and the block was not freed. */
static void flush_deaths(struct ag_ledger *ledger, struct ag_stream *stream) {
    const bool can_be_undone =
        stream->undo_kind == AG_UNDO_DEATH && stream->undo_serial == stream->allocated_blocks;
    notify_deaths(ledger, stream, can_be_undone ? stream->undo.number : NO_DEATH);
}

int ag_ledger_grow_deaths(struct ag_ledger *ledger, struct ag_stream *stream) {
    if (stream->n_deaths == DEATHS_KEPT) {
        flush_deaths(ledger, stream);
        return 0;
    }
    return AG_ARRAY_RESERVE(stream->deaths, stream->death_capacity, stream->n_deaths + (size_t)1);
}

int ag_ledger_keep_death(struct ag_ledger *ledger, struct ag_stream *stream,
                         const struct ag_death *death) {
    if (stream->n_deaths == stream->death_capacity) {
        const int r = ag_ledger_grow_deaths(ledger, stream);
        if (r < 0) {
            return r;
        }
    }
    stream->deaths[stream->n_deaths++] = *death;
    ledger->n_deaths++;
    return 0;
}

/* ---- pairs of threads ---- */
static struct ag_thread_pair *find_pair(struct ag_ledger *ledger, uint32_t allocated_by,
                                        uint32_t freed_by) {
    struct ag_stream *stream = &ledger->streams[freed_by];
    if (stream->pair_with != allocated_by) {
        const uint64_t key = (uint64_t)allocated_by << 32 | freed_by;
        const struct ag_thread_pair made = {.allocated_by = ledger->streams[allocated_by].number,
                                            .freed_by = stream->number};
        uint32_t pair;
        const int r = ag_index_map_number(&ledger->pair_index, key, &pair);
        if (r < 0 || (r > 0 && AG_ARRAY_ADD(ledger->pairs, ledger->n_pairs, made) < 0)) {
            return NULL;
        }
        stream->pair_with = allocated_by;
        stream->pair = pair;
    }
    return &ledger->pairs[stream->pair];
}

int ag_ledger_count_pair(struct ag_ledger *ledger, uint32_t allocated_by, uint32_t freed_by,
                         uint64_t bytes) {
    struct ag_thread_pair *pair = find_pair(ledger, allocated_by, freed_by);
    if (!pair) {
        return -ENOMEM;
    }
    pair->blocks++;
    pair->bytes += bytes;
    return 0;
}

void ag_ledger_uncount_pair(struct ag_ledger *ledger, uint32_t allocated_by, uint32_t freed_by,
                            uint64_t bytes) {
    struct ag_thread_pair *pair = find_pair(ledger, allocated_by, freed_by);
    if (pair) { /* the pair was counted before, so it exists */
        pair->blocks--;
        pair->bytes -= bytes;
    }
}

/* ---- time ---- */
static struct ag_timeline_point current_point(const struct ag_ledger *ledger) {
    return (struct ag_timeline_point){.time_ns = ledger->now_ns,
                                      .in_use_bytes = ledger->tally.in_use_bytes,
                                      .in_use_blocks = ledger->tally.in_use_blocks,
                                      .allocated_bytes = ledger->tally.allocated_bytes -
                                                         ledger->base.allocated_bytes,
                                      .rss_bytes = ledger->rss_bytes};
}

static void timeline_note(struct ag_ledger *ledger) {
    const struct ag_timeline_point now = current_point(ledger);
    ag_timeline_observe(&ledger->timeline, &now);
}

void ag_ledger_reset_at(struct ag_ledger *ledger, uint64_t time_ns) {
    ledger->written_reset_ns = time_ns;
}

/* Advances the time to TIME_NS. The totals after the last event were valid until TIME_NS, so the
 * timeline gets a point at the time of the last event and one at TIME_NS. */
static void go_on_to(struct ag_ledger *ledger, uint64_t time_ns) {
    if (time_ns > ledger->now_ns) {
        timeline_note(ledger);
        ledger->now_ns = time_ns;
    }
    timeline_note(ledger);
}

static void take_residents_until(struct ag_ledger *ledger, uint64_t time_ns) {
    struct ag_resident resident;
    while (ag_residents_take(&ledger->residents, time_ns, &resident)) {
        ledger->rss_bytes = resident.bytes;
        go_on_to(ledger, resident.time_ns);
    }
}

void ag_ledger_reach(struct ag_ledger *ledger, uint64_t time_ns) {
    take_residents_until(ledger, time_ns);
    go_on_to(ledger, time_ns);
}

void ag_ledger_flush_window(struct ag_ledger *ledger, uint32_t stream) {
    struct ag_tally *tally = &ledger->tally;
    ag_order_bounds_window(&ledger->bounds, stream, tally->rise, tally->dip, tally->net);
    tally->rise = tally->dip = tally->net = 0;
    if (ledger->late_plus || ledger->late_minus) {
        ag_order_bounds_late(&ledger->bounds, stream, ledger->late_plus);
        ag_order_bounds_late(&ledger->bounds, stream, ledger->late_minus);
        ledger->late_plus = ledger->late_minus = 0;
    }
}

/* Measures the window that the stamp at TIME_NS ends, for time_resolution_ns. */
static void measure_window(struct ag_ledger *ledger, const struct ag_stream *stream,
                           uint64_t time_ns) {
    const uint64_t events = stream->allocated_blocks - stream->window_serial +
                            stream->freed_blocks - stream->window_freed;
    if (!stream->has_window || time_ns <= stream->window_ns) {
        return;
    }
    const uint64_t length_ns = time_ns - stream->window_ns;
    const uint32_t order = 63 - (uint32_t)__builtin_clzll(length_ns);
    ledger->windows[order] += events;
    if (events > 0 && length_ns > ledger->window_longest_ns[order]) {
        ledger->window_longest_ns[order] = length_ns;
    }
}

int ag_ledger_begin_window(struct ag_ledger *ledger, uint32_t index, uint64_t time_ns) {
    struct ag_stream *stream = &ledger->streams[index];
    struct ag_tally *tally = &ledger->tally;
    if (!ledger->is_at_start || tally->rise || tally->dip || tally->net) {
        ag_ledger_flush_window(ledger, index);
    }
    ledger->is_at_start = false;
    ledger->events--; /* ag_ledger_end (apply_fast.h) counts the stamp as an event */
    measure_window(ledger, stream, time_ns);
    /* Applies the waiting events (order_repair.c) whose windows ended earlier. This is done before
     * the deaths of the window that ends here are reported, because such a waiting event may
     * displace an event of that window. */
    const int r = ledger->repair.first_expiry ? ag_ledger_expire(ledger, time_ns) : 0;
    if (ledger->deaths_are_kept) {
        flush_deaths(ledger, stream);
    }
    if (stream->first_waiting) {
        ag_ledger_end_waiting(ledger, stream, time_ns);
    }
    stream->window_ns = tally->now_ns = time_ns;
    stream->window_serial = stream->allocated_blocks;
    stream->window_freed = stream->freed_blocks;
    stream->has_window = true;
    if (time_ns > ledger->now_ns) {
        ag_ledger_reach(ledger, time_ns);
    }
    return r;
}

void ag_ledger_resident(struct ag_ledger *ledger, uint64_t time_ns, uint64_t rss_bytes) {
    ledger->rss_peak_bytes =
        rss_bytes > ledger->rss_peak_bytes ? rss_bytes : ledger->rss_peak_bytes;
    if (ag_residents_add(&ledger->residents,
                         &(struct ag_resident){.time_ns = time_ns, .bytes = rss_bytes}) < 0) {
        ledger->error = -ENOMEM;
    }
}

/* ---- heaps ---- */
void ag_ledger_via_heap(struct ag_ledger *ledger, uint32_t via, uint32_t heap) {
    if (via < AG_VIAS) {
        ledger->via_heap[via] = heap;
    }
}

void ag_ledger_map(struct ag_ledger *ledger, uint32_t heap, uint64_t address, uint64_t bytes) {
    if (ag_mapped_ranges_set(&ledger->mapped, heap, address, bytes) < 0) {
        ledger->error = -ENOMEM;
    }
}

void ag_ledger_unmap(struct ag_ledger *ledger, uint64_t address, uint64_t bytes) {
    ag_ledger_map(ledger, AG_HEAP_UNMAPPED, address, bytes);
}

/* ---- steps for a visitor ----
 *
 * Sums contain no history: to draw a curve for every stack, or to write the history for another
 * tool, a reader needs the births and deaths themselves, in the order from which the peak is
 * computed. The ledger computes the peak in the order in which it applies the events, so it
 * notifies the visitor at the moment when it counts a birth or a death. The visitor is also
 * notified when a repair undoes a step. A reader that needs a history without undone steps holds
 * steps back before it uses them (as model/pass/replay.c does). */

int ag_ledger_on_step(struct ag_ledger *ledger, ag_step_visit *visit, void *context) {
    ledger->step_visit = visit;
    ledger->step_context = context;
    return ag_live_table_keep_times(&ledger->live);
}

int ag_ledger_notify_step(struct ag_ledger *ledger, enum ag_step_kind kind,
                          const struct ag_live_block *block, uint64_t time_ns,
                          uint64_t allocated_ns, bool is_temporary) {
    const struct ag_stack_sum *sum = &ledger->results[block->sum];
    const struct ag_step step = {.kind = kind,
                                 .address = block->address,
                                 .size = block->size,
                                 .time_ns = not_before_birth(time_ns, allocated_ns),
                                 .allocated_ns = allocated_ns,
                                 .serial = block->serial,
                                 .sum = block->sum,
                                 .stack = sum->stack,
                                 .thread = block->stream,
                                 .via = (uint8_t)sum->via,
                                 .is_temporary = is_temporary};
    return ledger->step_visit(ledger->step_context, &step);
}

/* ---- a reader's time window ---- */
int ag_ledger_restart(struct ag_ledger *ledger) {
    ledger->sum_bases = malloc((ledger->n_sums + 1) * sizeof(*ledger->sum_bases));
    if (!ledger->sum_bases) {
        return ledger->error = -ENOMEM;
    }
    ledger->n_sum_bases = ledger->n_sums;
    for (size_t i = 0; i < ledger->n_sums; i++) {
        const struct ag_sum *sum = &ledger->sums[i];
        ledger->sum_bases[i] = (struct ag_sum_base){.allocated_blocks = sum->allocated_blocks,
                                                    .allocated_bytes = sum->allocated_bytes,
                                                    .freed_blocks = sum->freed_blocks,
                                                    .freed_bytes = sum->freed_bytes,
                                                    .temporary_blocks = sum->temporary_blocks};
    }
    for (size_t i = 0; i < ledger->n_streams; i++) {
        struct ag_stream *stream = &ledger->streams[i];
        stream->base = (struct ag_thread_sum){.allocated_blocks = stream->allocated_blocks,
                                              .allocated_bytes = stream->allocated_bytes,
                                              .freed_blocks = stream->freed_blocks,
                                              .freed_bytes = stream->freed_bytes};
    }
    ag_ledger_take_waiting_along(ledger);
    memcpy(ledger->collected_before, ledger->collected, sizeof(ledger->collected));
    for (size_t i = 0; i < ledger->n_pairs; i++) {
        ledger->pairs[i].blocks = ledger->pairs[i].bytes = 0;
    }
    struct ag_tally *tally = &ledger->tally;
    ledger->base = (struct ag_summary){.allocated_bytes = tally->allocated_bytes,
                                       .events = ledger->events,
                                       .ghost_frees = ledger->ghost_frees,
                                       .inherited_frees = ledger->inherited_frees,
                                       .order_repairs = ledger->repair.repairs};
    ledger->base_buried_blocks = ledger->repair.buried;
    tally->at_peak = true; /* the total is the highest so far */
    tally->peak_bytes = tally->in_use_bytes;
    tally->peak_time_ns = ledger->now_ns;
    ledger->rss_peak_bytes = ledger->rss_bytes;
    ledger->timeline.count = 0;
    timeline_note(ledger);
    ag_order_bounds_restart(&ledger->bounds);
    return 0;
}

/* ---- results ---- */
static void take_all_shares(struct ag_ledger *ledger) {
    if (ledger->tally.at_peak) {
        ag_ledger_leave_peak_fast(ledger, &ledger->tally);
    }
    for (size_t i = 0; i < ledger->n_sums; i++) {
        ag_ledger_take_share_fast(&ledger->sums[i], ledger->tally.peak_version);
    }
}

void ag_ledger_end_period(struct ag_ledger *ledger, struct ag_ledger_period *ret_period) {
    struct ag_tally *tally = &ledger->tally;
    take_all_shares(ledger);
    for (size_t i = 0; i < ledger->n_sums; i++) {
        const struct ag_sum *sum = &ledger->sums[i];
        struct ag_stack_sum *result = &ledger->results[i];
        result->allocated_blocks = sum->allocated_blocks;
        result->allocated_bytes = sum->allocated_bytes;
        result->freed_blocks = sum->freed_blocks;
        result->freed_bytes = sum->freed_bytes;
        result->temporary_blocks = sum->temporary_blocks;
        result->peak_blocks = sum->peak_blocks;
        result->peak_bytes = sum->peak_bytes;
    }
    *ret_period = (struct ag_ledger_period){.peak_bytes = tally->peak_bytes,
                                            .peak_blocks = ledger->peak_blocks,
                                            .peak_time_ns = tally->peak_time_ns};
    tally->at_peak = true; /* the total is the highest so far */
    tally->peak_bytes = tally->in_use_bytes;
    tally->peak_time_ns = ledger->now_ns;
}

/* Returns now - then, or 0 if now is smaller than then. NOW is smaller if a free from before the
 * reader's time window was undone inside the time window. */
static uint64_t counted_since(uint64_t now, uint64_t then) {
    return now > then ? now - then : 0;
}

static int settle_sums(struct ag_ledger *ledger) {
    ledger->live_results = malloc((ledger->n_sums + 1) * sizeof(*ledger->live_results));
    if (!ledger->live_results) {
        return -ENOMEM;
    }
    struct ag_summary *all = &ledger->summary;
    for (size_t i = 0; i < ledger->n_sums; i++) {
        const struct ag_sum *sum = &ledger->sums[i];
        const struct ag_sum_base base =
            i < ledger->n_sum_bases ? ledger->sum_bases[i] : (struct ag_sum_base){0};
        struct ag_stack_sum *result = &ledger->results[i];
        result->allocated_blocks = counted_since(sum->allocated_blocks, base.allocated_blocks);
        result->allocated_bytes = counted_since(sum->allocated_bytes, base.allocated_bytes);
        result->freed_blocks = counted_since(sum->freed_blocks, base.freed_blocks);
        result->freed_bytes = counted_since(sum->freed_bytes, base.freed_bytes);
        result->temporary_blocks = counted_since(sum->temporary_blocks, base.temporary_blocks);
        result->peak_blocks = sum->peak_blocks;
        result->peak_bytes = sum->peak_bytes;
        ledger->live_results[i] =
            (struct ag_live_sum){.blocks = sum->allocated_blocks - sum->freed_blocks,
                                 .bytes = sum->allocated_bytes - sum->freed_bytes};
        all->allocated_blocks += result->allocated_blocks;
        all->allocated_bytes += result->allocated_bytes;
        all->freed_blocks += result->freed_blocks;
        all->freed_bytes += result->freed_bytes;
        all->temporary_blocks += result->temporary_blocks;
    }
    return 0;
}

static struct ag_thread_sum *row_of_thread(struct ag_ledger *ledger, uint32_t thread_id) {
    /* searches from the last row for the newest thread with this id, since the kernel reuses ids */
    for (size_t i = ledger->n_thread_results; i-- > 0;) {
        if (ledger->thread_results[i].thread_id == thread_id) {
            return &ledger->thread_results[i];
        }
    }
    return NULL;
}

static void rename_in_pairs(struct ag_ledger *ledger, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < ledger->n_pairs; i++) {
        struct ag_thread_pair *pair = &ledger->pairs[i];
        pair->allocated_by = pair->allocated_by == from ? to : pair->allocated_by;
        pair->freed_by = pair->freed_by == from ? to : pair->freed_by;
    }
}

/* Adds the sums of a thread's signal handlers, which have a stream of their own, to the thread.
 * Returns whether the thread is known. */
static bool fold_into_thread(struct ag_ledger *ledger, const struct ag_thread_sum *nested) {
    struct ag_thread_sum *row = row_of_thread(ledger, nested->thread_id & ~AG_THREAD_NESTED);
    if (!row) {
        return false;
    }
    row->allocated_blocks += nested->allocated_blocks;
    row->allocated_bytes += nested->allocated_bytes;
    row->freed_blocks += nested->freed_blocks;
    row->freed_bytes += nested->freed_bytes;
    rename_in_pairs(ledger, nested->stream, row->stream);
    return true;
}

static void fold_nested_streams(struct ag_ledger *ledger) {
    enum { FOLDED = UINT32_MAX };
    struct ag_thread_sum *rows = ledger->thread_results;
    for (size_t i = 0; i < ledger->n_thread_results; i++) {
        if (rows[i].thread_id & AG_THREAD_NESTED && fold_into_thread(ledger, &rows[i])) {
            rows[i].stream = FOLDED;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < ledger->n_thread_results; i++) {
        if (rows[i].stream != FOLDED) {
            rows[kept++] = rows[i];
        }
    }
    ledger->n_thread_results = kept;
    ledger->summary.threads = kept;
}

static int settle_threads(struct ag_ledger *ledger) {
    ledger->thread_results = malloc((ledger->n_streams + 1) * sizeof(*ledger->thread_results));
    if (!ledger->thread_results) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < ledger->n_streams; i++) {
        const struct ag_stream *stream = &ledger->streams[i];
        ledger->thread_results[i] = (struct ag_thread_sum){
            .stream = stream->number,
            .thread_id = stream->thread_id,
            .allocated_blocks =
                counted_since(stream->allocated_blocks, stream->base.allocated_blocks),
            .allocated_bytes = counted_since(stream->allocated_bytes, stream->base.allocated_bytes),
            .freed_blocks = counted_since(stream->freed_blocks, stream->base.freed_blocks),
            .freed_bytes = counted_since(stream->freed_bytes, stream->base.freed_bytes)};
    }
    ledger->n_thread_results = ledger->n_streams;
    fold_nested_streams(ledger);
    size_t kept = 0;
    for (size_t i = 0; i < ledger->n_pairs; i++) {
        if (ledger->pairs[i].blocks > 0 &&
            ledger->pairs[i].allocated_by != ledger->pairs[i].freed_by) {
            ledger->pairs[kept++] = ledger->pairs[i];
        }
    }
    ledger->n_pairs = kept;
    return 0;
}

static struct ag_heap_sum *heap_result(struct ag_ledger *ledger, struct ag_index_map *index,
                                       uint32_t heap) {
    const struct ag_heap_sum made = {.heap = heap};
    uint32_t at;
    int r = ag_index_map_number(index, heap, &at);
    r = r > 0 ? AG_ARRAY_ADD(ledger->heap_results, ledger->n_heap_results, made) : r;
    return r < 0 ? NULL : &ledger->heap_results[at];
}

/* A heap whose blocks can move has its own address space. The number of this space is that of the
 * heap, and is the index in `collected`. */
static void fill_collected(const struct ag_ledger *ledger, struct ag_heap_sum *heap) {
    if (heap->heap < AG_VIAS) {
        const struct ag_heap_collected *now = &ledger->collected[heap->heap],
                                       *then = &ledger->collected_before[heap->heap];
        heap->moved_blocks = now->moved - then->moved;
        heap->promoted_blocks = now->promoted - then->promoted;
        heap->collected_blocks = now->collected - then->collected;
    }
}

static int fill_heaps(struct ag_ledger *ledger, struct ag_index_map *index) {
    for (size_t i = 0; i < ledger->n_sums; i++) {
        const struct ag_stack_sum *sum = &ledger->results[i];
        struct ag_heap_sum *heap = heap_result(ledger, index, ledger->via_heap[sum->via]);
        if (!heap) {
            return -ENOMEM;
        }
        heap->allocated_blocks += sum->allocated_blocks;
        heap->allocated_bytes += sum->allocated_bytes;
        heap->in_use_blocks += ledger->live_results[i].blocks;
        heap->in_use_bytes += ledger->live_results[i].bytes;
        heap->peak_bytes += sum->peak_bytes;
    }
    for (size_t i = 0; i < ledger->mapped.count; i++) {
        const struct ag_mapped_range *range = &ledger->mapped.log[i];
        struct ag_heap_sum *heap = heap_result(ledger, index, range->heap);
        if (!heap) {
            return -ENOMEM;
        }
        heap->mapped_bytes += range->high - range->low;
    }
    for (size_t i = 0; i < ledger->n_heap_results; i++) {
        fill_collected(ledger, &ledger->heap_results[i]);
    }
    return 0;
}

/* Makes the results of the heaps at the end, by adding up the sums of their vias (allocation
 * functions). So events need not be counted by heap. */
static int settle_heaps(struct ag_ledger *ledger) {
    struct ag_index_map index = {0};
    int r = ag_mapped_ranges_settle(&ledger->mapped);
    r = r < 0 ? r : fill_heaps(ledger, &index);
    ag_index_map_done(&index);
    return r;
}

static uint64_t time_resolution_ns(const struct ag_ledger *ledger) {
    uint64_t all = 0, covered = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(ledger->windows); i++) {
        all += ledger->windows[i];
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(ledger->windows) && all > 0; i++) {
        covered += ledger->windows[i];
        if (covered >= all - all / 100 * (100 - RESOLUTION_PERCENT)) {
            return ledger->window_longest_ns[i];
        }
    }
    return 0;
}

static void settle_summary(struct ag_ledger *ledger) {
    const struct ag_tally *tally = &ledger->tally;
    const int64_t peak = (int64_t)tally->peak_bytes;
    struct ag_summary *all = &ledger->summary;
    all->duration_ns = ledger->now_ns;
    all->time_resolution_ns = time_resolution_ns(ledger);
    all->in_use_blocks = tally->in_use_blocks;
    all->in_use_bytes = tally->in_use_bytes;
    all->peak_blocks = ledger->peak_blocks;
    all->peak_bytes = tally->peak_bytes;
    all->peak_time_ns = tally->peak_time_ns;
    all->peak_low_bytes =
        (uint64_t)(ledger->bounds.peak_low < peak ? ledger->bounds.peak_low : peak);
    all->peak_high_bytes =
        (uint64_t)(ledger->bounds.peak_high > peak ? ledger->bounds.peak_high : peak);
    all->ghost_frees = counted_since(ledger->ghost_frees, ledger->base.ghost_frees);
    all->inherited_frees = counted_since(ledger->inherited_frees, ledger->base.inherited_frees);
    all->order_repairs = counted_since(ledger->repair.repairs, ledger->base.order_repairs);
    all->rss_peak_bytes = ledger->rss_peak_bytes;
    all->events = counted_since(ledger->events, ledger->base.events);
    all->reset_ns = ledger->written_reset_ns > 0 ? ledger->written_reset_ns : ledger->reset_ns;
}

struct open_block {
    uint64_t address, slot;
};

/* Sorts the blocks by address: a radix sort over those bytes in which the addresses differ. SPARE
 * has room for COUNT blocks. Returns the array with the result: BLOCKS or SPARE. */
static struct open_block *sort_open_blocks(struct open_block *blocks, struct open_block *spare,
                                           size_t count) {
    uint64_t differing = 0;
    for (size_t i = 1; i < count; i++) {
        differing |= blocks[i].address ^ blocks[0].address;
    }
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if (!(differing >> shift & 0xff)) {
            continue;
        }
        size_t starts[257] = {0};
        for (size_t i = 0; i < count; i++) {
            starts[(blocks[i].address >> shift & 0xff) + 1]++;
        }
        for (size_t i = 1; i < 256; i++) {
            starts[i] += starts[i - 1];
        }
        for (size_t i = 0; i < count; i++) {
            spare[starts[blocks[i].address >> shift & 0xff]++] = blocks[i];
        }
        struct open_block *sorted = spare;
        spare = blocks;
        blocks = sorted;
    }
    return blocks;
}

/* Visits the blocks in the order of their addresses, because the order of slots differs between
 * runs. */
static int visit_open_blocks(const struct ag_ledger *ledger) {
    const size_t count = ledger->live.count;
    struct open_block *blocks = malloc(2 * (count + 1) * sizeof(*blocks));
    if (!blocks) {
        return -ENOMEM;
    }
    size_t n = 0;
    for (uint64_t at = 0; at <= ledger->live.mask; at++) {
        if (ledger->live.blocks[at].address) {
            blocks[n++] =
                (struct open_block){.address = ledger->live.blocks[at].address, .slot = at};
        }
    }
    const struct open_block *sorted = sort_open_blocks(blocks, blocks + count, n);
    for (size_t i = 0; i < n; i++) {
        const struct ag_death open = {.block = ledger->live.blocks[sorted[i].slot],
                                      .past = ag_live_table_past(&ledger->live, sorted[i].slot),
                                      .freed_ns = UINT64_MAX};
        ag_ledger_visit_death(ledger, &open, AG_INDEX_NONE);
    }
    free(blocks);
    return 0;
}

/* Adds to the timeline the points for the peak and the end, which must not be left out. */
static void keep_peak_and_end(struct ag_ledger *ledger) {
    const struct ag_timeline_point peak = {.time_ns = ledger->tally.peak_time_ns,
                                           .in_use_bytes = ledger->tally.peak_bytes,
                                           .in_use_blocks = ledger->peak_blocks,
                                           .allocated_bytes = ledger->peak_allocated_bytes -
                                                              ledger->base.allocated_bytes,
                                           .rss_bytes = ledger->peak_rss_bytes};
    const struct ag_timeline_point end = current_point(ledger);
    ag_timeline_keep(&ledger->timeline, &peak);
    ag_timeline_keep(&ledger->timeline, &end);
}

int ag_ledger_close(struct ag_ledger *ledger) {
    take_residents_until(ledger, UINT64_MAX);
    for (size_t i = 0; i < ledger->n_streams; i++) {
        ag_ledger_end_waiting(ledger, &ledger->streams[i], UINT64_MAX);
    }
    int r = ledger->error ? ledger->error : ag_ledger_expire(ledger, UINT64_MAX);
    for (size_t i = 0; i < ledger->n_streams; i++) {
        notify_deaths(ledger, &ledger->streams[i], NO_DEATH);
    }
    if (r < 0) {
        return ledger->error = r;
    }
    take_all_shares(ledger);
    ag_order_bounds_finish(&ledger->bounds);
    settle_summary(ledger);
    keep_peak_and_end(ledger);
    r = ledger->visit ? visit_open_blocks(ledger) : 0;
    r = r < 0 ? r : settle_sums(ledger);
    r = r < 0 ? r : settle_threads(ledger);
    r = r < 0 ? r : settle_heaps(ledger);
    return ledger->error = r;
}

void ag_ledger_now(const struct ag_ledger *ledger, uint64_t *ret_in_use_bytes,
                   uint64_t *ret_allocated_bytes) {
    *ret_in_use_bytes = ledger->tally.in_use_bytes;
    *ret_allocated_bytes = ledger->tally.allocated_bytes;
}

void ag_ledger_visit_live(const struct ag_ledger *ledger, ag_live_visit *visit, void *context) {
    const struct ag_live_table *live = &ledger->live;
    for (uint64_t at = 0; live->blocks && at <= live->mask; at++) {
        const struct ag_live_block *block = &live->blocks[at];
        if (block->address != 0) {
            visit(context, block->address, (uint8_t)ledger->results[block->sum].via);
        }
    }
}

const struct ag_summary *ag_ledger_summary(const struct ag_ledger *ledger) {
    return &ledger->summary;
}

uint64_t ag_ledger_buried_blocks(const struct ag_ledger *ledger) {
    return counted_since(ledger->repair.buried, ledger->base_buried_blocks);
}

size_t ag_ledger_stack_sums(const struct ag_ledger *ledger, const struct ag_stack_sum **ret_sums) {
    *ret_sums = ledger->results;
    return ledger->n_sums;
}

size_t ag_ledger_live_sums(const struct ag_ledger *ledger, const struct ag_live_sum **ret_sums) {
    *ret_sums = ledger->live_results;
    return ledger->n_sums;
}

size_t ag_ledger_timeline(const struct ag_ledger *ledger,
                          const struct ag_timeline_point **ret_points) {
    *ret_points = ledger->timeline.points;
    return ledger->timeline.count;
}

size_t ag_ledger_thread_sums(const struct ag_ledger *ledger,
                             const struct ag_thread_sum **ret_sums) {
    *ret_sums = ledger->thread_results;
    return ledger->n_thread_results;
}

size_t ag_ledger_thread_pairs(const struct ag_ledger *ledger,
                              const struct ag_thread_pair **ret_pairs) {
    *ret_pairs = ledger->pairs;
    return ledger->n_pairs;
}

size_t ag_ledger_heap_sums(const struct ag_ledger *ledger, const struct ag_heap_sum **ret_sums) {
    *ret_sums = ledger->heap_results;
    return ledger->n_heap_results;
}
