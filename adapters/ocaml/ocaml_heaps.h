/* ocaml_heaps.h: the heaps under which the adapter records OCaml's blocks. */
#ifndef AG_OCAML_HEAPS_H
#define AG_OCAML_HEAPS_H

#include "allogram/allogram.h"
#include "ocaml_runtime.h"

/* Blocks that are unmarshalled into the minor heap have a heap of their own, because promotions are
 * reported only for the minor heap and not for blocks that went into the major heap directly. */
enum ag_ocaml_heap {
    AG_OCAML_MINOR,
    AG_OCAML_MAJOR,
    AG_OCAML_MARSHAL_MINOR,
    AG_OCAML_MARSHAL,
    AG_OCAML_HEAPS
};
extern allogram_heap ag_ocaml_heaps[AG_OCAML_HEAPS] AG_HIDDEN;
/* Called when the adapter is installed (ocaml_attach.c). */
void ag_ocaml_heaps_register(void);

/* OCaml moves its blocks, so an address does not identify a block. Each block has a unique number.
 * The number times AG_OCAML_ADDRESS_STEP is the block's address in the trace. AG_OCAML_HEAP_BITS:
 * the bits of a value of enum ag_ocaml_heap. */
enum { AG_OCAML_ADDRESS_STEP = 16, AG_OCAML_HEAP_BITS = 2 };

#endif
