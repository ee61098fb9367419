/* self_check.h: debug mode: every stack is compared with that of another unwinder. */
#ifndef AG_SELF_CHECK_H
#define AG_SELF_CHECK_H

#include "recorder.h"

/* Asks another unwinder for the stack of the call whose return address lies at sp, as sites have
 * it: pc - 1 lies in the frame's instruction. Fills pcs, innermost first; returns how many, 0 or
 * less when it has no opinion. */
typedef int ag_judge_fn(const uintptr_t *sp, uintptr_t *ret_pcs, int capacity);

/* From now on each captured stack is judged; differences are counted in the slot. Called at the
 * start, by one thread. */
void ag_self_check_start(ag_judge_fn *judge);
bool ag_self_check_is_on(void);

/* Compares; called with the gate shut, so what the judge allocates is recorded as a handler's would
 * be. */
void ag_self_check_stack(uint32_t stack, const uintptr_t *sp);

#endif
