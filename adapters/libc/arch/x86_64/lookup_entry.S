/* lookup_entry.S: dlsym and dlvsym, which the agent (allogram's library in the program) exports. If
 * symbol_lookup.c has no answer, they jump to the libc's function, so that it sees the return
 * address of the program's call. If the program has no library with that function, they return
 * NULL. */
    .text

    .macro lookup name
    .hidden ag_\name\()_answer
    .hidden ag_\name\()_original
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    call ag_\name\()_answer
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rax, %rax
    jnz 1f
    mov ag_\name\()_original(%rip), %r11
    test %r11, %r11
    jz 1f
    jmp *%r11
1:  ret
    .cfi_endproc
    .size \name, . - \name
    .endm

    lookup dlsym
    lookup dlvsym

    .section .note.GNU-stack, "", @progbits
