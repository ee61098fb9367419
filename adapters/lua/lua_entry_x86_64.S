/* lua_entry_x86_64.S: where detoured functions of Lua jump to. None has a frame of its own on the stack when it goes on, so
 * the unwinder sees Lua's callers as they are.
 *
 *     ag_lua_entries       one for each row of lua_entries.def: notes the state (rdi) and where the frame ends
 *     ag_lua_new_entry     lua_newstate(f, ud) goes on with our allocator and our state, when there is one
 *     ag_lua_allocate      that allocator: hands on the caller's sp and rbp, and notes for lua_pcs.c what the registers were
 *                          that calls leave as they are
 *     ag_lua_try           the allocator of the calibration, alike
 */
    .text

    .macro keep_arguments
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    push %rcx
    .cfi_adjust_cfa_offset 8
    push %r8
    .cfi_adjust_cfa_offset 8
    push %r9
    .cfi_adjust_cfa_offset 8
    push %rax /* of variadic functions: how many vector registers have arguments */
    .cfi_adjust_cfa_offset 8
    .endm

    .macro restore_arguments
    pop %rax
    .cfi_adjust_cfa_offset -8
    pop %r9
    .cfi_adjust_cfa_offset -8
    pop %r8
    .cfi_adjust_cfa_offset -8
    pop %rcx
    .cfi_adjust_cfa_offset -8
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    .endm

#define KEPT_BYTES 56
#define AG_LUA_ENTRY(name, is_base) lua_entry

    .macro lua_entry
    .p2align 6 /* AG_LUA_ENTRY_BYTES */
    .cfi_startproc
    endbr64
    keep_arguments
    lea (KEPT_BYTES + 8)(%rsp), %rsi
    call ag_lua_entered
    restore_arguments
    jmp *(ag_lua_originals + 8 * row)(%rip)
    .cfi_endproc
    .set row, row + 1
    .endm

    .globl ag_lua_entries
    .hidden ag_lua_entries
    .hidden ag_lua_entered
    .hidden ag_lua_originals
    .type ag_lua_entries, @function
    .p2align 6
ag_lua_entries:
    .set row, 0
#include "lua_entries.def"
    .size ag_lua_entries, . - ag_lua_entries

    .globl ag_lua_new_entry
    .hidden ag_lua_new_entry
    .hidden ag_lua_state_take
    .hidden ag_lua_new_original
    .type ag_lua_new_entry, @function
    .p2align 4
ag_lua_new_entry:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call ag_lua_state_take
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rax, %rax
    jz 1f
    mov %rax, %rsi
    lea ag_lua_allocate(%rip), %rdi
1:
    jmp *ag_lua_new_original(%rip)
    .cfi_endproc
    .size ag_lua_new_entry, . - ag_lua_new_entry

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
