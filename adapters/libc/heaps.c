/* heaps.c: defines the heaps and the allocation functions of the libc in the trace. The preloaded
 * agent and the attached agent (allogram's libraries in the program) do this at their start. */
#include "heaps.h"

#include <stdatomic.h>

#include "hook/loader_notice.h"
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

static const struct ag_runtime_definition second_libc = {
    .name = "libc (dlmopen)",
    .version = "",
    .note =
        "calls of malloc in another namespace of the loader (dlmopen, LD_AUDIT) reach a C library "
        "of that namespace"};

void ag_libc_report_namespaces(void) {
    static _Atomic int is_reported;
    if (!ag_loader_has_namespaces() ||
        atomic_exchange_explicit(&is_reported, 1, memory_order_relaxed)) {
        return;
    }
    const struct ag_announcement announcement = {.runtime = &second_libc};
    ag_recorder_announce(&announcement);
}
