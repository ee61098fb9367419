/* suppress.h: suspends recording while Memprof, the OCaml runtime's sampler, works for the adapter.
 * The profiler, and not the program, causes the memory that Memprof takes from malloc. During this
 * time only these events of the thread are recorded: those that the adapter reports, those in a
 * collection, and those of an OCaml stack that grows. */
#ifndef AG_OCAML_SUPPRESS_H
#define AG_OCAML_SUPPRESS_H

#include "ocaml_runtime.h"

/* Installs detours (jumps at the start) of the functions through which the runtime enters Memprof,
 * and of the functions that enlarge OCaml stacks. */
void ag_ocaml_suppress_follow(void);
/* Between resume and suppress, events are recorded again. resume returns the argument of
 * suppress. */
uintptr_t ag_ocaml_resume(void);
void ag_ocaml_suppress(uintptr_t resumed);

/* Whether the calling thread is in a call of Memprof for the adapter. During such a call the thread
 * must not end Memprof. Reliable only if ag_ocaml_suppress_is_whole returns true. */
bool ag_ocaml_is_in_memprof(void);
/* Whether all functions through which the runtime enters Memprof are hooked. */
bool ag_ocaml_suppress_is_whole(void);

#endif
