/* apply_fast.h: applies one event to the ledger, in about ten nanoseconds. The ledger (ledger.h)
 * has the live blocks of a process, the totals (counts and bytes of all blocks), and sums; a sum
 * counts the blocks of one stack and allocation function. Used by apply.c, and by the writer's loop
 * that encodes and counts each event while the event is in registers (writer/one_pass.c).
 *
 * Totals are kept in registers (struct ag_ledger_hot). They are stored in memory only before a slow
 * path that may read them.
 *
 * Computing the peak, and the share of every stack in the peak, costs O(1) per event. peak_version
 * is 1 plus the number of times that the total (the bytes in use) has left its highest value. Each
 * sum has a peak_version, too. If it is lower than that of the total, the sum has not changed since
 * the total last left its highest value, so the sum's live bytes are its share of the peak. The
 * first change of a sum after the peak stores this share (ag_ledger_take_share_fast).
 * ag_ledger_close (ledger.h) stores the shares of the sums that did not change.
 *
 *     total            1   2   3*  2   3   4*  3        * highest so far, then a free
 *     peak_version     1   1   1   2   2   2   3        incremented by the free after a *
 *
 * The peak is measured after allocations; if two peaks are equal, the later one counts. */
#ifndef AG_APPLY_FAST_H
#define AG_APPLY_FAST_H

#include <errno.h>

#include "ledger/ledger_state.h"

/* Copies of fields of the ledger and of one stream (the events of one thread). The copies are valid
 * from ag_ledger_begin to ag_ledger_end. */
struct ag_ledger_hot {
    struct ag_tally tally;
    /* counts of the stream */
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
};

AG_FAST void ag_ledger_load_fast(struct ag_ledger_hot *hot, const struct ag_ledger *ledger,
                                 const struct ag_stream *stream) {
    hot->tally = ledger->tally;
    hot->allocated_blocks = stream->allocated_blocks;
    hot->allocated_bytes = stream->allocated_bytes;
    hot->freed_blocks = stream->freed_blocks;
    hot->freed_bytes = stream->freed_bytes;
}

AG_FAST void ag_ledger_store_fast(const struct ag_ledger_hot *hot, struct ag_ledger *ledger,
                                  struct ag_stream *stream) {
    ledger->tally = hot->tally;
    stream->allocated_blocks = hot->allocated_blocks;
    stream->allocated_bytes = hot->allocated_bytes;
    stream->freed_blocks = hot->freed_blocks;
    stream->freed_bytes = hot->freed_bytes;
}

AG_FAST void ag_ledger_take_share_fast(struct ag_sum *sum, uint64_t peak_version) {
    if (sum->peak_version != peak_version) {
        sum->peak_version = peak_version;
        sum->peak_blocks = sum->allocated_blocks - sum->freed_blocks;
        sum->peak_bytes = sum->allocated_bytes - sum->freed_bytes;
    }
}

AG_FAST void ag_ledger_grow_total_fast(struct ag_tally *tally, uint64_t bytes) {
    tally->in_use_blocks++;
    tally->in_use_bytes += bytes;
    if (tally->in_use_bytes >= tally->peak_bytes) {
        tally->peak_bytes = tally->in_use_bytes;
        tally->peak_time_ns = tally->now_ns;
        tally->at_peak = true;
    }
}

AG_FAST void ag_ledger_count_birth_fast(struct ag_sum *sum, struct ag_tally *tally,
                                        uint64_t bytes) {
    ag_ledger_take_share_fast(sum, tally->peak_version);
    sum->allocated_blocks++;
    sum->allocated_bytes += bytes;
    tally->allocated_bytes += bytes;
    ag_ledger_grow_total_fast(tally, bytes);
}

AG_FAST void ag_ledger_leave_peak_fast(struct ag_ledger *ledger, struct ag_tally *tally) {
    tally->at_peak = false;
    tally->peak_version++;
    ledger->peak_blocks = tally->in_use_blocks;
    ledger->peak_allocated_bytes = tally->allocated_bytes;
    ledger->peak_rss_bytes = ledger->rss_bytes;
}

AG_FAST void ag_ledger_count_death_fast(struct ag_ledger *ledger, struct ag_sum *sum,
                                        struct ag_tally *tally, uint64_t bytes, bool is_temporary) {
    if (tally->at_peak) {
        ag_ledger_leave_peak_fast(ledger, tally);
    }
    ag_ledger_take_share_fast(sum, tally->peak_version);
    sum->freed_blocks++;
    sum->freed_bytes += bytes;
    sum->temporary_blocks += is_temporary;
    tally->in_use_blocks--;
    tally->in_use_bytes -= bytes;
}

AG_FAST int ag_ledger_put_fast(struct ag_live_table *live, uint64_t at,
                               const struct ag_live_block *block, struct ag_live_past past) {
    live->blocks[at] = *block;
    ag_live_table_set_past(live, at, past);
    return AG_LIKELY(++live->count <= live->limit) ? 0 : ag_live_table_grow(live);
}

/* Notifies the visitor (a callback), if there is one, of a step, which is the birth or death of a
 * block. Returns 0 or a negative errno. */
AG_FAST int ag_ledger_notify_fast(struct ag_ledger *ledger, enum ag_step_kind kind,
                                  const struct ag_live_block *block, uint64_t time_ns,
                                  uint64_t allocated_ns) {
    return ledger->step_visit ? ag_ledger_notify_step(ledger, kind, block, time_ns, allocated_ns,
                                                      /* is_temporary= */ false)
                              : 0;
}

/* Applies an alloc by stream INDEX at an address without a block; AT is the slot of the address;
 * SUM is the number of the sum for the event's stack and via (allocation function), or
 * AG_INDEX_NONE if there was no memory for the sum. is_reported: there is a visitor
 * (ledger.step_visit). */
AG_FAST int ag_ledger_alloc_fast(struct ag_ledger *ledger, struct ag_ledger_hot *hot,
                                 uint32_t index, uint64_t at, uint32_t sum,
                                 const struct ag_event *event, const bool is_reported) {
    if (AG_UNLIKELY(sum == AG_INDEX_NONE)) {
        return -ENOMEM;
    }
    hot->allocated_blocks++;
    hot->allocated_bytes += event->size;
    struct ag_tally *tally = &hot->tally;
    ag_ledger_count_birth_fast(&ledger->sums[sum], tally, event->size);
    tally->net += (int64_t)event->size;
    tally->rise = tally->net > tally->rise ? tally->net : tally->rise;
    const struct ag_live_block block = {.address = event->address,
                                        .size = event->size,
                                        .serial = hot->allocated_blocks,
                                        .sum = sum,
                                        .stream = index};
    if (is_reported) {
        const int r =
            ag_ledger_notify_fast(ledger, AG_STEP_BIRTH, &block, tally->now_ns, tally->now_ns);
        if (r < 0) {
            return r;
        }
    }
    return ag_ledger_put_fast(&ledger->live, at, &block,
                              (struct ag_live_past){.born_ns = tally->now_ns});
}

/* Stores a death (the end of a block by a free), so that the death can be undone. A death is undone
 * if the free belongs to a failed realloc, or if order_repair.c corrects the order of events. With
 * several streams, or with a visitor of blocks, this function runs at each free. So it builds the
 * death directly in the stream's list, without a copy. */
AG_FAST int ag_ledger_keep_death_fast(struct ag_ledger *ledger, const struct ag_ledger_hot *hot,
                                      struct ag_stream *stream, uint64_t at,
                                      const struct ag_event *event, bool is_temporary) {
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
    death->past = ag_live_table_past(&ledger->live, at);
    death->freed_ns = hot->tally.now_ns;
    death->number = ledger->n_deaths++;
    death->free_stack = event->stack;
    death->is_temporary = is_temporary;
    if (event->kind == AG_RECORD_REALLOC_FREE) {
        stream->undo = *death;
        stream->undo_kind = AG_UNDO_DEATH;
        stream->undo_serial = hot->allocated_blocks;
        stream->realloc_waits_at = 0;
    }
    return 0;
}

/* Applies a free of the live block in slot AT. */
AG_FAST int ag_ledger_free_fast(struct ag_ledger *ledger, struct ag_ledger_hot *hot, uint32_t index,
                                uint64_t at, const struct ag_event *event, const bool is_reported) {
    const struct ag_live_block block = ledger->live.blocks[at];
    const bool is_temporary =
        block.stream == index && hot->allocated_blocks - block.serial <= ledger->within;
    struct ag_tally *tally = &hot->tally;
    ag_ledger_count_death_fast(ledger, &ledger->sums[block.sum], tally, block.size, is_temporary);
    hot->freed_blocks++;
    hot->freed_bytes += block.size;
    tally->net -= (int64_t)block.size;
    tally->dip = tally->net < tally->dip ? tally->net : tally->dip;
    int r = 0;
    if (AG_UNLIKELY(ledger->deaths_are_kept || event->kind == AG_RECORD_REALLOC_FREE)) {
        r = ag_ledger_keep_death_fast(ledger, hot, &ledger->streams[index], at, event,
                                      is_temporary);
    }
    if (is_reported && r == 0) {
        r = ag_ledger_notify_step(ledger, AG_STEP_DEATH, &block, tally->now_ns,
                                  ledger->live.times_ns[at], is_temporary);
    }
    ag_live_table_remove(&ledger->live, at);
    if (AG_UNLIKELY(block.stream != index) && r == 0) {
        r = ag_ledger_count_pair(ledger, block.stream, index, block.size);
    }
    return r;
}

/* Apply the events of a stream one after the other, between ag_ledger_begin and ag_ledger_end.
 * ag_ledger_step_aside handles the events that the fast steps above do not handle: a stamp (a clock
 * value), an undo (the realloc that freed a block has failed), a reset, an event of a garbage
 * collector, an alloc at an address with a live block, a free at an address without a live block,
 * and every event while other events wait (order_repair.c).
 *
 *     ag_ledger_begin
 *     for each event: AT = ag_live_table_seek
 *         if ag_ledger_can_be_fast: ag_ledger_alloc_fast or ag_ledger_free_fast
 *         otherwise:                ag_ledger_step_aside
 *     ag_ledger_end */
int ag_ledger_begin(struct ag_ledger *ledger, uint32_t number, struct ag_ledger_hot *ret_hot,
                    uint32_t *ret_index); /* 0, -ENOMEM, or the error of an earlier call */
int ag_ledger_step_aside(struct ag_ledger *ledger, struct ag_ledger_hot *hot, uint32_t index,
                         const struct ag_event *event);
/* r: result of the last step; a negative errno becomes the result of all later calls. n_events
 * includes stamps. */
int ag_ledger_end(struct ag_ledger *ledger, const struct ag_ledger_hot *hot, uint32_t index,
                  size_t n_events, int r);

AG_FAST bool ag_ledger_can_be_fast(const struct ag_ledger *ledger, uint64_t at, uint64_t address,
                                   bool is_alloc) {
    const bool is_live = ledger->live.blocks[at].address != 0;
    return AG_LIKELY((is_live != is_alloc) & (ledger->repair.n_waiting == 0) & (address != 0));
}

#endif
