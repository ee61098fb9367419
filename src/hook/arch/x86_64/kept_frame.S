/* kept_frame.S: macros for the stack frame of a call that preserves all registers. A detour is a
 * jump at the start of a function that leads to other code. This code must preserve all registers
 * if the callers of the function rely on them (hook/kept_call.h). Assembler files include this
 * file; by itself it produces no code.
 *
 * The callers of a detoured function may be in the same object, even in the same source file. Then
 * the compiler knows what the function does to registers and stack, and may rely on more than the
 * ABI guarantees:
 *
 *     -fipa-ra               a register that the function does not use keeps its value: argument
 *                            registers, r10, r11, vector registers; rax too if nothing is returned
 *     -fipa-stack-alignment  the stack is aligned to 8 bytes if the function needs no more
 *
 * So all general registers and the flags are preserved, except those that the detoured function
 * (the "original") changes, and the stack is aligned to 16 bytes.
 *
 *     caller's sp ->  return address    [rbp + 8]
 *                     caller's rbp      [rbp]
 *                     struct ag_kept_call (hook/kept_call.h), from its last member downward
 *
 * When the code of this file begins, code in the detour's page has already made the frame: it has
 * set rbp and rsp, and saved rax and the detour's datum (ag_write_kept_frame in relocate.c). */
#ifndef AG_KEPT_FRAME
#define AG_KEPT_FRAME

#define KEPT_BYTES 112          /* rbp minus the address of struct ag_kept_call */
#define OFFSET_DATUM -8         /* from rbp */
#define OFFSET_ORIGINAL -16
#define OFFSET_RAX -24
#define OFFSET_R11 -32
#define OFFSET_R10 -40
#define OFFSET_R9 -48
#define OFFSET_R8 -56
#define OFFSET_RCX -64
#define OFFSET_RDX -72
#define OFFSET_RSI -80
#define OFFSET_RDI -88
#define OFFSET_FLAGS -96
#define OFFSET_RESULT -104      /* rax after the call of the original */
#define OFFSET_RESULT_2 -112    /* rdx after the call of the original */

    .macro kept_function name
    .globl \name
    .hidden \name
    .type \name, @function
    .p2align 5
\name:
    .endm

    /* From here on the frame can be unwound. */
    .macro kept_begin
    .cfi_startproc
    .cfi_def_cfa %rbp, 16
    .cfi_offset %rbp, -16
    endbr64
    mov %r11, OFFSET_R11(%rbp)
    mov %r10, OFFSET_R10(%rbp)
    mov %r9, OFFSET_R9(%rbp)
    mov %r8, OFFSET_R8(%rbp)
    mov %rcx, OFFSET_RCX(%rbp)
    mov %rdx, OFFSET_RDX(%rbp)
    mov %rsi, OFFSET_RSI(%rbp)
    mov %rdi, OFFSET_RDI(%rbp)
    lahf
    seto %al
    mov %rax, OFFSET_FLAGS(%rbp)
    and $-16, %rsp
    .endm

    .macro kept_restore_flags
    mov OFFSET_FLAGS(%rbp), %rax
    add $0x7f, %al /* sets the overflow flag if al is 1 */
    sahf
    .endm

    .macro kept_restore_but_rax_rdx
    mov OFFSET_R11(%rbp), %r11
    mov OFFSET_R10(%rbp), %r10
    mov OFFSET_R9(%rbp), %r9
    mov OFFSET_R8(%rbp), %r8
    mov OFFSET_RCX(%rbp), %rcx
    mov OFFSET_RSI(%rbp), %rsi
    mov OFFSET_RDI(%rbp), %rdi
    .endm

    /* Restores the caller's registers. */
    .macro kept_restore
    kept_restore_but_rax_rdx
    mov OFFSET_RDX(%rbp), %rdx
    mov OFFSET_RAX(%rbp), %rax
    .endm

    .macro kept_call_original
    kept_restore
    call *OFFSET_ORIGINAL(%rbp)
    mov %rax, OFFSET_RESULT(%rbp)
    mov %rdx, OFFSET_RESULT_2(%rbp)
    .endm

    .macro kept_leave
    mov %rbp, %rsp
    pop %rbp
    .cfi_remember_state
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    .endm

    /* Returns to the caller, with the struct's result in rax and result_2 in rdx. */
    .macro kept_return
    kept_restore_flags
    kept_restore_but_rax_rdx
    mov OFFSET_RESULT_2(%rbp), %rdx
    mov OFFSET_RESULT(%rbp), %rax
    kept_leave
    ret
    .cfi_restore_state
    .endm

    /* Continues in the original as if it had been called directly. */
    .macro kept_go_on
    kept_restore_flags
    kept_restore
    kept_leave
    jmp *(OFFSET_ORIGINAL - 8)(%rsp) /* the word is in the red zone, so no signal overwrites it */
    .cfi_restore_state
    .endm

    .macro kept_end name
    .cfi_endproc
    .size \name, . - \name
    .endm

    /* Defines a function that calls begins(struct ag_kept_call *). If begins returns true, the
     * function calls the original with the caller's registers, but not with the caller's stack, and
     * then ends(struct ag_kept_call *); otherwise it continues in the original. BEGINS and ENDS may
     * use ROOM bytes (a multiple of 16) before the struct. If WORDS (an even number) is given, the
     * original also finds arguments on the stack: BEGINS stores in the struct's result how many of
     * the words above the return address, at most WORDS, are copied for the original. */
    .macro kept_between name, begins, ends, room=0, words=0
    .hidden \begins
    .hidden \ends
kept_function \name
    kept_begin
    .if \room
    sub $\room, %rsp
    .endif
    lea -KEPT_BYTES(%rbp), %rdi
    call \begins
    test %al, %al
    jz 1f
    .if \words
    mov OFFSET_RESULT(%rbp), %rcx
    sub $8 * \words, %rsp
    test %rcx, %rcx
    jz 3f
2:
    mov 8(%rbp, %rcx, 8), %rax
    mov %rax, -8(%rsp, %rcx, 8)
    dec %rcx
    jnz 2b
3:
    .endif
    kept_call_original
    lea -KEPT_BYTES(%rbp), %rdi
    call \ends
    kept_return
1:
    kept_go_on
kept_end \name
    .endm

#endif
