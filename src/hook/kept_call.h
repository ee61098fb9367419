/* kept_call.h: the code to which the detour (a jump at the start) of a function leads if the
 * function's callers may rely on more than the ABI guarantees. Such callers are in the same source
 * file, or in a program that was optimized as a whole (arch/x86_64/kept_frame.S lists what they may
 * rely on). "Kept": the code preserves all registers, not only those that the ABI preserves.
 *
 * ag_detour_install_kept installs a detour of such a function. Code in the detour's page makes a
 * frame and jumps to entry code, which saves all registers into the frame, a struct ag_kept_call,
 * and aligns the stack. The datum is a word that is given when the detour is installed. Its meaning
 * depends on the entry code:
 *
 *     entry code             datum                 what the entry code calls
 *     ag_kept_call           a function            the datum, with the caller's arguments (6 words
 *                                                  at most); returns a word
 *     ag_kept_call_void      a function            as ag_kept_call; nothing is returned
 *     ag_kept_call_two       a function            as ag_kept_call; returns two words
 *     of an adapter (.S)     anything              functions of the adapter, with the struct
 *
 * An adapter (the code for one runtime or allocator) makes its own entry code with the macros of
 * kept_frame.S. Such entry code is for functions that are called often; it and the functions that
 * it calls must not use vector registers. Functions called by the three entry codes above may use
 * any registers, because the entry code saves and restores the vector state (base/vector_state.h),
 * which costs about 50 ns.
 *
 * If a shared library exports a function, and another library may interpose the function, its
 * callers can rely only on the ABI. Use ag_detour_install for such a function. */
#ifndef AG_KEPT_CALL_H
#define AG_KEPT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_kept_call {           /* the caller's registers at the call, the results, and the datum */
    uintptr_t result_2, result; /* rdx and rax when the detoured call returns */
    uintptr_t flags;
    uintptr_t arguments[6]; /* rdi, rsi, rdx, rcx, r8, r9 */
    uintptr_t r10, r11, rax;
    /* address of the original function; set by the function that the entry code calls */
    uintptr_t original;
    uintptr_t datum; /* the detour's datum */
    uintptr_t rbp;
    uintptr_t return_address; /* the address of this member is the caller's sp */
};
_Static_assert(offsetof(struct ag_kept_call, rbp) == 112 &&
                   offsetof(struct ag_kept_call, datum) == 112 - 8 &&
                   offsetof(struct ag_kept_call, original) == 112 - 16,
               "arch/x86_64/kept_frame.S uses the same offsets");

/* Code for ag_detour_install_kept; not to be called from C. */
extern const unsigned char ag_kept_call[] AG_HIDDEN;
extern const unsigned char ag_kept_call_void[] AG_HIDDEN;
extern const unsigned char ag_kept_call_two[] AG_HIDDEN;

/* Calls call->original with the caller's general registers and the current vector registers. Stores
 * rax and rdx as results, even if the function returns nothing; entry code of an adapter may return
 * these to the caller. The three entry codes above return other values: the results of the datum
 * (ag_kept_call_two: rax and rdx; ag_kept_call: rax) and, in a register that has no result, the
 * caller's value. Returns the first result. */
uintptr_t ag_kept_original(struct ag_kept_call *call) AG_HIDDEN;

/* For a function that one of the three entry codes above called. AG_KEPT_CALLER_SP: the address of
 * the return address to the caller of the detoured function. AG_KEPT_CALLER_RBP: the rbp of that
 * caller. */
#define AG_KEPT_FRAME() (*(const uintptr_t *const *)__builtin_frame_address(0))
#define AG_KEPT_CALLER_SP() (AG_KEPT_FRAME() + 1)
#define AG_KEPT_CALLER_RBP() (*AG_KEPT_FRAME())

#endif
