/* callstack.h: joins the callstack that Memprof (the OCaml runtime's sampler) gives and a stack
 * walk to one stack. */
#ifndef AG_OCAML_CALLSTACK_H
#define AG_OCAML_CALLSTACK_H

#include "ocaml_runtime.h"

enum { AG_OCAML_FRAMES_MOST = 1024 }; /* the maximum depth that Memprof is started with */

/* Installs the hook that walks stacks when C code allocates. For native programs; called when the
 * adapter is installed (ocaml_attach.c). */
void ag_ocaml_callstacks_follow(void);
/* The stack of the block to which CALLSTACK, an OCaml value made by Memprof, belongs. SP: the
 * address of the return address of the adapter's callback. RBP: the register at that time. */
uint32_t ag_ocaml_stack(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp);

#endif
