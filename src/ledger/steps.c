/* steps.c: notifies a reader of births and deaths of single blocks, as the ledger counts them.
 *
 * Sums cannot be replayed: to draw a curve for every stack, or to write the history for another
 * tool, a reader needs the births and deaths themselves, in the order that made the peak. That is
 * the order in which the ledger applies them, so it notifies at the same places where it counts.
 * Steps that a repair undoes are notified as well: a reader that wants a final history holds steps
 * back until no open window could change them (as model/pass/replay.c does). */
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
