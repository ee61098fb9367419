/* apply.c: the hot loop of the ledger: one event after the other, at most some ten nanoseconds
 * each.
 *
 * An event touches three places: the slot of its address in the live table, for an alloc the slot
 * of its (stack, via) in the index, and the sum's own cache line. All three are random in memory
 * that exceeds the first caches, so they are prefetched some events ahead; totals live in registers
 * (struct hot) and are stored only where a slow path may look at them.
 *
 * The peak with the share of every stack costs O(1) an event. peak_version counts how often the
 * total has left its highest moment. A sum whose version is older has not changed since then, so
 * what it holds live is its share of that moment: whoever changes a sum first takes its share
 * (take_share), and close takes the shares of the untouched.
 *
 *     total            1   2   3*  2   3   4*  3        * highest moment so far
 *     peak_version     0   0   0   1   1   1   2        bumped by the first event after it
 *
 * A moment is after an allocation; on a tie the latest one counts. */
#include "ledger/ledger_state.h"

#include <errno.h>
#include <string.h>

enum {
    AHEAD = 24, /* events between the prefetch and the use: some 200 ns */
    LARGE_BYTES = 1 << 20,
};

struct hot { /* of the ledger and of one stream, for the time of one batch */
    struct ag_tally tally;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes; /* by the stream */
};

AG_FAST void load(struct hot *hot, const struct ag_ledger *ledger, const struct ag_stream *stream) {
    hot->tally = ledger->tally;
    hot->allocated_blocks = stream->allocated_blocks;
    hot->allocated_bytes = stream->allocated_bytes;
    hot->freed_blocks = stream->freed_blocks;
    hot->freed_bytes = stream->freed_bytes;
}

AG_FAST void store(const struct hot *hot, struct ag_ledger *ledger, struct ag_stream *stream) {
    ledger->tally = hot->tally;
    stream->allocated_blocks = hot->allocated_blocks;
    stream->allocated_bytes = hot->allocated_bytes;
    stream->freed_blocks = hot->freed_blocks;
    stream->freed_bytes = hot->freed_bytes;
}

AG_FAST void take_share(struct ag_sum *sum, uint64_t peak_version) {
    if (sum->peak_version != peak_version) {
        sum->peak_version = peak_version;
        sum->peak_blocks = sum->allocated_blocks - sum->freed_blocks;
        sum->peak_bytes = sum->allocated_bytes - sum->freed_bytes;
    }
}

AG_FAST void grow_total(struct ag_tally *tally, uint64_t bytes) {
    tally->in_use_blocks++;
    tally->in_use_bytes += bytes;
    if (tally->in_use_bytes >= tally->peak_bytes) {
        tally->peak_bytes = tally->in_use_bytes;
        tally->peak_time_ns = tally->now_ns;
        tally->at_peak = true;
    }
}

AG_FAST void count_birth(struct ag_sum *sum, struct ag_tally *tally, uint64_t bytes) {
    take_share(sum, tally->peak_version);
    sum->allocated_blocks++;
    sum->allocated_bytes += bytes;
    tally->allocated_bytes += bytes;
    grow_total(tally, bytes);
}

AG_FAST void count_death(struct ag_ledger *ledger, struct ag_sum *sum, struct ag_tally *tally,
                         uint64_t bytes, bool is_temporary) {
    if (tally->at_peak) {
        ag_ledger_leave_peak(ledger, tally);
    }
    take_share(sum, tally->peak_version);
    sum->freed_blocks++;
    sum->freed_bytes += bytes;
    sum->temporary_blocks += is_temporary;
    tally->in_use_blocks--;
    tally->in_use_bytes -= bytes;
}

AG_FAST int put(struct ag_live_table *live, uint64_t at, const struct ag_live_block *block,
                uint64_t time_ns) {
    live->blocks[at] = *block;
    if (live->times_ns) {
        live->times_ns[at] = time_ns;
    }
    return AG_LIKELY(++live->count <= live->limit) ? 0 : ag_live_table_grow(live);
}

/* ---- single steps, for the slow paths ---- */
void ag_ledger_leave_peak(struct ag_ledger *ledger, struct ag_tally *tally) {
    tally->at_peak = false;
    tally->peak_version++;
    ledger->peak_blocks = tally->in_use_blocks;
    ledger->peak_allocated_bytes = tally->allocated_bytes;
    ledger->peak_rss_bytes = ledger->rss_bytes;
}

int ag_ledger_birth(struct ag_ledger *ledger, const struct ag_live_block *block, uint64_t time_ns) {
    count_birth(&ledger->sums[block->sum], &ledger->tally, block->size);
    return put(&ledger->live, ag_live_table_seek(&ledger->live, block->address), block, time_ns);
}

void ag_ledger_unbirth(struct ag_ledger *ledger, uint64_t at) {
    const struct ag_live_block block = ledger->live.blocks[at];
    struct ag_sum *sum = &ledger->sums[block.sum];
    struct ag_tally *tally = &ledger->tally;
    if (tally->at_peak) {
        ag_ledger_leave_peak(ledger, tally);
    }
    take_share(sum, tally->peak_version);
    sum->allocated_blocks--;
    sum->allocated_bytes -= block.size;
    tally->in_use_blocks--;
    tally->in_use_bytes -= block.size;
    tally->allocated_bytes -= block.size;
    ag_live_table_remove(&ledger->live, at);
}

int ag_ledger_put_back(struct ag_ledger *ledger, const struct ag_live_block *block,
                       uint64_t time_ns) {
    return put(&ledger->live, ag_live_table_seek(&ledger->live, block->address), block, time_ns);
}

int ag_ledger_death(struct ag_ledger *ledger, uint64_t at, uint32_t stream, uint64_t serial,
                    uint64_t time_ns, struct ag_death *ret_death) {
    const struct ag_live_block block = ledger->live.blocks[at];
    const bool is_temporary = block.stream == stream && serial - block.serial <= ledger->within;
    *ret_death =
        (struct ag_death){.block = block,
                          .allocated_ns = ledger->live.times_ns ? ledger->live.times_ns[at] : 0,
                          .freed_ns = time_ns,
                          .number = ledger->n_deaths,
                          .is_temporary = is_temporary};
    ag_live_table_remove(&ledger->live, at);
    count_death(ledger, &ledger->sums[block.sum], &ledger->tally, block.size, is_temporary);
    if (stream == AG_INDEX_NONE) {
        return 0;
    }
    ledger->streams[stream].freed_blocks++;
    ledger->streams[stream].freed_bytes += block.size;
    if (block.stream != stream) {
        const int r = ag_ledger_count_pair(ledger, block.stream, stream, block.size);
        if (r < 0) {
            return r;
        }
    }
    return ledger->deaths_are_kept
               ? ag_ledger_keep_death(ledger, &ledger->streams[stream], ret_death)
               : 0;
}

int ag_ledger_restore(struct ag_ledger *ledger, const struct ag_death *death, uint32_t freed_by) {
    const struct ag_live_block *block = &death->block;
    struct ag_sum *sum = &ledger->sums[block->sum];
    take_share(sum, ledger->tally.peak_version);
    sum->freed_blocks--;
    sum->freed_bytes -= block->size;
    sum->temporary_blocks -= death->is_temporary;
    grow_total(&ledger->tally, block->size);
    struct ag_stream *stream = &ledger->streams[freed_by];
    stream->freed_blocks--;
    stream->freed_bytes -= block->size;
    if (block->stream != freed_by) {
        ag_ledger_uncount_pair(ledger, block->stream, freed_by, block->size);
    }
    for (uint32_t i = stream->n_deaths; i-- > 0;) {
        if (stream->deaths[i].number == death->number) {
            memmove(&stream->deaths[i], &stream->deaths[i + 1],
                    (--stream->n_deaths - i) * sizeof(*stream->deaths));
            break;
        }
    }
    return put(&ledger->live, ag_live_table_seek(&ledger->live, block->address), block,
               death->allocated_ns);
}

/* ---- the events that do not take the fast path ---- */
static int undo(struct ag_ledger *ledger, uint32_t index, uint64_t address) {
    struct ag_stream *stream = &ledger->streams[index];
    if (ag_ledger_cancel_waiting(ledger, index, address)) {
        return 0;
    }
    const struct ag_death death = stream->undo;
    const bool is_death = stream->undo_kind == AG_UNDO_DEATH && death.block.address == address;
    if (stream->undo_kind == AG_UNDO_GHOST && death.block.address == address) {
        ledger->ghost_frees--;
    }
    stream->undo_kind = AG_UNDO_NONE;
    const uint64_t at = ag_live_table_seek(&ledger->live, address);
    const bool is_live = ledger->live.blocks[at].address != 0;
    if (!is_death || (is_live && !ag_ledger_can_give_way(ledger, at, index))) {
        return 0; /* nothing to undo; or somebody else's block is there: then this one has died of a
                     free to come */
    }
    const int r = is_live ? ag_ledger_give_way(ledger, at) : 0;
    if (r < 0) {
        return r;
    }
    ledger->tally.net += (int64_t)death.block.size;
    ledger->tally.rise =
        ledger->tally.net > ledger->tally.rise ? ledger->tally.net : ledger->tally.rise;
    return ag_ledger_restore(ledger, &death, index);
}

/* A block was allocated where one lives and no other thread can have freed it: its free was lost.
 */
static int bury(struct ag_ledger *ledger, uint64_t at) {
    struct ag_death death;
    ledger->repair.repairs++;
    ledger->tally.net -= (int64_t)ledger->live.blocks[at].size;
    ledger->tally.dip =
        ledger->tally.net < ledger->tally.dip ? ledger->tally.net : ledger->tally.dip;
    return ag_ledger_death(ledger, at, AG_INDEX_NONE, 0, ledger->tally.now_ns, &death);
}

static void count_ghost(struct ag_ledger *ledger, struct ag_stream *stream,
                        const struct ag_event *event) {
    ledger->ghost_frees++;
    if (event->kind == AG_RECORD_REALLOC_FREE) {
        stream->undo_kind = AG_UNDO_GHOST;
        stream->undo.block.address = event->address;
        stream->realloc_waits_at = 0;
    }
}

/* Anything but an alloc of a dead address or a free of a live one that nobody waits for. Returns 1
 * where the caller has to take the fast path after all, 0 when done, or negative errno. */
static AG_COLD int apply_slow(struct ag_ledger *ledger, uint32_t index,
                              const struct ag_event *event) {
    struct ag_stream *stream = &ledger->streams[index];
    switch (event->kind) {
    case AG_RECORD_STAMP:
        return ag_ledger_begin_window(ledger, index, event->size);
    case AG_RECORD_UNDO_FREE:
        return undo(ledger, index, event->address);
    case AG_RECORD_ALLOC:
    case AG_RECORD_FREE:
    case AG_RECORD_REALLOC_FREE:
        break;
    default:
        return 0;
    }
    if (event->address == 0) {
        return 0; /* no block is there; no recorder writes this */
    }
    const uint64_t at = ag_live_table_seek(&ledger->live, event->address);
    const bool is_live = ledger->live.blocks[at].address != 0;
    const bool fits = is_live != (event->kind == AG_RECORD_ALLOC);
    if (ledger->repair.n_waiting > 0 && ag_ledger_is_waiting(ledger, event->address)) {
        return ag_ledger_defer(ledger, index, event);
    }
    if (fits) {
        return 1;
    }
    if (ledger->is_concurrent) {
        return ag_ledger_defer(ledger, index, event);
    }
    if (event->kind == AG_RECORD_ALLOC) {
        const int r = bury(ledger, at);
        return r < 0 ? r : 1;
    }
    count_ghost(ledger, stream, event);
    return 0;
}

/* ---- the loop ---- */
AG_FAST void prefetch(const struct ag_ledger *ledger, const struct ag_event *event) {
    __builtin_prefetch(&ledger->live.blocks[ag_live_table_home(&ledger->live, event->address)], 1);
    __builtin_prefetch(
        ag_index_map_home(&ledger->sum_index, event->stack | (uint64_t)event->via << 32));
}

/* The second step: what the first one has brought names the sum. A wrong guess costs nothing but
 * the line it fetches; a branch on the kind would cost more than it saves. */
AG_FAST void prefetch_sum(const struct ag_ledger *ledger, const struct ag_event *event) {
    const uint64_t home = ag_live_table_home(&ledger->live, event->address);
    const uint32_t of_block = ledger->live.blocks[home].sum;
    const uint32_t of_stack =
        ag_index_map_home(&ledger->sum_index, event->stack | (uint64_t)event->via << 32)
            ->value_plus_1 -
        1;
    const uint32_t is_alloc = -(uint32_t)(event->kind == AG_RECORD_ALLOC);
    __builtin_prefetch(&ledger->sums[(of_stack & is_alloc) | (of_block & ~is_alloc)], 1);
}

AG_FAST int fast_alloc(struct ag_ledger *ledger, struct hot *hot, uint32_t index, uint64_t at,
                       const struct ag_event *event) {
    const uint32_t sum = ag_ledger_sum(ledger, event->stack, event->via);
    if (AG_UNLIKELY(sum == AG_INDEX_NONE)) {
        return -ENOMEM;
    }
    hot->allocated_blocks++;
    hot->allocated_bytes += event->size;
    struct ag_tally *tally = &hot->tally;
    count_birth(&ledger->sums[sum], tally, event->size);
    tally->net += (int64_t)event->size;
    tally->rise = tally->net > tally->rise ? tally->net : tally->rise;
    const struct ag_live_block block = {.address = event->address,
                                        .size = event->size,
                                        .serial = hot->allocated_blocks,
                                        .sum = sum,
                                        .stream = index};
    return put(&ledger->live, at, &block, tally->now_ns);
}

/* What an undo or a repair may ask for. Several streams come here at each free: the fields are
 * written where they will stay. */
AG_FAST int keep_death(struct ag_ledger *ledger, const struct ag_tally *tally,
                       struct ag_stream *stream, uint64_t at, uint8_t kind, bool is_temporary) {
    struct ag_death *death = &stream->undo;
    if (ledger->deaths_are_kept) {
        if (AG_UNLIKELY(stream->n_deaths == stream->death_capacity)) {
            const int r = ag_ledger_grow_deaths(ledger, stream);
            if (r < 0) {
                return r;
            }
        }
        death = &stream->deaths[stream->n_deaths++];
    }
    death->block = ledger->live.blocks[at];
    death->allocated_ns = ledger->live.times_ns ? ledger->live.times_ns[at] : 0;
    death->freed_ns = tally->now_ns;
    death->number = ledger->n_deaths++;
    death->is_temporary = is_temporary;
    if (kind == AG_RECORD_REALLOC_FREE) {
        stream->undo = *death;
        stream->undo_kind = AG_UNDO_DEATH;
        stream->realloc_waits_at = 0;
    }
    return 0;
}

AG_FAST int fast_free(struct ag_ledger *ledger, struct hot *hot, uint32_t index, uint64_t at,
                      const struct ag_event *event) {
    const struct ag_live_block block = ledger->live.blocks[at];
    const bool is_temporary =
        block.stream == index && hot->allocated_blocks - block.serial <= ledger->within;
    struct ag_tally *tally = &hot->tally;
    count_death(ledger, &ledger->sums[block.sum], tally, block.size, is_temporary);
    hot->freed_blocks++;
    hot->freed_bytes += block.size;
    tally->net -= (int64_t)block.size;
    tally->dip = tally->net < tally->dip ? tally->net : tally->dip;
    int r = 0;
    if (AG_UNLIKELY(ledger->deaths_are_kept || event->kind == AG_RECORD_REALLOC_FREE)) {
        r = keep_death(ledger, tally, &ledger->streams[index], at, event->kind, is_temporary);
    }
    ag_live_table_remove(&ledger->live, at);
    if (AG_UNLIKELY(block.stream != index) && r == 0) {
        r = ag_ledger_count_pair(ledger, block.stream, index, block.size);
    }
    return r;
}

/* A realloc that failed, both halves next to each other: nothing has happened. */
AG_FAST bool is_failed_realloc(const struct ag_event *event, const struct ag_event *end) {
    return event->kind == AG_RECORD_REALLOC_FREE && event + 1 < end &&
           event[1].kind == AG_RECORD_UNDO_FREE && event[1].address == event->address;
}

/* An event that cannot take the fast path at once. */
static AG_COLD int step_aside(struct ag_ledger *ledger, struct hot *hot, uint32_t index,
                              const struct ag_event *event) {
    struct ag_stream *stream = &ledger->streams[index];
    store(hot, ledger, stream);
    const int r = apply_slow(ledger, index, event);
    load(hot, ledger, stream);
    if (r != 1) {
        return r;
    }
    const uint64_t at = ag_live_table_seek(&ledger->live, event->address);
    return event->kind == AG_RECORD_ALLOC ? fast_alloc(ledger, hot, index, at, event)
                                          : fast_free(ledger, hot, index, at, event);
}

AG_FAST int apply_batch(struct ag_ledger *ledger, uint32_t index, const struct ag_event *events,
                        size_t count, const bool is_large) {
    const struct ag_event *const end = events + count;
    struct hot hot;
    load(&hot, ledger, &ledger->streams[index]);
    int r = 0;
    for (const struct ag_event *event = events; event < end && r >= 0; event++) {
        if (is_large) {
            prefetch(ledger, event + AHEAD < end ? event + AHEAD : event);
            prefetch_sum(ledger, event + AHEAD / 2 < end ? event + AHEAD / 2 : event);
        }
        const uint64_t at = ag_live_table_seek(&ledger->live, event->address);
        const bool is_live = ledger->live.blocks[at].address != 0;
        const bool is_alloc = event->kind == AG_RECORD_ALLOC;
        const bool is_free = event->kind == AG_RECORD_FREE || event->kind == AG_RECORD_REALLOC_FREE;
        if (AG_UNLIKELY(is_failed_realloc(event, end))) {
            event++;
        } else if (AG_UNLIKELY(!(is_alloc ? !is_live : is_free && is_live) ||
                               ledger->repair.n_waiting > 0 || event->address == 0)) {
            r = step_aside(ledger, &hot, index, event);
        } else if (is_alloc) {
            r = fast_alloc(ledger, &hot, index, at, event);
        } else {
            r = fast_free(ledger, &hot, index, at, event);
        }
    }
    store(&hot, ledger, &ledger->streams[index]);
    return r < 0 ? r : 0;
}

/* Prefetching halves the time where the tables exceed the caches, and doubles it where they do not
 * (measured on a core with 1 MiB of L2). */
static bool is_large(const struct ag_ledger *ledger) {
    const size_t bytes = (ledger->live.mask + 1) * sizeof(*ledger->live.blocks) +
                         (ledger->sum_index.mask + 1) * sizeof(*ledger->sum_index.slots) +
                         ledger->n_sums * sizeof(*ledger->sums);
    return bytes > LARGE_BYTES;
}

static int apply_large(struct ag_ledger *ledger, uint32_t index, const struct ag_event *events,
                       size_t count) {
    return apply_batch(ledger, index, events, count, /* is_large= */ true);
}

static int apply_small(struct ag_ledger *ledger, uint32_t index, const struct ag_event *events,
                       size_t count) {
    return apply_batch(ledger, index, events, count, /* is_large= */ false);
}

static uint32_t find_or_add_stream(struct ag_ledger *ledger, uint32_t number) {
    const uint32_t index = ag_index_map_find(&ledger->stream_index, number);
    return index != AG_INDEX_NONE ? index : ag_ledger_stream_slow(ledger, number);
}

int ag_ledger_apply(struct ag_ledger *ledger, uint32_t number, const struct ag_event *events,
                    size_t count) {
    if (ledger->error || count == 0) {
        return ledger->error;
    }
    const uint32_t index = find_or_add_stream(ledger, number);
    if (index == AG_INDEX_NONE) {
        return ledger->error = -ENOMEM;
    }
    ledger->applying = index;
    ledger->tally.now_ns = ledger->streams[index].window_ns;
    ledger->is_at_start = true;
    ledger->events += count; /* stamps are taken off where they are seen */
    ledger->error = is_large(ledger) ? apply_large(ledger, index, events, count)
                                     : apply_small(ledger, index, events, count);
    ag_ledger_flush_window(ledger, index);
    ledger->applying = AG_INDEX_NONE;
    return ledger->error;
}
