/* self_check.h: a debug mode in which every stack is compared with that of another unwinder. */
#ifndef AG_SELF_CHECK_H
#define AG_SELF_CHECK_H

#include "recorder.h"

/* Another unwinder: finds the stack of the call whose return address is at the address sp. Each pc
 * is such that pc - 1 lies inside the instruction that the frame was executing. Fills ret_pcs,
 * innermost first, and returns the number of frames; 0 or less: it cannot find the stack. */
typedef int ag_judge_fn(const uintptr_t *sp, uintptr_t *ret_pcs, int capacity);

/* From now on each captured stack is compared with the stack that JUDGE finds. Stacks and
 * differences are counted in the process' slot (its entry in the memory that is shared with the
 * writer). Called at the start, by one thread. */
void ag_self_check_start(ag_judge_fn *judge);
bool ag_self_check_is_on(void);

/* Compares STACK with the stack that the other unwinder finds at sp. The thread's gate must be
 * closed: a closed gate says that the thread is recording an event. So the other unwinder's
 * allocations are treated like those of a signal handler that interrupted the event. */
void ag_self_check_stack(uint32_t stack, const uintptr_t *sp);
/* Counts a comparison that another part of the recorder made. */
void ag_self_check_count(bool is_same);

#endif
