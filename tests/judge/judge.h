/* judge.h: unwinds a stack with libunwind, to be compared with the result of the unwinder of the
 * agent (the library that allogram preloads into programs).
 *
 * The functions are in the shared object liballogram_judge.so. Callers link it, or load it and look
 * the functions up. The functions may call malloc and take the loader's lock, and they need 16 KiB
 * of stack. The caller must not call them again from a malloc that they call. */
#ifndef ALLOGRAM_JUDGE_H
#define ALLOGRAM_JUDGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the pcs of the stack, innermost first, at most `capacity`. The first frame is the one that
 * made the call whose return address is stored at sp. As in a stack tree's sites, pc - 1 is inside
 * of the frame's instruction, so one is added to the pc of a frame that a signal interrupted.
 * Returns the number of pcs, or -1 if that frame was not found. The called function, or a function
 * below it, must be the caller. */
__attribute__((visibility("default"))) int allogram_judge(const uintptr_t *sp, uintptr_t *ret_pcs,
                                                          int capacity);

/* Must be called after images were unloaded: clears libunwind's cache. */
__attribute__((visibility("default"))) void allogram_judge_forget(void);

#ifdef __cplusplus
}
#endif

#endif
