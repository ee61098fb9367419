/* memprof.h: the runtime's own Memprof, with trackers of ours. */
#ifndef AG_OCAML_MEMPROF_H
#define AG_OCAML_MEMPROF_H

#include "ocaml_runtime.h"

/* What was told, in the runtime's words (with headers), for coverage. */
struct ag_ocaml_reported {
    _Atomic uint64_t words;     /* of blocks in OCaml's heap */
    _Atomic uint64_t own_words; /* that Memprof allocated to call us */
};
extern struct ag_ocaml_reported ag_ocaml_reported AG_HIDDEN;

/* Before anything of the runtime has run: registers the heaps. */
void ag_ocaml_memprof_prepare(void);
/* The runtime is ready, the program has not begun. */
void ag_ocaml_memprof_begin(void);
/* Not in a callback. What lives is not heard of any more. */
void ag_ocaml_memprof_end(void);
bool ag_ocaml_memprof_is_ours(void);
/* In a program that runs, of OCaml 4: has it no Memprof of its own at the moment? Asks by starting
 * one, since the runtime does not tell; where OCaml code may be called. */
bool ag_ocaml_memprof_is_free(void);
/* What a closure of the tracker does, for who calls it without the interpreter; NULL: it is none.
 */
typedef ag_ocaml_value ag_ocaml_function(ag_ocaml_value argument);
ag_ocaml_function *ag_ocaml_memprof_function(ag_ocaml_value closure);

#endif
