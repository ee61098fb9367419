/* heaps.c: defines the heaps and the allocation functions of the libc in the trace. The preloaded
 * agent and the attached agent (allogram's libraries in the program) do this at their start. */
#include "heaps.h"

#include "next.h"

static const struct ag_heap_definition heaps[] = {
    {.heap = HEAP_MALLOC, .name = "malloc", .allocator = "malloc", .runtime = "libc"},
    {.heap = HEAP_NEW, .name = "operator new", .allocator = "new", .runtime = "libc"},
    {.heap = HEAP_MAPPINGS,
     .name = "mmap",
     .allocator = "mmap",
     .runtime = "libc",
     .is_backing = 1},
};
static const struct ag_via_definition vias[] = {
#define AG_VIA(NAME, text, heap_id) {.via = VIA_##NAME, .heap = heap_id, .name = text},
#include "vias.def"
#undef AG_VIA
};

void ag_libc_announce(const struct ag_runtime_definition *runtime) {
    const struct ag_announcement announcement = {
        .heaps = heaps,
        .n_heaps = AG_ARRAY_SIZE(heaps),
        .vias = vias,
        .n_vias = AG_ARRAY_SIZE(vias),
        .runtime = runtime,
    };
    ag_recorder_announce(&announcement);
}
