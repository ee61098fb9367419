/* vector_state.S: calls a function and restores the vector registers (base/vector_state.h). Legacy
 * SSE instructions do not change the upper halves of the vector registers, so ag_call_keeping_sse
 * saves only the lower halves. */
#define DEFAULT_CONTROL 0x1f80 /* value of MXCSR: round to nearest, all exceptions masked */
#define SAVED_REGISTERS 256
#define XSAVE_BYTES 2752       /* AG_XSAVE_BYTES */
#define XSAVE_HEADER 512
#define MASK_IS_KNOWN 31       /* bit of ag_vector_mask */

    .hidden ag_vector_mask
    .hidden ag_vector_mask_find
    .text

    .macro begin name
    .globl \name
    .hidden \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    .endm

    .macro end name
    leave
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size \name, . - \name
    .endm

begin ag_call_keeping_sse
    sub $(SAVED_REGISTERS + 16), %rsp
    and $-16, %rsp
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps %xmm\n, (16 * \n)(%rsp)
    .endr
    stmxcsr SAVED_REGISTERS(%rsp)
    movl $DEFAULT_CONTROL, (SAVED_REGISTERS + 4)(%rsp)
    ldmxcsr (SAVED_REGISTERS + 4)(%rsp)
    mov %rdi, %rax
    mov %rsi, %rdi
    call *%rax
    ldmxcsr SAVED_REGISTERS(%rsp)
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps (16 * \n)(%rsp), %xmm\n
    .endr
end ag_call_keeping_sse

begin ag_call_keeping_vectors
    push %rbx
    .cfi_offset %rbx, -24
    push %rsi
    push %rdi
    sub $(XSAVE_BYTES + 64), %rsp
    and $-64, %rsp
    mov ag_vector_mask(%rip), %ebx
    btr $MASK_IS_KNOWN, %ebx
    jc 1f
    call ag_vector_mask_find
    mov %eax, %ebx
1:
    xor %edx, %edx
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7 /* XRSTOR refuses a header with unknown bits */
    mov %rdx, (XSAVE_HEADER + 8 * \n)(%rsp)
    .endr
    mov %ebx, %eax
    test %eax, %eax
    jz 2f
    xsave64 (%rsp)
    mov -24(%rbp), %rax
    mov -16(%rbp), %rdi
    call *%rax
    mov %ebx, %eax
    xor %edx, %edx
    xrstor64 (%rsp)
    jmp 3f
2:
    fxsave64 (%rsp)
    mov -24(%rbp), %rax
    mov -16(%rbp), %rdi
    call *%rax
    fxrstor64 (%rsp)
3:
    mov -8(%rbp), %rbx
end ag_call_keeping_vectors

    .section .note.GNU-stack, "", @progbits
