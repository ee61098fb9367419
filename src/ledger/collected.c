/* collected.c: applies to the ledger (the live blocks and sums of a process) what a garbage
 * collector does to blocks, for apply.c.
 *
 * 1. A block that moves stays the same block: only its address changes. The block keeps its stack,
 *    size, thread and birth time, and no sum changes. A move of an unknown block is ignored. The
 *    death of an unknown block counts as a ghost (a free of an unknown block). The numbers of moves
 *    and promotions count only known blocks.
 *
 * 2. Moves happen while the threads that use the heap are stopped. After a collection the recorder
 *    (the code inside the program) writes a stamp (a clock value) before each thread's next event,
 *    so the windows of these threads lie completely before or after the moves. (A window is the
 *    events between two stamps.) If a window overlaps the moves nevertheless, an event may have
 *    been put aside because its address was in the wrong state (a free at an address without a
 *    block, or an allocation at the address of a live block). Such events are tried again when a
 *    move empties or fills their address.
 *
 * 3. A type that becomes known after the allocation moves the block to another sum (the counts of
 *    one stack and allocation function), since a stack with a type as its innermost frame is a
 *    stack of its own. The new sum counts the block as if it had been allocated with the type. If a
 *    report is limited to a range of time (--from, --to), each sum has a base, its value at the
 *    start of the range. A block that was allocated before the range then also moves from the base
 *    of the old sum to the base of the new sum. The stacks' shares of a past peak do not change,
 *    since the ledger does not know which blocks were live at that time. A step visitor (a callback
 *    for each birth and death) gets the birth as undone, and then the birth with the new stack. */
#include "ledger/apply_fast.h"

static struct ag_heap_collected *heap_of(struct ag_ledger *ledger, uint64_t address) {
    return &ledger->collected[AG_EVENT_SPACE(address) % AG_VIAS];
}

/* ---- moves ---- */

static int look_again(struct ag_ledger *ledger, uint64_t address) {
    return ledger->repair.n_waiting > 0 && ag_ledger_is_waiting(ledger, address)
               ? ag_ledger_drain(ledger, address)
               : 0;
}

static int block_move(struct ag_ledger *ledger, uint64_t from, uint64_t to) {
    uint64_t at = ag_live_table_seek(&ledger->live, from);
    if (from == to || to == 0 || ledger->live.blocks[at].address == 0) {
        return 0;
    }
    const uint64_t there = ag_live_table_seek(&ledger->live, to);
    int r = ledger->live.blocks[there].address != 0 ? ag_ledger_bury(ledger, there) : 0;
    if (r < 0) {
        return r;
    }
    at = ag_live_table_seek(&ledger->live, from);
    struct ag_live_block block = ledger->live.blocks[at];
    struct ag_live_past past = ag_live_table_past(&ledger->live, at);
    past.collections.n_moves += past.collections.n_moves < UINT32_MAX;
    ag_live_table_remove(&ledger->live, at);
    block.address = to;
    heap_of(ledger, from)->moved++;
    r = ag_ledger_put_back(ledger, &block, past);
    r = r < 0 ? r : look_again(ledger, from);
    return r < 0 ? r : look_again(ledger, to);
}

static void promote(struct ag_ledger *ledger, uint64_t address) {
    const uint64_t at = ag_live_table_seek(&ledger->live, address);
    if (ledger->live.blocks[at].address == 0) {
        return;
    }
    heap_of(ledger, address)->promoted++;
    if (ledger->live.collections) {
        uint32_t *n_promotions = &ledger->live.collections[at].n_promotions;
        *n_promotions += *n_promotions < UINT32_MAX;
    }
}

/* ---- late types ---- */

/* Moves a block that was allocated before the reported range from the base of the sum FROM to that
 * of the sum TO. */
static int shift_bases(struct ag_ledger *ledger, uint32_t from, uint32_t to, uint64_t bytes) {
    if (AG_ARRAY_EXTEND(ledger->sum_bases, ledger->n_sum_bases, ledger->n_sums) < 0) {
        return -ENOMEM;
    }
    ledger->sum_bases[from].allocated_blocks--;
    ledger->sum_bases[from].allocated_bytes -= bytes;
    ledger->sum_bases[to].allocated_blocks++;
    ledger->sum_bases[to].allocated_bytes += bytes;
    return 0;
}

static void shift_sums(struct ag_ledger *ledger, uint32_t from, uint32_t to, uint64_t bytes) {
    const uint64_t peak_version = ledger->tally.peak_version;
    ag_ledger_take_share_fast(&ledger->sums[from], peak_version);
    ag_ledger_take_share_fast(&ledger->sums[to], peak_version);
    ledger->sums[from].allocated_blocks--;
    ledger->sums[from].allocated_bytes -= bytes;
    ledger->sums[to].allocated_blocks++;
    ledger->sums[to].allocated_bytes += bytes;
    if (ledger->tally.at_peak) { /* the total is at its peak now, with this block */
        ledger->sums[from].peak_blocks--;
        ledger->sums[from].peak_bytes -= bytes;
        ledger->sums[to].peak_blocks++;
        ledger->sums[to].peak_bytes += bytes;
    }
}

static int give_type(struct ag_ledger *ledger, const struct ag_event *event) {
    const uint64_t at = ag_live_table_seek(&ledger->live, event->address);
    const struct ag_live_block before = ledger->live.blocks[at];
    if (before.address == 0 || ledger->results[before.sum].stack == UINT32_MAX) {
        return 0; /* ignores an unknown block, and a block that the filters of the report exclude */
    }
    const uint32_t sum =
        ag_ledger_sum(ledger, event->stack, (uint8_t)ledger->results[before.sum].via);
    if (sum == AG_INDEX_NONE) {
        return -ENOMEM;
    }
    if (sum == before.sum) {
        return 0;
    }
    const struct ag_stream *stream = &ledger->streams[before.stream];
    const bool is_older = ledger->sum_bases && before.serial <= stream->base.allocated_blocks;
    int r = is_older ? shift_bases(ledger, before.sum, sum, before.size) : 0;
    if (r < 0) {
        return r;
    }
    shift_sums(ledger, before.sum, sum, before.size);
    const uint64_t born_ns = ag_live_table_past(&ledger->live, at).born_ns;
    ledger->live.blocks[at].sum = sum;
    const struct ag_live_block now = ledger->live.blocks[at];
    r = ag_ledger_notify_fast(ledger, AG_STEP_BIRTH_UNDONE, &before, born_ns, born_ns);
    return r < 0 ? r : ag_ledger_notify_fast(ledger, AG_STEP_BIRTH, &now, born_ns, born_ns);
}

int ag_ledger_collected(struct ag_ledger *ledger, const struct ag_event *event) {
    if (event->address == 0) {
        return 0;
    }
    if (event->kind != AG_RECORD_MOVE && event->kind != AG_RECORD_PROMOTE) {
        return give_type(ledger, event);
    }
    const int r = ag_live_table_keep_collections(&ledger->live);
    if (r < 0) {
        return r;
    }
    if (event->kind == AG_RECORD_MOVE) {
        return block_move(ledger, event->address, event->size);
    }
    promote(ledger, event->address);
    return 0;
}
