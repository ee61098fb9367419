/* julia_entry_x86_64.S: in front of jl_safe_printf, whose arguments nobody but itself can count: they stay where they are. */
    .text
    .hidden ag_julia_asks
    .hidden ag_julia_printf_answer
    .hidden ag_julia_printf_original
    .globl ag_julia_printf_entry
    .hidden ag_julia_printf_entry
    .type ag_julia_printf_entry, @function
    .p2align 4
ag_julia_printf_entry:
    .cfi_startproc
    endbr64
    mov ag_julia_asks@gottpoff(%rip), %r11
    cmpq $0, %fs:(%r11)
    jne ag_julia_printf_answer
    mov ag_julia_printf_original(%rip), %r11
    jmp *%r11
    .cfi_endproc
    .size ag_julia_printf_entry, . - ag_julia_printf_entry

    .section .note.GNU-stack, "", @progbits
