/* callstack.h: one stack from what Memprof tells and what the walk finds. */
#ifndef AG_OCAML_CALLSTACK_H
#define AG_OCAML_CALLSTACK_H

#include "ocaml_runtime.h"

enum { AG_OCAML_FRAMES_MOST = 1024 }; /* that Memprof is asked for */

/* Native programs, before anything of the runtime has run: stacks are taken when C code allocates.
 */
void ag_ocaml_callstacks_follow(void);
/* The stack of the block that CALLSTACK, as Memprof made it, belongs to. The callback's frames,
 * from the function that OCaml called, begin at SP. */
uint32_t ag_ocaml_stack(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp);

#endif
