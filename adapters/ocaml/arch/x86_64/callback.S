/* callback.S: the target of the detour of caml_callback_exn (fibers.c). A callback that is
 * not the adapter's continues without an additional frame on the stack, so that C functions between
 * OCaml's are seen unchanged. The adapter's own callback returns here, to note its end. */
#include "hook/arch/x86_64/kept_frame.S"

    .text
    kept_between ag_ocaml_callback_enter, ag_ocaml_callback_begins, ag_ocaml_callback_ends

    .section .note.GNU-stack, "", @progbits
