/* entry_x86_64.S: the exported allocation functions. Each hands its caller's stack pointer and rbp, as they are on entry, to
 * the C function behind it as two more arguments and jumps there: the unwinder starts from the exact state of the call, at
 * no frame of ours, and needs no frame pointer.
 *
 *     entry NAME, IMPLEMENTATION, register for sp, register for rbp (the first argument registers that NAME leaves free)
 */
    .macro entry name, implementation, sp_register, bp_register
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    mov %rsp, %\sp_register
    mov %rbp, %\bp_register
    jmp \implementation
    .cfi_endproc
    .size \name, . - \name
    .endm

    .text
    entry malloc,         ag_malloc,         rsi, rdx
    entry calloc,         ag_calloc,         rdx, rcx
    entry realloc,        ag_realloc,        rdx, rcx
    entry reallocarray,   ag_reallocarray,   rcx, r8
    entry memalign,       ag_memalign,       rdx, rcx
    entry aligned_alloc,  ag_aligned_alloc,  rdx, rcx
    entry posix_memalign, ag_posix_memalign, rcx, r8
    entry valloc,         ag_valloc,         rsi, rdx
    entry pvalloc,        ag_pvalloc,        rsi, rdx

    /* operator new and new[], each plain, nothrow, aligned, aligned and nothrow */
    entry _Znwm,                              ag_new,                       rsi, rdx
    entry _Znam,                              ag_new_array,                 rsi, rdx
    entry _ZnwmRKSt9nothrow_t,                ag_new_nothrow,               rdx, rcx
    entry _ZnamRKSt9nothrow_t,                ag_new_array_nothrow,         rdx, rcx
    entry _ZnwmSt11align_val_t,               ag_new_aligned,               rdx, rcx
    entry _ZnamSt11align_val_t,               ag_new_array_aligned,         rdx, rcx
    entry _ZnwmSt11align_val_tRKSt9nothrow_t, ag_new_aligned_nothrow,       rcx, r8
    entry _ZnamSt11align_val_tRKSt9nothrow_t, ag_new_array_aligned_nothrow, rcx, r8

    .section .note.GNU-stack, "", @progbits
