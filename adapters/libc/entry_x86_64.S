/* entry_x86_64.S: the exported allocation functions. Each hands its caller's stack pointer and rbp, as they are on entry, to
 * the C function behind it as two more arguments and jumps there: the unwinder starts from the exact state of the call, at
 * no frame of ours, and needs no frame pointer.
 *
 *     entry NAME, IMPLEMENTATION, register for sp, register for rbp (the first argument registers that NAME leaves free)
 *     entry_of_next NAME, SLOT, ...: a recorder that is off costs a compare and a jump to the function behind (SLOT: its
 *                                    index in ag_next, asserted in start.c)
 */
#define RECORDER_OFF 2 /* AG_RECORDER_OFF */

    .macro begin name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    .endm

    .macro go implementation, sp_register, bp_register
    mov %rsp, %\sp_register
    mov %rbp, %\bp_register
    jmp \implementation
    .cfi_endproc
    .endm

    .macro entry_of_next name, slot, implementation, sp_register, bp_register
    begin \name
    cmpl $RECORDER_OFF, ag_recorder(%rip)
    jne 1f
    jmp *(ag_next + 8 * \slot)(%rip)
1:
    go \implementation, \sp_register, \bp_register
    .size \name, . - \name
    .endm

    .macro entry name, implementation, sp_register, bp_register
    begin \name
    go \implementation, \sp_register, \bp_register
    .size \name, . - \name
    .endm

    .hidden ag_recorder
    .hidden ag_next
    .text
    entry_of_next malloc,         0, ag_malloc,         rsi, rdx
    entry_of_next calloc,         1, ag_calloc,         rdx, rcx
    entry_of_next realloc,        2, ag_realloc,        rdx, rcx
    entry_of_next memalign,       4, ag_memalign,       rdx, rcx
    entry_of_next aligned_alloc,  5, ag_aligned_alloc,  rdx, rcx
    entry_of_next posix_memalign, 6, ag_posix_memalign, rcx, r8
    entry_of_next valloc,         7, ag_valloc,         rsi, rdx
    entry_of_next pvalloc,        8, ag_pvalloc,        rsi, rdx
    entry reallocarray,   ag_reallocarray,   rcx, r8

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
