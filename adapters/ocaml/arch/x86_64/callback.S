/* callback.S: the code to which the detour (a jump at the start) of caml_callback_exn leads, the
 * function by which C calls OCaml code (fibers.c). If the callback is not one of the adapter
 * (allogram's code for OCaml), this code jumps to the original function without an additional frame
 * on the stack, so that the unwinder sees the program's frames unchanged. If the callback is the
 * adapter's, the original returns to this code, which calls ag_ocaml_callback_ends. */
#include "hook/arch/x86_64/kept_frame.S"

    .text
    kept_between ag_ocaml_callback_enter, ag_ocaml_callback_begins, ag_ocaml_callback_ends

    .section .note.GNU-stack, "", @progbits
