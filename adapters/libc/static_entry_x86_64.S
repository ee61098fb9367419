/* static_entry_x86_64.S: what stands behind the detours of allocators' functions; the datum is the row of
 * static_functions.def (static_allocator.c).
 *
 * Vector registers are kept by not using them: what runs between here and the original, and behind it, is compiled for general
 * registers alone (tools/check_vectors.py). The original is called with all registers as its caller had them; what it returns
 * in rax and rdx stays.
 *
 * Two calls, and not one in between: then the original finds nothing but registers and stack that it knows. */
#include "hook/arch/x86_64/kept_frame.S"

    .text
    .hidden ag_static_begin
    .hidden ag_static_end

kept_function ag_static_enter
    kept_begin
    lea -KEPT_BYTES(%rbp), %rdi
    call ag_static_begin
    test %al, %al
    jz 1f
    kept_restore_but_rax_rdx
    mov OFFSET_RDX(%rbp), %rdx
    mov OFFSET_RAX(%rbp), %rax
    call *OFFSET_ORIGINAL(%rbp)
    mov %rax, OFFSET_RESULT(%rbp)
    mov %rdx, OFFSET_RESULT_2(%rbp)
    lea -KEPT_BYTES(%rbp), %rdi
    call ag_static_end
    kept_return
1: /* nothing to do behind the original: it returns to the caller */
    kept_go_on
kept_end ag_static_enter

    .section .note.GNU-stack, "", @progbits
