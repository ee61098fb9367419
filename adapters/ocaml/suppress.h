/* suppress.h: suppresses the events of what the runtime's Memprof takes from malloc, which the
 * profiler causes and not the program. While Memprof works, its thread's events are not recorded,
 * except those that the adapter reports, and those of a collection that begins meanwhile. */
#ifndef AG_OCAML_SUPPRESS_H
#define AG_OCAML_SUPPRESS_H

#include "ocaml_runtime.h"

/* Installs detours of the functions through which the runtime enters Memprof. */
void ag_ocaml_suppress_follow(void);
/* Between the two calls, events are recorded again. Returns the argument of the second. */
uintptr_t ag_ocaml_resume(void);
void ag_ocaml_suppress(uintptr_t resumed);

/* The calling thread is inside the runtime's Memprof, which is the adapter's and must not be ended
 * there. Reliable only if all entries could be hooked. */
bool ag_ocaml_is_in_memprof(void);
bool ag_ocaml_suppress_is_whole(void);

#endif
