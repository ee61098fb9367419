/* lua_entry.S: the code to which the detours (jumps at the start) of Lua's functions lead, and the
 * allocator of the adapter (allogram's code for Lua).
 *
 *     ag_lua_enter         target of the detours of the functions in lua_entries.def: notes the Lua state and the highest address
 *                          of the function's frame. The datum of a detour (a number that the detour passes) is the function's row
 *     ag_lua_new_enter     target of the detour of lua_newstate(f, ud): replaces f and ud by the adapter's allocator and its data,
 *                          if there is memory for the data
 *     ag_lua_allocate      the adapter's allocator: passes the caller's sp and rbp to the C function, and stores the callee-saved
 *                          registers for lua_pcs.c
 *     ag_lua_try           the allocator while lua_calibration.c checks the layout of Lua's structs, with the same steps as ag_lua_allocate
 *
 * Each ends with a jump to the function of Lua or to the C function. At that jump it has no frame
 * on the stack, so the unwinder sees Lua's callers unchanged. */
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
    mov %rsp, %fs:(%rax) /* stored first: if a signal handler then overwrites the stored words,
                          * lua_pcs.c finds the sp of another call and uses none of the registers */
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
