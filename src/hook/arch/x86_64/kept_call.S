/* kept_call.S: code that detours of functions with a kept frame enter (hook/kept_call.h), and
 * ag_kept_original, through which that code calls the original function. A detour is a jump at the
 * start of a function that leads to other code. A kept frame stores all registers of the caller. */
#include "kept_frame.S"

    .hidden ag_call_keeping_vectors
    .text

    /* The callback that is passed to ag_call_keeping_vectors: rdi is the struct ag_kept_call. Calls
     * the function in the member `datum` of that struct, with the arguments of the detoured
     * call. */
    .type kept_call_datum, @function
    .p2align 4
kept_call_datum:
    .cfi_startproc
    endbr64
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    lea KEPT_BYTES(%rdi), %rbp
    mov OFFSET_RSI(%rbp), %rsi
    mov OFFSET_RDX(%rbp), %rdx
    mov OFFSET_RCX(%rbp), %rcx
    mov OFFSET_R8(%rbp), %r8
    mov OFFSET_R9(%rbp), %r9
    mov OFFSET_RDI(%rbp), %rdi
    call *OFFSET_DATUM(%rbp)
    mov %rax, OFFSET_RESULT(%rbp)
    mov %rdx, OFFSET_RESULT_2(%rbp)
    pop %rbp
    .cfi_def_cfa_offset 8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size kept_call_datum, . - kept_call_datum

    .macro call_datum
    lea kept_call_datum(%rip), %rdi
    lea -KEPT_BYTES(%rbp), %rsi
    call ag_call_keeping_vectors
    .endm

    /* makes the caller's rdx the second result, for functions that return at most one word */
    .macro second_is_callers
    mov OFFSET_RDX(%rbp), %rdx
    mov %rdx, OFFSET_RESULT_2(%rbp)
    .endm

kept_function ag_kept_call
    kept_begin
    call_datum
    second_is_callers
    kept_return
kept_end ag_kept_call

kept_function ag_kept_call_two
    kept_begin
    call_datum
    kept_return
kept_end ag_kept_call_two

kept_function ag_kept_call_void
    kept_begin
    call_datum
    mov OFFSET_RAX(%rbp), %rax
    mov %rax, OFFSET_RESULT(%rbp)
    second_is_callers
    kept_return
kept_end ag_kept_call_void

    /* uintptr_t ag_kept_original(struct ag_kept_call *) */
kept_function ag_kept_original
    .cfi_startproc
    endbr64
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    lea KEPT_BYTES(%rdi), %rbp
    kept_restore_flags
    kept_call_original
    pop %rbp
    .cfi_def_cfa_offset 8
    .cfi_restore %rbp
    ret
kept_end ag_kept_original

    .section .note.GNU-stack, "", @progbits
