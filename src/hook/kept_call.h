/* kept_call.h: code behind a detour of a function whose callers may rely on more than the ABI
 * guarantees: callers in the same file, or in a program that was optimized as a whole
 * (arch/x86_64/kept_frame.S says on what they rely).
 *
 * A detour of such a function is installed by ag_detour_install_kept. Its page makes a frame and
 * jumps to code that saves all registers into the frame, a struct ag_kept_call, and aligns the
 * stack. The detour's datum depends on that code:
 *
 *     enter                  datum                 is called
 *     ag_kept_call           a function            with the caller's arguments (6 words at most);
 *                                                  returns a word
 *     ag_kept_call_void      a function            the same; nothing is returned
 *     ag_kept_call_two       a function            the same; two words are returned
 *     of an adapter (.S)     anything              with the struct; see adapters
 *
 * An adapter's own entry code is made of the macros of kept_frame.S. It is for functions that are
 * called often, and preserves the vector registers by not using them. Functions called by this
 * header's entry code may use any registers: the vector state is saved and restored
 * (base/vector_state.h; the pair costs about 50 ns).
 *
 * None of this is needed for a function that can only be reached through a procedure linkage table:
 * one that a shared library exports and that another library may interpose. Then use
 * ag_detour_install. */
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
    uintptr_t original; /* to be called or continued in; set by the entry code that needs it */
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

/* Calls call->original with the caller's registers, and stores the results: a function that returns
 * nothing leaves in them what the caller would find there without the detour. Returns the first
 * result. The vector registers have their current values. */
uintptr_t ag_kept_original(struct ag_kept_call *call) AG_HIDDEN;

/* In a function that ag_kept_call called: the address of the return address to the detoured
 * function's caller, and that caller's rbp. */
#define AG_KEPT_FRAME() (*(const uintptr_t *const *)__builtin_frame_address(0))
#define AG_KEPT_CALLER_SP() (AG_KEPT_FRAME() + 1)
#define AG_KEPT_CALLER_RBP() (*AG_KEPT_FRAME())

#endif
