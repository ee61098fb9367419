/* suppress.h: what the runtime's Memprof takes from malloc is our doing and no allocation of the
 * program's: while Memprof works, its thread's events are not recorded; but those that we tell are,
 * and those of a collection that begins meanwhile. */
#ifndef AG_OCAML_SUPPRESS_H
#define AG_OCAML_SUPPRESS_H

#include "ocaml_runtime.h"

/* Detours on Memprof's entries from the runtime. */
void ag_ocaml_suppress_follow(void);
/* Between the two, events are recorded again. Returns what end takes. */
uintptr_t ag_ocaml_resume(void);
void ag_ocaml_suppress(uintptr_t resumed);

/* The calling thread is inside of the runtime's Memprof, which is ours: it must not be ended there.
 * Known only where all its entries could be hooked. */
bool ag_ocaml_is_in_memprof(void);
bool ag_ocaml_suppress_is_whole(void);

#endif
