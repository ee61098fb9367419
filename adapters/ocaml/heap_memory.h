/* heap_memory.h: the memory that the runtime has its heaps in. */
#ifndef AG_OCAML_HEAP_MEMORY_H
#define AG_OCAML_HEAP_MEMORY_H

#include "allogram/allogram.h"
#include "ocaml_runtime.h"

void ag_ocaml_memory_prepare(allogram_heap minor, allogram_heap major);
/* OCaml 5, before anything of the runtime has run. */
void ag_ocaml_mappings_follow(void);
/* Tells how much the heaps hold; from the end of the process. */
void ag_ocaml_memory_report(void);

/* backing.c, OCaml 4: what the heap's chunks have, all of it taken from malloc. */
uint64_t ag_ocaml_backing_bytes(allogram_heap heap);

#endif
