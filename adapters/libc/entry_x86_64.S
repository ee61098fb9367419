/* entry_x86_64.S: the exported allocation functions. Each hands its caller's stack pointer and rbp, as they are on entry, to
 * the C function behind it as two more arguments and jumps there: the unwinder starts from the exact state of the call, at
 * no frame of ours, and needs no frame pointer.
 *
 *     entry NAME, IMPLEMENTATION, register for sp, register for rbp (the first argument registers that NAME leaves free)
 *     entry_of_next NAME, SLOT, ..., SIZE: a recorder that is off costs a compare and a jump to the function behind (SLOT:
 *                                    its index in ag_next, asserted in start.c); one that samples costs a subtraction and
 *                                    a branch more, unless the block (SIZE: the register of its bytes) is a sample
 */
#define RECORDER_OFF 2   /* AG_RECORDER_OFF */
#define RECORDER_ASIDE 2 /* AG_RECORDER_ASIDE */
#define LEFT_BYTES 16    /* in struct ag_skip */

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

    /* As ag_skip_take_fast; rax and r11 are nobody's here. A thread that has not begun has nothing left. */
    .macro skip_or_1b slot, size
    mov ag_thread_skip@gottpoff(%rip), %rax
    mov %fs:LEFT_BYTES(%rax), %r11
    sub %\size, %r11
    jbe 1b
    dec %r11
    mov %r11, %fs:LEFT_BYTES(%rax)
    jmp *(ag_next + 8 * \slot)(%rip)
    .endm

    .macro entry_of_next name, slot, implementation, sp_register, bp_register, size
    begin \name
    testl $RECORDER_ASIDE, ag_recorder(%rip)
    jnz 2f
1:
    mov %rsp, %\sp_register
    mov %rbp, %\bp_register
    jmp \implementation
2:
    cmpl $RECORDER_OFF, ag_recorder(%rip)
    jne 3f
    jmp *(ag_next + 8 * \slot)(%rip)
3:
    .ifc \size, product
    mov %rdi, %rax
    mul %rsi
    jo 1b
    mov %rax, %r10
    skip_or_1b \slot, r10
    .else
    .ifnb \size
    skip_or_1b \slot, \size
    .else
    jmp 1b
    .endif
    .endif
    .cfi_endproc
    .size \name, . - \name
    .endm

    .macro entry name, implementation, sp_register, bp_register
    begin \name
    go \implementation, \sp_register, \bp_register
    .size \name, . - \name
    .endm

    .hidden ag_recorder
    .hidden ag_thread_skip
    .hidden ag_next
    .text
    entry_of_next malloc,         0, ag_malloc,         rsi, rdx, rdi
    entry_of_next calloc,         1, ag_calloc,         rdx, rcx, product
    entry_of_next realloc,        2, ag_realloc,        rdx, rcx
    entry_of_next memalign,       4, ag_memalign,       rdx, rcx, rsi
    entry_of_next aligned_alloc,  5, ag_aligned_alloc,  rdx, rcx, rsi
    entry_of_next posix_memalign, 6, ag_posix_memalign, rcx, r8, rdx
    entry_of_next valloc,         7, ag_valloc,         rsi, rdx, rdi
    entry_of_next pvalloc,        8, ag_pvalloc,        rsi, rdx, rdi
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
