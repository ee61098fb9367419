/* kept_call.h: code behind a detour of a function whose callers may rely on more than the ABI
 * guarantees: callers in the same file, or in a program that was optimized as a whole
 * (arch/x86_64/kept_frame.S lists on what they rely).
 *
 * ag_detour_install_kept installs a detour of such a function. Code in the detour's page makes a
 * frame and jumps to entry code, which saves all registers into the frame, a struct ag_kept_call,
 * and aligns the stack. The meaning of the detour's datum depends on the entry code:
 *
 *     entry code             datum                 what the entry code calls
 *     ag_kept_call           a function            the datum, with the caller's arguments (6 words
 *                                                  at most); returns a word
 *     ag_kept_call_void      a function            the same; nothing is returned
 *     ag_kept_call_two       a function            the same; two words are returned
 *     of an adapter (.S)     anything              functions of the adapter, with the struct
 *
 * An adapter's own entry code is made of the macros of kept_frame.S. It is for functions that are
 * called often, and preserves the vector registers by not using them. Functions called by this
 * header's entry code may use any registers: it saves and restores the vector state
 * (base/vector_state.h), which costs about 50 ns.
 *
 * A function that can only be reached through a procedure linkage table does not need this: one
 * that a shared library exports and another library may interpose. Use ag_detour_install then. */
#ifndef AG_KEPT_CALL_H
#define AG_KEPT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_kept_call {           /* the caller's registers */
    uintptr_t result_2, result; /* of the original: rdx, rax */
    uintptr_t flags;
    uintptr_t arguments[6]; /* rdi, rsi, rdx, rcx, r8, r9 */
    uintptr_t r10, r11, rax;
    uintptr_t original; /* to be called or continued in; set by what the entry code calls */
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

/* Calls call->original with the caller's general registers and the current vector registers. Stores
 * rax and rdx as results, even if the function returns nothing: so the caller finds the same values
 * as without the detour. Returns the first result. */
uintptr_t ag_kept_original(struct ag_kept_call *call) AG_HIDDEN;

/* In a function that ag_kept_call called: the address of the return address to the detoured
 * function's caller, and that caller's rbp. */
#define AG_KEPT_FRAME() (*(const uintptr_t *const *)__builtin_frame_address(0))
#define AG_KEPT_CALLER_SP() (AG_KEPT_FRAME() + 1)
#define AG_KEPT_CALLER_RBP() (*AG_KEPT_FRAME())

#endif
