/* callstack.h: one stack from what Memprof tells and what the walk finds. */
#ifndef AG_OCAML_CALLSTACK_H
#define AG_OCAML_CALLSTACK_H

#include "ocaml_runtime.h"

enum { AG_OCAML_FRAMES_MOST = 1024 }; /* that Memprof is asked for */

/* The stack of the block that CALLSTACK, as Memprof made it, belongs to. WALKED: that of the
 * callback, from the function that OCaml called. */
uint32_t ag_ocaml_stack(uint32_t walked, ag_ocaml_value callstack);

#endif
