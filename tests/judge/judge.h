/* judge.h: unwinds a stack with libunwind, to be compared with the result of the unwinder of the
 * agent (the library that allogram preloads into programs).
 *
 * The functions are in the shared object liballogram_judge.so, the judge. They may call malloc and
 * take the loader's lock, and need 16 KiB of stack. A malloc that calls them must not call them
 * again when they call malloc. */
#ifndef ALLOGRAM_JUDGE_H
#define ALLOGRAM_JUDGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the pcs (code addresses) of the stack's frames, innermost first, at most `capacity`. sp
 * points to the return address of a call on the stack. The first frame is the function that made
 * this call; the called function, or a callee of it, must call allogram_judge. For each pc, pc - 1
 * is inside of the frame's current instruction: the pc of a call is its return address, and the pc
 * of a frame that a signal interrupted is increased by one. Returns the number of pcs, or -1 if the
 * first frame was not found or libunwind is not loaded. */
__attribute__((visibility("default"))) int allogram_judge(const uintptr_t *sp, uintptr_t *ret_pcs,
                                                          int capacity);

/* Clears libunwind's cache. Must be called after a shared object was unloaded. */
__attribute__((visibility("default"))) void allogram_judge_forget(void);

#ifdef __cplusplus
}
#endif

#endif
