/* steps.c: tells a reader what happens to single blocks, as it happens in the books.
 *
 * Sums cannot be replayed; who draws a curve for every stack, or writes the history for another
 * tool, needs the births and deaths themselves, in the order that made the peak. That is the order
 * in which the ledger applies them, so it tells at the same places where it counts. What a repair
 * takes back is told as well: the reader who wants a history without second thoughts holds steps
 * until no window is open that could change them (model/pass/replay.c does). */
#include "ledger/ledger_state.h"

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
                                 .time_ns = ag_ledger_not_before_birth(time_ns, allocated_ns),
                                 .allocated_ns = allocated_ns,
                                 .serial = block->serial,
                                 .sum = block->sum,
                                 .stack = sum->stack,
                                 .thread = block->stream,
                                 .via = (uint8_t)sum->via,
                                 .is_temporary = is_temporary};
    return ledger->step_visit(ledger->step_context, &step);
}
