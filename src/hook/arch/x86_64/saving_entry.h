/* saving_entry.h (x86-64): an entry that calls a C function and preserves all registers.
 *
 * With -fipa-ra, an optimizing compiler knows which registers a function of the same file leaves
 * unchanged, and the code of the function's callers relies on this. So a function that replaces an
 * empty function must change no register. The flags may change, as in any call. Vector registers
 * need not be saved, because IMPLEMENTATION is compiled for general registers only
 * (base/vector_state.h). */
#ifndef AG_SAVING_ENTRY_H
#define AG_SAVING_ENTRY_H

/* Defines NAME, a function without arguments and result that calls IMPLEMENTATION on an aligned
 * stack. IMPLEMENTATION must be hidden and marked used. */
#define AG_SAVING_ENTRY(name, implementation)                                       \
    __asm__(".pushsection .text\n.p2align 4\n.hidden " #name "\n.globl " #name "\n" \
            ".type " #name ",@function\n" #name ":\n"                               \
            ".cfi_startproc\nendbr64\npush %rbp\n.cfi_adjust_cfa_offset 8\n"        \
            ".cfi_rel_offset rbp, 0\nmov %rsp, %rbp\n.cfi_def_cfa_register rbp\n"   \
            "push %rax\npush %rcx\npush %rdx\npush %rsi\npush %rdi\n"               \
            "push %r8\npush %r9\npush %r10\npush %r11\n"                            \
            "and $-16, %rsp\n"                                                      \
            "call " #implementation "\n"                                            \
            "lea -72(%rbp), %rsp\n"                                                 \
            "pop %r11\npop %r10\npop %r9\npop %r8\n"                                \
            "pop %rdi\npop %rsi\npop %rdx\npop %rcx\npop %rax\n"                    \
            "pop %rbp\n.cfi_def_cfa rsp, 8\nret\n.cfi_endproc\n"                    \
            ".size " #name ", .-" #name "\n.popsection\n")

#endif
