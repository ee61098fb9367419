/* static_entry_x86_64.S: where a detoured function of the program jumps to: one entry a row of static_functions.def.
 *
 * All shapes have at most three arguments of their own (rdi, rsi, rdx), so the entry hands on: rcx the caller's sp, r8 its
 * rbp, r9 the row. While the thread is inside an allocator already (one of its functions called another by its public name),
 * the entry goes straight on to the original. */
    .text
    .p2align 4
    .globl ag_static_entries
    .hidden ag_static_entries
    .hidden ag_static_hook
    .type ag_static_entries, @object
ag_static_entries:
    .set row, 0
#define AG_STATIC(name, shape, via) static_entry name

    .macro static_entry name
    .p2align 5 /* AG_STATIC_ENTRY_BYTES */
    endbr64
    mov %rsp, %rcx
    mov %rbp, %r8
    mov $row, %r9d
    jmp ag_static_hook
    .set row, row + 1
    .endm

    .cfi_startproc
#include "static_functions.def"
    .cfi_endproc
    .size ag_static_entries, . - ag_static_entries

    .section .note.GNU-stack, "", @progbits
