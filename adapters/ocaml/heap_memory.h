/* heap_memory.h: records how much memory the heaps of the OCaml runtime hold. */
#ifndef AG_OCAML_HEAP_MEMORY_H
#define AG_OCAML_HEAP_MEMORY_H

#include "allogram/allogram.h"
#include "ocaml_runtime.h"

/* Installs the hooks. Called when the adapter is installed (ocaml_attach.c). In a running program,
 * memory that the heaps have already is not seen. */
void ag_ocaml_memory_follow(allogram_heap minor, allogram_heap major);
/* For OCaml 5: hooks the functions by which the runtime takes large blocks from malloc one by one.
 * Returns false if this is impossible; then large blocks are recorded twice, as blocks of OCaml and
 * of malloc. */
bool ag_ocaml_large_blocks_follow(void);
/* Reports how much memory the heaps hold; called at the end of the process. */
void ag_ocaml_memory_report(void);

#endif
