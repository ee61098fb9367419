/* static_entry.S: the entry to which the detours of allocators' functions lead; the datum is
 * the row of static_functions.def (static_allocator.c).
 *
 * Vector registers are kept by not using them: the code that runs before and after the original is
 * compiled for general registers only (tools/check_vectors.py). The original is called with all
 * registers as its caller had them; its results in rax and rdx are kept.
 *
 * There are two calls, before and after the original, and not one around it: so the original finds
 * only registers and stack that it expects. */
#include "hook/arch/x86_64/kept_frame.S"

#define STATIC_CALL_BYTES 32 /* of struct static_call, in front of the kept registers */

    .text
    kept_between ag_static_enter, ag_static_begin, ag_static_end, STATIC_CALL_BYTES

    .section .note.GNU-stack, "", @progbits
