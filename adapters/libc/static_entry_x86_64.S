/* static_entry_x86_64.S: what stands behind the detours of allocators' functions; the datum is the row of
 * static_functions.def (static_allocator.c).
 *
 * Vector registers are kept by not using them: what runs between here and the original, and behind it, is compiled for general
 * registers alone (tools/check_vectors.py). The original is called with all registers as its caller had them; what it returns
 * in rax and rdx stays.
 *
 * Two calls, and not one in between: then the original finds nothing but registers and stack that it knows. */
#include "hook/arch/x86_64/kept_frame.S"

#define STATIC_CALL_BYTES 32 /* of struct static_call, in front of what is kept */

    .text
    kept_between ag_static_enter, ag_static_begin, ag_static_end, STATIC_CALL_BYTES

    .section .note.GNU-stack, "", @progbits
