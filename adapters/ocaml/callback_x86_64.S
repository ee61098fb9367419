/* callback_x86_64.S: what stands behind the detour of caml_callback_exn (fibers.c). A callback that is not ours goes on without a
 * frame of ours on the stack, so that C functions between OCaml's are seen as they are; ours comes back to note its end. */
#include "hook/arch/x86_64/kept_frame.S"

    .text
    .hidden ag_ocaml_callback_begins
    .hidden ag_ocaml_callback_ends

kept_function ag_ocaml_callback_enter
    kept_begin
    lea -KEPT_BYTES(%rbp), %rdi
    call ag_ocaml_callback_begins
    test %al, %al
    jz 1f
    kept_restore_but_rax_rdx
    mov OFFSET_RDX(%rbp), %rdx
    mov OFFSET_RAX(%rbp), %rax
    call *OFFSET_ORIGINAL(%rbp)
    mov %rax, OFFSET_RESULT(%rbp)
    mov %rdx, OFFSET_RESULT_2(%rbp)
    lea -KEPT_BYTES(%rbp), %rdi
    call ag_ocaml_callback_ends
    kept_return
1:
    kept_go_on
kept_end ag_ocaml_callback_enter

    .section .note.GNU-stack, "", @progbits
