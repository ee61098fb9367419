/* capture_entry.h (x86-64): the way into a hook with the exact registers of the call.
 *
 *     void *malloc(size_t bytes)
 *     void *implementation(size_t bytes, const uintptr_t *sp, uintptr_t rbp)
 *
 * A C function cannot know its caller's sp and rbp without a frame pointer; three instructions in
 * front of it can. They pass them as the two arguments after the function's own and jump, so the
 * implementation returns to the caller. Its CFI is that of a function that has not pushed anything.
 * endbr64: it may be called through a pointer under CET. */
#ifndef AG_CAPTURE_ENTRY_H
#define AG_CAPTURE_ENTRY_H

#define AG_CAPTURE_ENTRY_(name, implementation, sp_register, rbp_register)                        \
    __asm__(".pushsection .text\n.p2align 4\n.globl " #name "\n.type " #name ",@function\n" #name \
            ":\n"                                                                                 \
            ".cfi_startproc\nendbr64\nmov %rsp, %" sp_register "\nmov %rbp, %" rbp_register       \
            "\njmp " #implementation "\n.cfi_endproc\n.size " #name ", .-" #name                  \
            "\n.popsection\n")

/* By the number of integer arguments that the function has. `implementation` must be hidden and
 * marked used. */
#define AG_CAPTURE_ENTRY_0(name, implementation) \
    AG_CAPTURE_ENTRY_(name, implementation, "rdi", "rsi")
#define AG_CAPTURE_ENTRY_1(name, implementation) \
    AG_CAPTURE_ENTRY_(name, implementation, "rsi", "rdx")
#define AG_CAPTURE_ENTRY_2(name, implementation) \
    AG_CAPTURE_ENTRY_(name, implementation, "rdx", "rcx")
#define AG_CAPTURE_ENTRY_3(name, implementation) \
    AG_CAPTURE_ENTRY_(name, implementation, "rcx", "r8")
#define AG_CAPTURE_ENTRY_4(name, implementation) AG_CAPTURE_ENTRY_(name, implementation, "r8", "r9")

#endif
