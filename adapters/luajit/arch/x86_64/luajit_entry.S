/* luajit_entry.S: ag_luajit_allocate, the allocator of recorded states (an lua_Alloc). It passes the caller's sp and rbp to the C
 * function, and has no frame on the stack when it jumps there. */
    .text
    .globl ag_luajit_allocate
    .hidden ag_luajit_allocate
    .hidden ag_luajit_allocate_from
    .type ag_luajit_allocate, @function
    .p2align 4
ag_luajit_allocate:
    .cfi_startproc
    endbr64
    mov %rsp, %r8
    mov %rbp, %r9
    jmp ag_luajit_allocate_from
    .cfi_endproc
    .size ag_luajit_allocate, . - ag_luajit_allocate

    .section .note.GNU-stack, "", @progbits
