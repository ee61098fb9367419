/* fibers.h: lets stack walks continue through OCaml 5's effect handlers, while a callback of the
 * adapter runs. */
#ifndef AG_OCAML_FIBERS_H
#define AG_OCAML_FIBERS_H

#include "ocaml_runtime.h"

/* Called before any code of the runtime has run. The adapter's closures lie from CLOSURES to
 * END. */
void ag_ocaml_fibers_follow(uintptr_t closures, uintptr_t end);
/* The runtime clears the link from a fiber (the stack under an effect handler) to its parent while
 * a callback runs. Between enter and leave the link is set again, so that a stack walk continues in
 * the parent. Enter returns the argument of leave. */
uintptr_t *ag_ocaml_fibers_enter(void);
void ag_ocaml_fibers_leave(uintptr_t *place);
/* Words of the blocks that the runtime made for callbacks inside of handlers. */
uint64_t ag_ocaml_fibers_own_words(void);

#endif
