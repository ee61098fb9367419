/* fibers.h: OCaml 5's stacks through effect handlers, while a callback of ours runs. */
#ifndef AG_OCAML_FIBERS_H
#define AG_OCAML_FIBERS_H

#include "ocaml_runtime.h"

/* Before anything of the runtime has run. CLOSURES up to END are ours. */
void ag_ocaml_fibers_follow(uintptr_t closures, uintptr_t end);
/* Between the two, in a callback, the calling fiber's handler has its parent, so that a walk goes
 * on in it. Returns what leave takes. */
uintptr_t *ag_ocaml_fibers_enter(void);
void ag_ocaml_fibers_leave(uintptr_t *place);
/* Words of the blocks that callbacks inside of handlers made. */
uint64_t ag_ocaml_fibers_own_words(void);

#endif
