/* call_gc.S: the code to which the detours (jumps at the start) of functions of the runtime lead:
 * ag_ocaml_call_gc_enter_4 and _5 for caml_call_gc, ag_ocaml_hook_before and ag_ocaml_hook_around
 * for the other functions that allocation_path.c hooks.
 *
 * OCaml code calls caml_call_gc with all its registers in use; r14 is the state of the domain (the
 * unit of parallelism of OCaml 5; OCaml 4 has one), r15 the young pointer. The code here saves the
 * registers that C code may change, except vector registers, which the adapter's code does not use.
 * The registers are saved on another stack than that of the OCaml code, and the C code runs on that
 * stack too:
 *
 *     OCaml 4   a stack of the adapter; r11 is free
 *     OCaml 5   the domain's C stack, which the runtime itself also uses. r11 is stored in the red
 *               zone (below the program's stack pointer) until it can be moved to the C stack */
#include "hook/arch/x86_64/kept_frame.S"

#define SAVED_BYTES 96          /* from the high end of the other stack */
#define SAVED_RBP -8
#define SAVED_R11 -16
#define C_STACK 64              /* in the domain's state of OCaml 5 */
#define RED_ZONE_R11 -16        /* from the program's stack pointer */

    .text
    .hidden ag_ocaml_own_stack
    .hidden ag_ocaml_call_gc
    .hidden ag_ocaml_allocated

    /* r11: the high end of the other stack. keeps_r11: r11 was stored in the red zone. Returns with rsp and rbp of the caller, the zero flag
     * set if the original has to run, and r11 unchanged. */
    .macro call_allocated keeps_r11
    mov %rbp, SAVED_RBP(%r11)
    mov %rsp, %rbp
    .cfi_def_cfa %rbp, 8
    .cfi_undefined %rbp
    lea -SAVED_BYTES(%r11), %rsp
    mov %rax, 0(%rsp)
    .if \keeps_r11
    mov RED_ZONE_R11(%rbp), %rax
    mov %rax, SAVED_R11(%r11)
    .endif
    mov %rcx, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rsi, 24(%rsp)
    mov %rdi, 32(%rsp)
    mov %r8, 40(%rsp)
    mov %r9, 48(%rsp)
    mov %r10, 56(%rsp)
    mov %r11, 64(%rsp)
    mov %rbp, %rdi
    mov SAVED_RBP(%r11), %rsi
    mov %r15, %rdx
    mov %r14, %rcx
    call ag_ocaml_allocated
    test %al, %al
    mov 0(%rsp), %rax
    mov 8(%rsp), %rcx
    mov 16(%rsp), %rdx
    mov 24(%rsp), %rsi
    mov 32(%rsp), %rdi
    mov 40(%rsp), %r8
    mov 48(%rsp), %r9
    mov 56(%rsp), %r10
    mov 64(%rsp), %r11
    mov %rbp, %rsp
    .cfi_def_cfa %rsp, 8
    mov SAVED_RBP(%r11), %rbp
    .cfi_restore %rbp
    .endm

kept_function ag_ocaml_call_gc_enter_4
    .cfi_startproc
    endbr64
    mov ag_ocaml_own_stack(%rip), %r11
    test %r11, %r11
    jz 1f
    movq $0, ag_ocaml_own_stack(%rip)
    call_allocated keeps_r11=0
    mov %r11, ag_ocaml_own_stack(%rip)
    jz 1f
    ret
1:
    jmp *ag_ocaml_call_gc(%rip)
kept_end ag_ocaml_call_gc_enter_4

kept_function ag_ocaml_call_gc_enter_5
    .cfi_startproc
    endbr64
    mov %r11, RED_ZONE_R11(%rsp)
    mov C_STACK(%r14), %r11
    call_allocated keeps_r11=1
    mov SAVED_R11(%r11), %r11
    jz 1f
    ret
1:
    jmp *ag_ocaml_call_gc(%rip)
kept_end ag_ocaml_call_gc_enter_5

    /* Continues on the adapter's stack, if there is one and it is free. rbp is unchanged. Pushes the
     * value of ag_ocaml_own_stack, which from_own_stack restores, and a word of padding. */
    .macro to_own_stack
    mov ag_ocaml_own_stack(%rip), %rax
    mov %rsp, %rcx
    test %rax, %rax
    cmovnz %rax, %rcx
    mov %rcx, %rsp
    push %rax
    sub $8, %rsp
    movq $0, ag_ocaml_own_stack(%rip)
    .endm

    /* Restores ag_ocaml_own_stack. Does not change al. */
    .macro from_own_stack
    mov 8(%rsp), %rcx
    mov %rcx, ag_ocaml_own_stack(%rip)
    .endm

    .hidden ag_ocaml_hook_begins
    .hidden ag_ocaml_hook_ends
kept_function ag_ocaml_hook_before
    kept_begin
    to_own_stack
    lea -KEPT_BYTES(%rbp), %rdi
    call ag_ocaml_hook_begins
    from_own_stack
    test %al, %al
    jz 1f
    kept_return
1:
    kept_go_on
kept_end ag_ocaml_hook_before

    kept_between ag_ocaml_hook_around, ag_ocaml_hook_begins, ag_ocaml_hook_ends

    .section .note.GNU-stack, "", @progbits
