/* ocaml_heaps.c: registers the heaps under which the adapter records OCaml's blocks. */
#include "ocaml_heaps.h"

allogram_heap ag_ocaml_heaps[AG_OCAML_HEAPS];

void ag_ocaml_heaps_register(void) {
    static const struct {
        const char *name;
        /* Addresses in the trace are block numbers. The number of an old block never changes. */
        enum allogram_heap_kind kind;
    } rows[AG_OCAML_HEAPS] = {
        [AG_OCAML_MINOR] = {"minor heap", ALLOGRAM_MOVING_COLLECTOR},
        [AG_OCAML_MAJOR] = {"major heap", ALLOGRAM_NON_MOVING_COLLECTOR},
        [AG_OCAML_MARSHAL_MINOR] = {"unmarshalled, minor heap", ALLOGRAM_MOVING_COLLECTOR},
        [AG_OCAML_MARSHAL] = {"unmarshalled", ALLOGRAM_NON_MOVING_COLLECTOR},
    };
    for (size_t i = 0; i < AG_OCAML_HEAPS; i++) {
        const struct allogram_heap_options options = {.size = sizeof(options),
                                                      .name = rows[i].name,
                                                      .allocator = "ocaml",
                                                      .runtime = "ocaml",
                                                      .kind = rows[i].kind};
        ag_ocaml_heaps[i] = allogram_register_heap(&options);
    }
}
