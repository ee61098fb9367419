/* collector_memory.c: records the memory that the Boehm collector maps as memory of the collector's
 * heap, and not as a mapping of the program.
 *
 * The collector takes memory with mmap, for its heap and for tables, and never calls munmap: it
 * replaces unused memory by a mapping without access (GC_unmap of os_dep.c, 8.0 to 8.2). If the
 * collector is linked into the program, the collector and the program call mmap through the same
 * import slot. So a mapping counts as the collector's if the thread is inside of a call of the
 * collector. The hook does not see mappings that were made before it was installed. So at least the
 * heap size of the collector's own statistics is reported. */
#include "collector_memory.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "allogram/allogram.h"
#include "collector_calls.h"
#include "format/decode.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"
#include "record/recorder.h"

typedef void *map_fn(void *, size_t, int, int, int, long);
static map_fn *next_mmap, *next_mmap64;
static _Atomic uint64_t mapped_bytes;

static void *map(map_fn *next, void *address, size_t bytes, int flags, int protection, int fd) {
    const uintptr_t suspended = ag_record_suspend();
    void *mapped = next(address, bytes, protection, flags, fd, 0);
    ag_record_resume(suspended);
    if (mapped != MAP_FAILED && !(flags & MAP_FIXED)) {
        atomic_fetch_add_explicit(&mapped_bytes, bytes, memory_order_relaxed);
        allogram_map(ag_bdwgc_heap, (uintptr_t)mapped, bytes);
    }
    return mapped;
}

/* For the program's own mappings the hooks end with a tail call, so that the recorded stack begins
 * at the caller. */
static void *hooked_mmap(void *address, size_t bytes, int protection, int flags, int fd,
                         long offset) {
    return ag_bdwgc_thread.inside != 0 && offset == 0
               ? map(next_mmap, address, bytes, flags, protection, fd)
               : next_mmap(address, bytes, protection, flags, fd, offset);
}

static void *hooked_mmap64(void *address, size_t bytes, int protection, int flags, int fd,
                           long offset) {
    return ag_bdwgc_thread.inside != 0 && offset == 0
               ? map(next_mmap64, address, bytes, flags, protection, fd)
               : next_mmap64(address, bytes, protection, flags, fd, offset);
}

/* The original is looked up by name and not taken from the import slot: a slot that is not bound
 * yet points to code of the loader, which would overwrite the hook. If the library has no import of
 * this name, nothing is hooked, and the collector's memory is recorded as the program's. */
static void follow(const char *name, map_fn *hooked, map_fn **next) {
    struct ag_symbol_place place;
    void *unused = NULL;
    if (ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place)) {
        *next = (map_fn *)(uintptr_t)place.address;
        (void)ag_import_replace((const void *)(uintptr_t)ag_bdwgc.statistics, name,
                                (void *)(uintptr_t)hooked, &unused);
    }
}

void ag_bdwgc_memory_follow(void) {
    follow("mmap", hooked_mmap, &next_mmap);
    follow("mmap64", hooked_mmap64, &next_mmap64);
}

void ag_bdwgc_memory_report(void) {
    struct ag_bdwgc_statistics counted = {0};
    (void)ag_bdwgc.statistics(&counted, sizeof(counted));
    const uint64_t reported = atomic_load_explicit(&mapped_bytes, memory_order_relaxed);
    const uint64_t reserved = reported > counted.heap_bytes ? reported : counted.heap_bytes;
    const struct ag_held_memory memory = {
        .heap = ag_bdwgc_heap,
        .known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
        .reserved_bytes = reserved,
        .committed_bytes = reserved - counted.unmapped_bytes,
        .free_bytes = counted.free_bytes - counted.unmapped_bytes,
    };
    ag_record_memory(&memory);
}
