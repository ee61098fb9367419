/* self_check.h: a debug mode in which every stack is compared with that of another unwinder. */
#ifndef AG_SELF_CHECK_H
#define AG_SELF_CHECK_H

#include "recorder.h"

/* Another unwinder: finds the stack of the call whose return address lies at sp, in the form of
 * sites: pc - 1 lies in the frame's instruction. Fills pcs, innermost first, and returns their
 * number, or 0 or less if it cannot tell. */
typedef int ag_judge_fn(const uintptr_t *sp, uintptr_t *ret_pcs, int capacity);

/* From now on each captured stack is compared; differences are counted in the slot. Called at the
 * start, by one thread. */
void ag_self_check_start(ag_judge_fn *judge);
bool ag_self_check_is_on(void);

/* Compares; called with the gate closed, so allocations of the other unwinder are recorded as those
 * of a signal handler. */
void ag_self_check_stack(uint32_t stack, const uintptr_t *sp);

#endif
