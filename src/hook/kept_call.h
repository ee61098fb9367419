/* kept_call.h: what stands behind a detour of a function whose callers may rely on more than the
 * ABI keeps: callers in the same file, or in a program that was optimized as a whole
 * (arch/x86_64/kept_frame.S says on what).
 *
 * A detour of such a function is installed by ag_detour_install_kept. Its page makes a frame and
 * jumps to code that saves all registers into it and aligns the stack: a struct ag_kept_call. The
 * datum of the detour says what is to be done there:
 *
 *     enter                  datum                 is called
 *     ag_kept_call           a function            with the caller's arguments (6 words at most);
 *                                                  returns a word
 *     ag_kept_call_void      a function            the same; nothing is returned
 *     ag_kept_call_two       a function            the same; two words are returned
 *     of an adapter (.S)     anything              with the struct; see adapters
 *
 * An adapter's own is made of the macros of kept_frame.S. It is for functions that are called often
 * and keep the vector registers by not using them. Behind those of this header may run anything:
 * the vector state is kept by saving it (base/vector_state.h; the pair costs about 50 ns).
 *
 * Keeping is not needed for a function that can only be reached through a procedure linkage table:
 * one that a shared library exports and that another may take the place of. Then use
 * ag_detour_install. */
#ifndef AG_KEPT_CALL_H
#define AG_KEPT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_kept_call {           /* the registers as the caller had them */
    uintptr_t result_2, result; /* of the original: rdx, rax */
    uintptr_t flags;
    uintptr_t arguments[6]; /* rdi, rsi, rdx, rcx, r8, r9 */
    uintptr_t r10, r11, rax;
    uintptr_t original; /* to be called, or to go on in; set by who needs it */
    uintptr_t datum;    /* of the detour */
    uintptr_t rbp;
    uintptr_t return_address; /* its address is the caller's sp */
};
_Static_assert(offsetof(struct ag_kept_call, rbp) == 112 &&
                   offsetof(struct ag_kept_call, datum) == 112 - 8 &&
                   offsetof(struct ag_kept_call, original) == 112 - 16,
               "as arch/x86_64/kept_frame.S has it");

/* Code for ag_detour_install_kept; not to be called from C. */
extern const unsigned char ag_kept_call[] AG_HIDDEN;
extern const unsigned char ag_kept_call_void[] AG_HIDDEN;
extern const unsigned char ag_kept_call_two[] AG_HIDDEN;

/* Calls call->original with all registers as the caller had them, and sets the results: a function
 * that returns nothing then leaves in them what the caller finds there without us. Returns the
 * first. The vector registers are whatever they are now. */
uintptr_t ag_kept_original(struct ag_kept_call *call) AG_HIDDEN;

/* In a function that ag_kept_call called: where the return address of the detoured function's
 * caller lies, and that caller's rbp. */
#define AG_KEPT_FRAME() (*(const uintptr_t *const *)__builtin_frame_address(0))
#define AG_KEPT_CALLER_SP() (AG_KEPT_FRAME() + 1)
#define AG_KEPT_CALLER_RBP() (*AG_KEPT_FRAME())

#endif
