/* lua_entry_x86_64.S: what stands behind detours of Lua's functions, and the allocator.
 *
 *     ag_lua_enter         behind the functions of lua_entries.def; the datum is the row. Notes the state and where the frame ends
 *     ag_lua_new_enter     behind lua_newstate(f, ud): goes on with our allocator and our state, when there is one
 *     ag_lua_allocate      that allocator: hands on the caller's sp and rbp, and notes for lua_pcs.c what the registers were
 *                          that calls leave as they are
 *     ag_lua_try           the allocator of the calibration, alike
 *
 * None has a frame of its own on the stack when it goes on, so the unwinder sees Lua's callers as they are.
 */
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
    mov %rsp, %fs:(%rax) /* first: what a handler leaves here is then not taken for ours */
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
