/* callback_x86_64.S: what stands behind the detour of caml_callback_exn (fibers.c). A callback that is not ours goes on without a
 * frame of ours on the stack, so that C functions between OCaml's are seen as they are; ours comes back to note its end. */
#include "hook/arch/x86_64/kept_frame.S"

    .text
    kept_between ag_ocaml_callback_enter, ag_ocaml_callback_begins, ag_ocaml_callback_ends

    .section .note.GNU-stack, "", @progbits
