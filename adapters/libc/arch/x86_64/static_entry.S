/* static_entry.S: the code to which the detours (jumps at the start of functions) of allocators'
 * functions lead (see static_allocator.c). The original is the hooked function without its detour.
 * A detour passes a number to this entry, its datum: the function's row in static_functions.def.
 *
 * Vector registers keep their values, because the code that runs before and after the original is
 * compiled for general registers only (tools/check_vectors.py checks this). The original is called
 * with all registers as its caller had them, and its caller gets the original's results in rax and
 * rdx. The words above the caller's return address are copied if the function may have arguments on
 * the stack: an allocator's function has none there, but a function that only has the name of one
 * may have some (stack_words).
 *
 * The entry calls ag_static_begin before the original and, if that returned true, ag_static_end
 * after it; if it returned false, the entry jumps to the original. No C function calls the
 * original, so the original finds the registers and the stack as its caller left them. */
#include "hook/arch/x86_64/kept_frame.S"

#define STATIC_CALL_BYTES 32 /* offset of the kept registers in struct static_call */
#define STACK_WORDS 16       /* as in static_allocator.c */

    .text
    kept_between ag_static_enter, ag_static_begin, ag_static_end, STATIC_CALL_BYTES, STACK_WORDS

    .section .note.GNU-stack, "", @progbits
