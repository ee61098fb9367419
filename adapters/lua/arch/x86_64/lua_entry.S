/* lua_entry.S: the targets of the detours of Lua's functions, and the allocator.
 *
 *     ag_lua_enter         behind the functions of lua_entries.def; the datum is the row. Notes the state and where the frame ends
 *     ag_lua_new_enter     behind lua_newstate(f, ud): continues with the adapter's allocator and state, when there is one
 *     ag_lua_allocate      that allocator: passes the caller's sp and rbp, and notes the callee-saved registers for lua_pcs.c
 *     ag_lua_try           the allocator of the calibration, which does the same
 *
 * None has a frame of its own on the stack when it continues, so the unwinder sees Lua's callers
 * unchanged. */
#include "hook/arch/x86_64/kept_frame.S"

    .text
    .hidden ag_lua_entered
    .hidden ag_lua_new

    .macro goes_on_behind name, function
kept_function \name
    kept_begin
    lea -KEPT_BYTES(%rbp), %rdi
    call \function
    kept_go_on
kept_end \name
    .endm

    goes_on_behind ag_lua_enter, ag_lua_entered
    goes_on_behind ag_lua_new_enter, ag_lua_new

    .hidden ag_lua_entered_with

    .macro allocator name, function
    .globl \name
    .hidden \name
    .hidden \function
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    mov ag_lua_entered_with@gottpoff(%rip), %rax
    mov %rsp, %fs:(%rax) /* first: what a signal handler leaves here is then not used */
    mov %rbx, %fs:8(%rax)
    mov %rbp, %fs:16(%rax)
    mov %r12, %fs:24(%rax)
    mov %r13, %fs:32(%rax)
    mov %r14, %fs:40(%rax)
    mov %r15, %fs:48(%rax)
    mov %rsp, %r8
    mov %rbp, %r9
    jmp \function
    .cfi_endproc
    .size \name, . - \name
    .endm

    allocator ag_lua_allocate, ag_lua_allocate_from
    allocator ag_lua_try, ag_lua_try_from

    .section .note.GNU-stack, "", @progbits
