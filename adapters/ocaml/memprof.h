/* memprof.h: runs Memprof, the OCaml runtime's own sampler of allocations, with callbacks of the
 * adapter, which is allogram's code for OCaml. */
#ifndef AG_OCAML_MEMPROF_H
#define AG_OCAML_MEMPROF_H

#include "ocaml_runtime.h"

/* Amounts that Memprof reported, in words of the runtime and with the headers of blocks, to be
 * compared with what the runtime itself counted. */
struct ag_ocaml_reported {
    _Atomic uint64_t words;     /* blocks in OCaml's heap, also those that the filter leaves out */
    _Atomic uint64_t own_words; /* blocks that Memprof allocated for its callbacks */
};
extern struct ag_ocaml_reported ag_ocaml_reported AG_HIDDEN;

/* Called when the adapter is installed (ocaml_attach.c): installs the hooks that are needed while
 * Memprof runs. */
void ag_ocaml_memprof_prepare(void);
/* Starts Memprof. Called when the runtime is ready and before the program begins, or, in a running
 * program, at the end of a minor collection. */
void ag_ocaml_memprof_begin(void);
/* Ends Memprof. Not callable in a callback. Live blocks get no further callbacks. */
void ag_ocaml_memprof_end(void);
/* Whether the adapter's Memprof runs. */
bool ag_ocaml_memprof_is_ours(void);
/* For a running program of OCaml 4: whether the program runs no Memprof of its own. The runtime has
 * no function for this question, so this function tries to start Memprof, and stops it at once if
 * that succeeds. Called where OCaml code may be called. */
bool ag_ocaml_memprof_is_free(void);
/* The C function of one of the adapter's closures, which bytecode.c calls directly, without the
 * interpreter; NULL: the closure is not the adapter's. */
typedef ag_ocaml_value ag_ocaml_function(ag_ocaml_value argument);
ag_ocaml_function *ag_ocaml_memprof_function(ag_ocaml_value closure);

#endif
