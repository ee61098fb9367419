/* closures.S: the machine code of the adapter's closures (OCaml function values). The runtime calls
 * a closure as if it were OCaml code, and the code here continues in a C function of the adapter.
 *
 * OCaml passes the argument in rax and keeps its own state in r14 and r15. caml_c_call, through
 * which all C primitives are called, takes the C function in rax and its arguments in C's
 * registers. It saves what the collector needs, and switches stacks in OCaml 5. The code here jumps
 * to caml_c_call, so the C function returns to the caller of the closure. */
        .text

        .macro ENTRY name, function
        .globl \name
        .hidden \name
        .hidden \function
        .type \name, @function
\name:
        .cfi_startproc
        endbr64
        movq    %rax, %rdi
        leaq    \function(%rip), %rax
        jmp     *ag_ocaml_c_call(%rip)
        .cfi_endproc
        .size \name, . - \name
        .endm

        .hidden ag_ocaml_c_call
        ENTRY ag_ocaml_entry_alloc_minor, ag_ocaml_alloc_minor
        ENTRY ag_ocaml_entry_alloc_major, ag_ocaml_alloc_major
        ENTRY ag_ocaml_entry_promote, ag_ocaml_promote
        ENTRY ag_ocaml_entry_dealloc_minor, ag_ocaml_dealloc_minor
        ENTRY ag_ocaml_entry_dealloc_major, ag_ocaml_dealloc_major
        ENTRY ag_ocaml_entry_try_start, ag_ocaml_try_start

        .section .note.GNU-stack, "", @progbits
