/* capture_entry.h (x86-64): the entry of a hook (a function that allogram runs in place of a
 * function such as malloc) that needs the exact registers of the call.
 *
 *     void *malloc(size_t bytes)                        the entry; jumps to:
 *     void *implementation(size_t bytes, const uintptr_t *sp, uintptr_t rbp)
 *
 * A C function that is compiled without a frame pointer cannot get its caller's sp and rbp. So the
 * entry is written in assembler: it passes sp and rbp as additional last arguments and jumps to the
 * implementation in C. The implementation then returns directly to the caller. The CFI (unwind
 * information) of the entry is that of a function that has pushed nothing. The entry begins with
 * endbr64, because CET requires this of a function that is called through a pointer. */
#ifndef AG_CAPTURE_ENTRY_H
#define AG_CAPTURE_ENTRY_H

#define AG_CAPTURE_ENTRY_(name, implementation, sp_register, rbp_register)                        \
    __asm__(".pushsection .text\n.p2align 4\n.globl " #name "\n.type " #name ",@function\n" #name \
            ":\n"                                                                                 \
            ".cfi_startproc\nendbr64\nmov %rsp, %" sp_register "\nmov %rbp, %" rbp_register       \
            "\njmp " #implementation "\n.cfi_endproc\n.size " #name ", .-" #name                  \
            "\n.popsection\n")

/* One macro per number of integer arguments of the function. `implementation` must be hidden and
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
