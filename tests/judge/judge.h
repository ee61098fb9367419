/* judge.h: an independent opinion on a stack, by libunwind.
 *
 * The functions are in the shared object liballogram_judge.so. Users link it, or load it and look
 * them up. It may call malloc, take the loader's lock, and needs 16 KiB of stack: its caller guards
 * against re-entry. */
#ifndef ALLOGRAM_JUDGE_H
#define ALLOGRAM_JUDGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The pcs of the stack from the frame on that made the call whose return address lies at sp,
 * innermost first; at most `capacity`. pcs are as in a stack tree's sites: pc - 1 lies in the
 * frame's instruction, so one is added where a signal interrupted. Returns how many, or -1 when
 * that frame was not met. Must be called, at whatever depth, by the function that was called there.
 */
__attribute__((visibility("default"))) int allogram_judge(const uintptr_t *sp, uintptr_t *ret_pcs,
                                                          int capacity);

/* Images were unloaded: what was cached of them is wrong now. */
__attribute__((visibility("default"))) void allogram_judge_forget(void);

#ifdef __cplusplus
}
#endif

#endif
