/* heap_memory.h: records how much memory the heaps of the OCaml runtime hold. */
#ifndef AG_OCAML_HEAP_MEMORY_H
#define AG_OCAML_HEAP_MEMORY_H

#include "allogram/allogram.h"
#include "ocaml_runtime.h"

/* Called before the others: sets the heaps' numbers in the trace. */
void ag_ocaml_memory_prepare(allogram_heap minor, allogram_heap major);
/* Starts to track the mappings of OCaml 5. Call it before any code of the runtime has run. */
void ag_ocaml_mappings_follow(void);
/* Reports how much memory the heaps hold; called at the end of the process. */
void ag_ocaml_memory_report(void);

/* From backing.c, for OCaml 4: the size of the heap's chunks, which all come from malloc. */
uint64_t ag_ocaml_backing_bytes(allogram_heap heap);

#endif
