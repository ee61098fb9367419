/* heap_memory.c: records how much memory the heaps of the OCaml runtime hold.
 *
 * OCaml 4 takes its heaps from malloc, in chunks (backing.c). OCaml 5 reserves addresses for the
 * minor heaps of the maximum number of domains and commits those of the existing domains, and maps
 * pools for the major heap's small blocks: all of it by caml_mem_map, caml_mem_commit,
 * caml_mem_decommit and caml_mem_unmap (runtime/platform.c, unix.c of 5.3). These functions
 * have detours, so that the memory is recorded as that of the heaps and not as the program's own.
 * OCaml 5 takes large blocks from malloc one by one (large_blocks.c). */
#include "heap_memory.h"

#include <stdatomic.h>

#include "collector_hooks.h"
#include "format/decode.h"
#include "runtime_counters.h"
#include "suppress.h"

static allogram_heap minor_heap, major_heap;
static uint32_t recorded_pid;

/* ---- OCaml 5 ---- */

static struct mapped {
    _Atomic uint64_t reserved_bytes, committed_bytes;
} minor, major; /* memory that is only reserved at first is for minor heaps */

static void *(*mem_map)(uintptr_t bytes, intptr_t reserve_only);
static void *(*mem_commit)(void *address, uintptr_t bytes, const char *name);
static void (*mem_decommit)(void *address, uintptr_t bytes, const char *name);
static void (*mem_unmap)(void *address, uintptr_t bytes);
static uintptr_t minor_low, minor_high;

static void counter_add(_Atomic uint64_t *sum, uint64_t bytes) {
    atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed);
}

static struct mapped *owner_of(const void *address) {
    return (uintptr_t)address - minor_low < minor_high - minor_low ? &minor : &major;
}

static void *hooked_map(uintptr_t bytes, intptr_t reserve_only) {
    const uintptr_t suspended = ag_record_suspend();
    void *address = mem_map(bytes, reserve_only);
    ag_record_resume(suspended);
    if (address && reserve_only) {
        minor_low = (uintptr_t)address;
        minor_high = minor_low + bytes;
        counter_add(&minor.reserved_bytes, bytes);
    } else if (address) {
        counter_add(&major.reserved_bytes, bytes);
        counter_add(&major.committed_bytes, bytes);
    }
    if (address) {
        const uintptr_t resumed = ag_ocaml_resume();
        allogram_map(reserve_only ? minor_heap : major_heap, (uintptr_t)address, bytes);
        ag_ocaml_suppress(resumed);
    }
    return address;
}

static void *hooked_commit(void *address, uintptr_t bytes, const char *name) {
    const uintptr_t suspended = ag_record_suspend();
    void *committed = mem_commit(address, bytes, name);
    ag_record_resume(suspended);
    counter_add(&owner_of(address)->committed_bytes, committed ? bytes : 0);
    return committed;
}

static void hooked_decommit(void *address, uintptr_t bytes, const char *name) {
    const uintptr_t suspended = ag_record_suspend();
    mem_decommit(address, bytes, name);
    ag_record_resume(suspended);
    counter_add(&owner_of(address)->committed_bytes, -(uint64_t)bytes);
}

static void hooked_unmap(void *address, uintptr_t bytes) {
    struct mapped *owner = owner_of(address);
    counter_add(&owner->reserved_bytes, -(uint64_t)bytes);
    counter_add(&owner->committed_bytes, owner == &major ? -(uint64_t)bytes : 0);
    const uintptr_t resumed = ag_ocaml_resume();
    allogram_unmap(owner == &major ? major_heap : minor_heap, (uintptr_t)address, bytes);
    ag_ocaml_suppress(resumed);
    const uintptr_t suspended = ag_record_suspend();
    mem_unmap(address, bytes);
    ag_record_resume(suspended);
}

void ag_ocaml_mappings_follow(void) {
    /* The hook of unmap comes first, as in backing.c. */
    if (ag_ocaml_detour("caml_mem_unmap", ag_kept_call_void, (void *)hooked_unmap,
                        (void **)&mem_unmap) &&
        ag_ocaml_detour("caml_mem_decommit", ag_kept_call_void, (void *)hooked_decommit,
                        (void **)&mem_decommit) &&
        ag_ocaml_detour("caml_mem_commit", ag_kept_call, (void *)hooked_commit,
                        (void **)&mem_commit)) {
        (void)ag_ocaml_detour("caml_mem_map", ag_kept_call, (void *)hooked_map, (void **)&mem_map);
    }
}

/* ---- OCaml 4 and 5 ---- */

static void report_4(const struct ag_ocaml_counters *counters) {
    const uint64_t minor_bytes = ag_ocaml_backing_bytes(minor_heap);
    const uint64_t major_bytes = ag_ocaml_backing_bytes(major_heap);
    const uint64_t used_bytes = counters->minor_used_words * 8;
    const struct ag_held_memory of_minor = {
        .heap = minor_heap,
        .known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
        .reserved_bytes = minor_bytes,
        .committed_bytes = minor_bytes,
        .free_bytes = minor_bytes > used_bytes ? minor_bytes - used_bytes : 0,
        .of_malloc_bytes = minor_bytes};
    const struct ag_held_memory of_major = {.heap = major_heap,
                                            .known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
                                            .reserved_bytes = major_bytes,
                                            .committed_bytes = major_bytes,
                                            .free_bytes = counters->free_words * 8,
                                            .of_malloc_bytes = major_bytes};
    ag_record_memory(&of_minor);
    ag_record_memory(&of_major);
}

static uint64_t counter_read(_Atomic uint64_t *sum) {
    return atomic_load_explicit(sum, memory_order_relaxed);
}

static void report_5(const struct ag_ocaml_counters *counters) {
    const uint64_t large_bytes = counters->large_words * 8;
    const struct ag_held_memory of_minor = {.heap = minor_heap,
                                            .known = AG_MEMORY_SIZES,
                                            .reserved_bytes = counter_read(&minor.reserved_bytes),
                                            .committed_bytes =
                                                counter_read(&minor.committed_bytes)};
    const struct ag_held_memory of_major = {
        .heap = major_heap,
        .known = AG_MEMORY_SIZES | AG_MEMORY_FREE |
                 (ag_ocaml_large_blocks_count_once() ? 0 : AG_MEMORY_RECORDED_TWICE),
        .reserved_bytes = counter_read(&major.reserved_bytes) + large_bytes,
        .committed_bytes = counter_read(&major.committed_bytes) + large_bytes,
        .free_bytes = counters->free_words * 8,
        .of_malloc_bytes = large_bytes};
    ag_record_memory(&of_minor);
    ag_record_memory(&of_major);
}

void ag_ocaml_memory_prepare(allogram_heap minor_number, allogram_heap major_number) {
    minor_heap = minor_number;
    major_heap = major_number;
    recorded_pid = ag_recorder.pid;
}

void ag_ocaml_memory_report(void) {
    struct ag_ocaml_counters counters = {0};
    /* a child does not know its parent's blocks */
    const bool is_known = ag_recorder.pid == recorded_pid && ag_ocaml_counters_read(&counters);
    if (ag_ocaml.generation == AG_OCAML_4 && is_known && ag_ocaml_backing_bytes(minor_heap) > 0) {
        report_4(&counters);
    } else if (ag_ocaml.generation == AG_OCAML_5 && is_known &&
               counter_read(&minor.reserved_bytes) > 0) {
        report_5(&counters);
    }
}
