/* callstack.h: joins Memprof's callstack and the stack walk to one stack. */
#ifndef AG_OCAML_CALLSTACK_H
#define AG_OCAML_CALLSTACK_H

#include "ocaml_runtime.h"

enum { AG_OCAML_FRAMES_MOST = 1024 }; /* depth that Memprof is started with */

/* For native programs, before any code of the runtime has run: walks stacks when C code
 * allocates. */
void ag_ocaml_callstacks_follow(void);
/* The stack of the block that CALLSTACK, as Memprof made it, belongs to. SP: the begin of the
 * callback's frames, from the function that OCaml called. */
uint32_t ag_ocaml_stack(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp);

#endif
