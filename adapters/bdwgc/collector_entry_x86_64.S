/* collector_entry_x86_64.S: where a detoured function of the collector jumps to: one entry a row of collector_functions.def.
 *
 * A thread that is inside the collector already goes straight on to the original (the collector's functions call each other
 * by their public names), but for the rows that are looked at always. Else the arguments are laid into a struct ag_collector_call
 * on the stack and ag_collector_call does the rest. */
    .text
    .hidden ag_collector_entries
    .hidden ag_collector_originals
    .hidden ag_collector_call
    .hidden ag_collector_inside

    .p2align 5
    .type enter, @function
enter:
    .cfi_startproc
    mov ag_collector_inside@gottpoff(%rip), %r11
    cmpq $0, %fs:(%r11)
    jne 2f
    .type enter_always, @function
enter_always:
    sub $88, %rsp
    .cfi_adjust_cfa_offset 88
    mov %rdi, (%rsp)
    mov %rsi, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rcx, 24(%rsp)
    mov %r8, 32(%rsp)
    mov %r9, 40(%rsp)
    lea 88(%rsp), %r11
    mov %r11, 48(%rsp)
    mov %rbp, 56(%rsp)
    mov %rax, 64(%rsp)
    mov %rsp, %rdi
    call ag_collector_call
    add $88, %rsp
    .cfi_adjust_cfa_offset -88
    ret
2:
    lea ag_collector_originals(%rip), %r11
    jmp *(%r11,%rax,8)
    .cfi_endproc
    .size enter, . - enter

    .p2align 4
    .globl ag_collector_entries
    .type ag_collector_entries, @object
ag_collector_entries:
    .set row, 0
#define AG_COLLECTOR(name, shape) collector_entry enter
#define AG_COLLECTOR_ALWAYS(name, shape) collector_entry enter_always

    .macro collector_entry behind
    .p2align 4 /* AG_COLLECTOR_ENTRY_BYTES */
    endbr64
    mov $row, %eax
    jmp \behind
    .set row, row + 1
    .endm

    .cfi_startproc
#include "collector_functions.def"
    .cfi_endproc
    .size ag_collector_entries, . - ag_collector_entries

    .section .note.GNU-stack, "", @progbits
