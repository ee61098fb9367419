/* julia_entry.S: hooks of two functions that have to be called with unchanged registers and stack:
 * jl_safe_printf, because its number of arguments is not known here, and dlsym, because it uses its
 * return address. Each hook ends with a jump to the original (the hooked function itself), except
 * that the hook of jl_safe_printf jumps to ag_julia_printf_answer while this thread asks Julia for
 * the names of functions (julia_code.c). */
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

    .hidden ag_julia_dlsym_original
    .hidden ag_julia_look_at_libraries
    .globl ag_julia_dlsym_entry
    .hidden ag_julia_dlsym_entry
    .type ag_julia_dlsym_entry, @function
    .p2align 4
ag_julia_dlsym_entry:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call ag_julia_look_at_libraries
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    mov ag_julia_dlsym_original(%rip), %rax
    jmp *%rax
    .cfi_endproc
    .size ag_julia_dlsym_entry, . - ag_julia_dlsym_entry

    .section .note.GNU-stack, "", @progbits
