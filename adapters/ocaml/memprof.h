/* memprof.h: runs the runtime's own Memprof with the adapter's trackers. */
#ifndef AG_OCAML_MEMPROF_H
#define AG_OCAML_MEMPROF_H

#include "ocaml_runtime.h"

/* Recorded amounts, in the runtime's words (with headers), for coverage. */
struct ag_ocaml_reported {
    _Atomic uint64_t words;     /* blocks in OCaml's heap */
    _Atomic uint64_t own_words; /* blocks that Memprof allocated for its callbacks */
};
extern struct ag_ocaml_reported ag_ocaml_reported AG_HIDDEN;

/* Called before any code of the runtime has run: registers the heaps. */
void ag_ocaml_memprof_prepare(void);
/* The runtime is ready, the program has not begun. */
void ag_ocaml_memprof_begin(void);
/* Not callable in a callback. Live blocks get no further callbacks. */
void ag_ocaml_memprof_end(void);
bool ag_ocaml_memprof_is_ours(void);
/* In a running program, of OCaml 4: whether the program has no Memprof of its own now. The runtime
 * offers no way to ask, so this tries to start one; called where OCaml code may be called. */
bool ag_ocaml_memprof_is_free(void);
/* The C function of a tracker's closure, for a caller that bypasses the interpreter; NULL: it is
 * not one. */
typedef ag_ocaml_value ag_ocaml_function(ag_ocaml_value argument);
ag_ocaml_function *ag_ocaml_memprof_function(ag_ocaml_value closure);

#endif
