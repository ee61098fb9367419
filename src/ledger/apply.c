/* apply.c: applies arrays of events to the ledger (the live blocks and sums of a process,
 * ledger.h), and contains the steps for rare events; apply_fast.h applies a single event to the
 * totals (the counts and bytes of all blocks).
 *
 * An event accesses up to three cache lines: that of the slot of its address in the live table; for
 * an alloc, that of the entry of its stack and via (allocation function) in the index of sums; and
 * that of the sum, which counts the blocks of one stack and via. The accesses are random. If the
 * tables do not fit into the CPU's L2 cache, the three lines are prefetched some events ahead. */
#include "ledger/apply_fast.h"

#include <errno.h>

enum {
    AHEAD = 24, /* events between the prefetch and the use: about 200 ns */
    /* larger tables do not fit into the CPU's L2 cache */
    LARGE_BYTES = 1 << 20,
};

/* ---- single steps, for the slow paths ---- */
int ag_ledger_birth(struct ag_ledger *ledger, const struct ag_live_block *block, uint64_t time_ns) {
    const int r = ag_ledger_notify_fast(ledger, AG_STEP_BIRTH, block, time_ns, time_ns);
    if (r < 0) {
        return r;
    }
    ag_ledger_count_birth_fast(&ledger->sums[block->sum], &ledger->tally, block->size);
    return ag_ledger_put_back(ledger, block, (struct ag_live_past){.born_ns = time_ns});
}

void ag_ledger_unbirth(struct ag_ledger *ledger, uint64_t at) {
    const struct ag_live_block block = ledger->live.blocks[at];
    struct ag_sum *sum = &ledger->sums[block.sum];
    struct ag_tally *tally = &ledger->tally;
    if (tally->at_peak) {
        ag_ledger_leave_peak_fast(ledger, tally);
    }
    ag_ledger_take_share_fast(sum, tally->peak_version);
    sum->allocated_blocks--;
    sum->allocated_bytes -= block.size;
    tally->in_use_blocks--;
    tally->in_use_bytes -= block.size;
    tally->allocated_bytes -= block.size;
    const uint64_t born_ns = ag_live_table_past(&ledger->live, at).born_ns;
    ag_live_table_remove(&ledger->live, at);
    /* an error may be ignored: a visitor (callback) that fails here fails again at the next step */
    (void)ag_ledger_notify_fast(ledger, AG_STEP_BIRTH_UNDONE, &block, born_ns, born_ns);
}

int ag_ledger_put_back(struct ag_ledger *ledger, const struct ag_live_block *block,
                       struct ag_live_past past) {
    return ag_ledger_put_fast(&ledger->live, ag_live_table_seek(&ledger->live, block->address),
                              block, past);
}

int ag_ledger_death(struct ag_ledger *ledger, uint64_t at, const struct ag_freeing *freeing,
                    struct ag_death *ret_death) {
    const struct ag_live_block block = ledger->live.blocks[at];
    const uint32_t stream = freeing->stream;
    const uint64_t time_ns = freeing->time_ns;
    const bool is_temporary =
        block.stream == stream && freeing->serial - block.serial <= ledger->within;
    *ret_death = (struct ag_death){.block = block,
                                   .past = ag_live_table_past(&ledger->live, at),
                                   .freed_ns = time_ns,
                                   .number = ledger->n_deaths,
                                   .free_stack = freeing->free_stack,
                                   .is_temporary = is_temporary};
    ag_live_table_remove(&ledger->live, at);
    ag_ledger_count_death_fast(ledger, &ledger->sums[block.sum], &ledger->tally, block.size,
                               is_temporary);
    int r = ledger->step_visit ? ag_ledger_notify_step(ledger, AG_STEP_DEATH, &block, time_ns,
                                                       ret_death->past.born_ns, is_temporary)
                               : 0;
    if (r < 0) {
        return r;
    }
    if (stream == AG_INDEX_NONE) { /* the free was lost, so this death is never undone */
        if (ledger->visit) {
            ag_ledger_visit_death(ledger, ret_death, AG_INDEX_NONE);
        }
        return 0;
    }
    ledger->streams[stream].freed_blocks++;
    ledger->streams[stream].freed_bytes += block.size;
    if (block.stream != stream) {
        r = ag_ledger_count_pair(ledger, block.stream, stream, block.size);
        if (r < 0) {
            return r;
        }
    }
    if (!ledger->deaths_are_kept) {
        return 0;
    }
    r = ag_ledger_keep_death(ledger, &ledger->streams[stream], ret_death);
    return r < 0 ? r : ag_ledger_list_deaths(ledger, stream);
}

int ag_ledger_restore(struct ag_ledger *ledger, const struct ag_death *death, uint32_t freed_by) {
    const struct ag_live_block *block = &death->block;
    struct ag_sum *sum = &ledger->sums[block->sum];
    ag_ledger_take_share_fast(sum, ledger->tally.peak_version);
    sum->freed_blocks--;
    sum->freed_bytes -= block->size;
    sum->temporary_blocks -= death->is_temporary;
    ag_ledger_grow_total_fast(&ledger->tally, block->size);
    struct ag_stream *stream = &ledger->streams[freed_by];
    stream->freed_blocks--;
    stream->freed_bytes -= block->size;
    if (block->stream != freed_by) {
        ag_ledger_uncount_pair(ledger, block->stream, freed_by, block->size);
    }
    struct ag_death *kept = ag_ledger_find_death(stream, death->number);
    if (kept) {
        ag_ledger_forget_death(ledger, stream, (uint32_t)(kept - stream->deaths));
        kept->block.address = 0;
        while (stream->n_deaths > 0 && stream->deaths[stream->n_deaths - 1].block.address == 0) {
            stream->n_deaths--;
        }
        stream->n_indexed =
            stream->n_indexed < stream->n_deaths ? stream->n_indexed : stream->n_deaths;
    }
    const int r = ag_ledger_notify_fast(ledger, AG_STEP_DEATH_UNDONE, block, death->freed_ns,
                                        death->past.born_ns);
    return r < 0 ? r : ag_ledger_put_back(ledger, block, death->past);
}

/* ---- the events that do not take the fast path ---- */
static int apply_undo(struct ag_ledger *ledger, uint32_t index, uint64_t address) {
    struct ag_stream *stream = &ledger->streams[index];
    if (ag_ledger_cancel_waiting(ledger, index, address)) {
        return 0;
    }
    const struct ag_death death = stream->undo;
    const bool is_death = stream->undo_kind == AG_UNDO_DEATH && death.block.address == address;
    if (stream->undo_kind == AG_UNDO_GHOST && death.block.address == address) {
        ag_ledger_uncount_ghost(ledger, address);
    }
    stream->undo_kind = AG_UNDO_NONE;
    const uint64_t at = ag_live_table_seek(&ledger->live, address);
    const bool is_live = ledger->live.blocks[at].address != 0;
    if (!is_death || (is_live && !ag_ledger_can_give_way(ledger, at, index))) {
        /* Either there is nothing to undo, or another block lives at the address already. In the
         * second case the block is not restored, because an address has at most one live block. */
        return 0;
    }
    const int r = is_live ? ag_ledger_give_way(ledger, at, /* n_passed_on= */ 0) : 0;
    if (r < 0) {
        return r;
    }
    ledger->tally.net += (int64_t)death.block.size;
    ledger->tally.rise =
        ledger->tally.net > ledger->tally.rise ? ledger->tally.net : ledger->tally.rise;
    return ag_ledger_restore(ledger, &death, index);
}

int ag_ledger_bury(struct ag_ledger *ledger, uint64_t at) {
    struct ag_death death;
    ledger->repair.repairs++;
    ledger->repair.buried++;
    ledger->tally.net -= (int64_t)ledger->live.blocks[at].size;
    ledger->tally.dip =
        ledger->tally.net < ledger->tally.dip ? ledger->tally.net : ledger->tally.dip;
    const struct ag_freeing unseen = {.stream = AG_INDEX_NONE, .time_ns = ledger->tally.now_ns};
    return ag_ledger_death(ledger, at, &unseen, &death);
}

static void count_ghost(struct ag_ledger *ledger, struct ag_stream *stream,
                        const struct ag_event *event) {
    const struct ag_ghost ghost = {.address = event->address,
                                   .time_ns = ledger->tally.now_ns,
                                   .stream = stream->number,
                                   .free_stack = event->stack};
    ag_ledger_count_ghost(ledger, &ghost);
    if (event->kind == AG_RECORD_REALLOC_FREE) {
        stream->undo_kind = AG_UNDO_GHOST;
        stream->undo.block.address = event->address;
        stream->realloc_waits_at = 0;
    }
}

/* Applies an event that is not one of the two fast cases (an alloc of a dead address, a free of a
 * live one) or whose address may have waiting events (order_repair.c). Returns 1 if the caller has
 * to take the fast path after all, 0 when done, or negative errno. */
static AG_COLD int apply_slow(struct ag_ledger *ledger, uint32_t index,
                              const struct ag_event *event) {
    struct ag_stream *stream = &ledger->streams[index];
    switch (event->kind) {
    case AG_RECORD_STAMP:
        return ag_ledger_begin_window(ledger, index, event->size);
    case AG_RECORD_UNDO_FREE:
        return apply_undo(ledger, index, event->address);
    case AG_RECORD_MOVE:
    case AG_RECORD_PROMOTE:
    case AG_RECORD_BLOCK_TYPE:
        return ag_ledger_collected(ledger, event);
    case AG_RECORD_RESET:
        ledger->reset_ns = ledger->tally.now_ns;
        return 0;
    case AG_RECORD_COLLECT:
    case AG_RECORD_ALLOC:
    case AG_RECORD_FREE:
    case AG_RECORD_REALLOC_FREE:
        break;
    default:
        return 0;
    }
    if (event->address == 0) {
        return 0; /* no block has the address 0, and no recorder writes such an event */
    }
    const uint64_t at = ag_live_table_seek(&ledger->live, event->address);
    const bool is_live = ledger->live.blocks[at].address != 0;
    const bool fits = is_live != (event->kind == AG_RECORD_ALLOC);
    if (ledger->repair.n_waiting > 0 && ag_ledger_is_waiting(ledger, event->address)) {
        return ag_ledger_defer(ledger, index, event);
    }
    if (fits) {
        ag_ledger_count_collected(ledger, event->kind, event->address);
        return 1;
    }
    if (ledger->is_concurrent) {
        return ag_ledger_defer(ledger, index, event);
    }
    if (event->kind == AG_RECORD_ALLOC) {
        const int r = ag_ledger_bury(ledger, at);
        return r < 0 ? r : 1;
    }
    count_ghost(ledger, stream, event);
    return 0;
}

/* ---- the loop ---- */
AG_FAST void prefetch_event(const struct ag_ledger *ledger, const struct ag_event *event) {
    __builtin_prefetch(&ledger->live.blocks[ag_live_table_home(&ledger->live, event->address)], 1);
    __builtin_prefetch(ag_sum_index_home(&ledger->sum_index, event->stack, event->via));
}

/* The second step of prefetching: guesses the event's sum from the cache lines that prefetch_event
 * has fetched, and prefetches the sum. A wrong guess costs only the fetch of a cache line that is
 * not needed. A branch on the event's kind would cost more than wrong guesses. */
AG_FAST void prefetch_sum(const struct ag_ledger *ledger, const struct ag_event *event) {
    const uint64_t home = ag_live_table_home(&ledger->live, event->address);
    const uint32_t of_block = ledger->live.blocks[home].sum;
    const uint32_t of_stack = ag_sum_index_guess(&ledger->sum_index, event->stack, event->via);
    const uint32_t is_alloc = -(uint32_t)(event->kind == AG_RECORD_ALLOC);
    __builtin_prefetch(&ledger->sums[(of_stack & is_alloc) | (of_block & ~is_alloc)], 1);
}

/* Whether EVENT and the next event are the realloc_free and the undo_free of a failed realloc,
 * which together have no effect. */
AG_FAST bool is_failed_realloc(const struct ag_event *event, const struct ag_event *end) {
    return event->kind == AG_RECORD_REALLOC_FREE && event + 1 < end &&
           event[1].kind == AG_RECORD_UNDO_FREE && event[1].address == event->address;
}

/* Applies an event that ag_ledger_can_be_fast excludes from the fast path. apply_slow may find that
 * the fast path is correct after all. */
AG_COLD int ag_ledger_step_aside(struct ag_ledger *ledger, struct ag_ledger_hot *hot,
                                 uint32_t index, const struct ag_event *event) {
    struct ag_stream *stream = &ledger->streams[index];
    ag_ledger_store_fast(hot, ledger, stream);
    const int r = apply_slow(ledger, index, event);
    ag_ledger_load_fast(hot, ledger, stream);
    if (r != 1) {
        return r;
    }
    const uint64_t at = ag_live_table_seek(&ledger->live, event->address);
    const bool is_reported = ledger->step_visit != NULL;
    return event->kind == AG_RECORD_ALLOC
               ? ag_ledger_alloc_fast(ledger, hot, index, at,
                                      ag_ledger_sum(ledger, event->stack, event->via), event,
                                      is_reported)
               : ag_ledger_free_fast(ledger, hot, index, at, event, is_reported);
}

/* The variants of the loop. WAY_SMALL does not prefetch, WAY_LARGE does. WAY_NOTIFIED calls the
 * visitor, and prefetches even if the tables are small, because visits cost much more than
 * prefetching. */
enum way { WAY_SMALL, WAY_LARGE, WAY_NOTIFIED };

AG_FAST int apply_batch(struct ag_ledger *ledger, struct ag_ledger_hot *hot, uint32_t index,
                        const struct ag_event *events, size_t count, const enum way way) {
    const bool is_reported = way == WAY_NOTIFIED;
    const struct ag_event *const end = events + count;
    int r = 0;
    for (const struct ag_event *event = events; event < end && r >= 0; event++) {
        if (way != WAY_SMALL) {
            prefetch_event(ledger, event + AHEAD < end ? event + AHEAD : event);
            prefetch_sum(ledger, event + AHEAD / 2 < end ? event + AHEAD / 2 : event);
        }
        const uint64_t at = ag_live_table_seek(&ledger->live, event->address);
        const bool is_alloc = event->kind == AG_RECORD_ALLOC;
        const bool is_free = event->kind == AG_RECORD_FREE || event->kind == AG_RECORD_REALLOC_FREE;
        if (AG_UNLIKELY(is_failed_realloc(event, end))) {
            event++;
        } else if (AG_UNLIKELY(!(is_alloc || is_free) ||
                               !ag_ledger_can_be_fast(ledger, at, event->address, is_alloc))) {
            r = ag_ledger_step_aside(ledger, hot, index, event);
        } else if (is_alloc) {
            r = ag_ledger_alloc_fast(ledger, hot, index, at,
                                     ag_ledger_sum(ledger, event->stack, event->via), event,
                                     is_reported);
        } else {
            r = ag_ledger_free_fast(ledger, hot, index, at, event, is_reported);
        }
    }
    return r;
}

bool ag_ledger_is_large(const struct ag_ledger *ledger) {
    const size_t bytes = (ledger->live.mask + 1) * sizeof(*ledger->live.blocks) +
                         ledger->n_sums * sizeof(*ledger->sums);
    return bytes > LARGE_BYTES;
}

static AG_NOINLINE int apply_large(struct ag_ledger *ledger, struct ag_ledger_hot *hot,
                                   uint32_t index, const struct ag_event *events, size_t count) {
    return apply_batch(ledger, hot, index, events, count, WAY_LARGE);
}

static AG_NOINLINE int apply_small(struct ag_ledger *ledger, struct ag_ledger_hot *hot,
                                   uint32_t index, const struct ag_event *events, size_t count) {
    return apply_batch(ledger, hot, index, events, count, WAY_SMALL);
}

/* WAY_NOTIFIED has a function of its own, so that the other variants contain no notification
 * code. */
static AG_NOINLINE int apply_and_notify(struct ag_ledger *ledger, struct ag_ledger_hot *hot,
                                        uint32_t index, const struct ag_event *events,
                                        size_t count) {
    return apply_batch(ledger, hot, index, events, count, WAY_NOTIFIED);
}

int ag_ledger_begin(struct ag_ledger *ledger, uint32_t number, struct ag_ledger_hot *ret_hot,
                    uint32_t *ret_index) {
    if (ledger->error) {
        return ledger->error;
    }
    const uint32_t index = ag_ledger_stream(ledger, number);
    if (index == AG_INDEX_NONE) {
        return ledger->error = -ENOMEM;
    }
    ledger->applying = index;
    ledger->tally.now_ns = ledger->streams[index].window_ns;
    ledger->is_at_start = true;
    ag_ledger_load_fast(ret_hot, ledger, &ledger->streams[index]);
    *ret_index = index;
    return 0;
}

int ag_ledger_end(struct ag_ledger *ledger, const struct ag_ledger_hot *hot, uint32_t index,
                  size_t n_events, int r) {
    ag_ledger_store_fast(hot, ledger, &ledger->streams[index]);
    ledger->events += n_events; /* ag_ledger_begin_window has subtracted the stamps (clock values
                                 * among the events) */
    r = r < 0 ? r : ag_ledger_list_deaths(ledger, index);
    ledger->error = r < 0 ? r : 0;
    ag_ledger_flush_window(ledger, index);
    ledger->applying = AG_INDEX_NONE;
    return ledger->error;
}

int ag_ledger_apply(struct ag_ledger *ledger, uint32_t number, const struct ag_event *events,
                    size_t count) {
    struct ag_ledger_hot hot;
    uint32_t index;
    if (count == 0) {
        return ledger->error;
    }
    int r = ag_ledger_begin(ledger, number, &hot, &index);
    if (r < 0) {
        return r;
    }
    if (ledger->step_visit) {
        r = apply_and_notify(ledger, &hot, index, events, count);
    } else {
        r = ag_ledger_is_large(ledger) ? apply_large(ledger, &hot, index, events, count)
                                       : apply_small(ledger, &hot, index, events, count);
    }
    return ag_ledger_end(ledger, &hot, index, count, r);
}
