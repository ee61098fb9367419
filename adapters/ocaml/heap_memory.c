/* heap_memory.c: records how much memory the heaps of the OCaml runtime hold. This memory is
 * recorded as memory of the heaps only, and not as blocks of malloc or mappings of the program.
 *
 * 1. OCaml 4 takes its heaps from malloc, in chunks. Chunks of the major heap come from
 * caml_alloc_for_heap. The minor heap comes from caml_stat_alloc_aligned_noexc, which
 * caml_alloc_for_heap also calls, or has inlined. Chunks are freed by caml_free_for_heap,
 * caml_shrink_heap (which has caml_free_for_heap inlined) and caml_stat_free. caml_stat_free frees
 * other memory too, so the recorded chunks are kept in a table. All these functions run under the
 * runtime's lock.
 *
 * 2. OCaml 5 reserves addresses for the minor heaps of the maximum number of domains, commits the
 * memory of the existing domains' minor heaps, and maps pools for the major heap's small blocks, by
 * caml_mem_map, caml_mem_commit, caml_mem_decommit and caml_mem_unmap (runtime/platform.c, unix.c
 * of 5.3).
 *
 * 3. OCaml 5 takes blocks of more than 128 words (with the header) from malloc, one by one. Such a
 * block is recorded as a block of OCaml. caml_shared_try_alloc takes the block from malloc, and
 * returns the address after two words of its own (runtime/shared_heap.c, struct large_alloc). When
 * a sweep finds the block dead, the runtime calls free, from a function without a symbol. So this
 * file replaces the runtime's import slot of free, and a free of one of these blocks, whose
 * addresses are kept in a set, is not recorded. Other import slots of the object are not
 * changed. */
#include "heap_memory.h"

#include <stdatomic.h>

#include "base/address_bits.h"
#include "collector_hooks.h"
#include "format/decode.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"
#include "runtime_counters.h"
#include "suppress.h"

static allogram_heap minor_heap, major_heap;
static uint32_t recorded_pid;

static void report_map(allogram_heap heap, uintptr_t address, size_t bytes) {
    const uintptr_t resumed = ag_ocaml_resume();
    allogram_map(heap, address, bytes);
    ag_ocaml_suppress(resumed);
}

static void report_unmap(allogram_heap heap, uintptr_t address, size_t bytes) {
    const uintptr_t resumed = ag_ocaml_resume();
    allogram_unmap(heap, address, bytes);
    ag_ocaml_suppress(resumed);
}

/* ---- OCaml 4: chunks ---- */

enum { CHUNKS_MOST = 4096 }; /* enough: each new chunk has 15 % of the heap's size */

static struct chunk {
    void *block; /* the pointer that is freed */
    uintptr_t address;
    size_t bytes;
    allogram_heap heap;
} chunks[CHUNKS_MOST];
static size_t n_chunks;
static bool is_nested; /* caml_alloc_for_heap is running */

static char *(*alloc_for_heap)(size_t bytes);
static void (*free_for_heap)(char *chunk);
static void (*shrink_heap)(char *chunk);
static char *const *first_chunk; /* caml_heap_start, a chunk that is never freed */
static void *(*alloc_aligned)(size_t bytes, int modulo, void **ret_block);
static void (*stat_free)(void *block);

static void report_chunk(void *block, void *address, size_t bytes, allogram_heap heap) {
    if (address && n_chunks < CHUNKS_MOST) {
        chunks[n_chunks++] = (struct chunk){block, (uintptr_t)address, bytes, heap};
        report_map(heap, (uintptr_t)address, bytes);
    }
}

/* If the block is a recorded chunk, removes the chunk from the table and returns true. */
static bool take_chunk(const void *block) {
    for (size_t i = n_chunks; i > 0; i--) {
        const struct chunk found = chunks[i - 1];
        if (found.block == block) {
            chunks[i - 1] = chunks[--n_chunks];
            report_unmap(found.heap, found.address, found.bytes);
            return true;
        }
    }
    return false;
}

static char *hooked_alloc_for_heap(size_t bytes) {
    const uintptr_t suspended = ag_record_suspend();
    is_nested = true;
    char *chunk = alloc_for_heap(bytes);
    is_nested = false;
    ag_record_resume(suspended);
    report_chunk(chunk, chunk, bytes, major_heap);
    return chunk;
}

static void hooked_free_for_heap(char *chunk) {
    const uintptr_t suspended = take_chunk(chunk) ? ag_record_suspend() : 0;
    free_for_heap(chunk);
    ag_record_resume(suspended);
}

static void hooked_shrink_heap(char *chunk) {
    const bool is_reported = chunk != *first_chunk && take_chunk(chunk);
    const uintptr_t suspended = is_reported ? ag_record_suspend() : 0;
    shrink_heap(chunk);
    ag_record_resume(suspended);
}

static void *hooked_alloc_aligned(size_t bytes, int modulo, void **ret_block) {
    if (is_nested) {
        return alloc_aligned(bytes, modulo, ret_block);
    }
    const uintptr_t suspended = ag_record_suspend();
    void *address = alloc_aligned(bytes, modulo, ret_block);
    ag_record_resume(suspended);
    if (address) {
        report_chunk(*ret_block, address, bytes, minor_heap);
    }
    return address;
}

static void hooked_stat_free(void *block) {
    const uintptr_t suspended = block && take_chunk(block) ? ag_record_suspend() : 0;
    stat_free(block);
    ag_record_resume(suspended);
}

static uint64_t chunk_bytes(allogram_heap heap) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n_chunks; i++) {
        bytes += chunks[i].heap == heap ? chunks[i].bytes : 0;
    }
    return bytes;
}

static void follow_chunks(void) {
    /* The hooks of frees come first: a chunk whose free cannot be seen is not recorded. */
    first_chunk = ag_ocaml_find_data("caml_heap_start");
    if (first_chunk &&
        ag_ocaml_detour("caml_free_for_heap", ag_kept_call_void, (void *)hooked_free_for_heap,
                        (void **)&free_for_heap) &&
        ag_ocaml_detour("caml_shrink_heap", ag_kept_call_void, (void *)hooked_shrink_heap,
                        (void **)&shrink_heap)) {
        (void)ag_ocaml_detour("caml_alloc_for_heap", ag_kept_call, (void *)hooked_alloc_for_heap,
                              (void **)&alloc_for_heap);
    }
    if (ag_ocaml_detour("caml_stat_free", ag_kept_call_void, (void *)hooked_stat_free,
                        (void **)&stat_free)) {
        (void)ag_ocaml_detour("caml_stat_alloc_aligned_noexc", ag_kept_call,
                              (void *)hooked_alloc_aligned, (void **)&alloc_aligned);
    }
}

/* ---- OCaml 5: mappings ---- */

static struct mapped {
    _Atomic uint64_t reserved_bytes, committed_bytes;
} minor, major; /* `minor` has the mappings that are only reserved at first */

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
        report_map(reserve_only ? minor_heap : major_heap, (uintptr_t)address, bytes);
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
    report_unmap(owner == &major ? major_heap : minor_heap, (uintptr_t)address, bytes);
    const uintptr_t suspended = ag_record_suspend();
    mem_unmap(address, bytes);
    ag_record_resume(suspended);
}

static void follow_mappings(void) {
    /* The hook of unmap comes first: a mapping whose end cannot be seen is not recorded. */
    if (ag_ocaml_detour("caml_mem_unmap", ag_kept_call_void, (void *)hooked_unmap,
                        (void **)&mem_unmap) &&
        ag_ocaml_detour("caml_mem_decommit", ag_kept_call_void, (void *)hooked_decommit,
                        (void **)&mem_decommit) &&
        ag_ocaml_detour("caml_mem_commit", ag_kept_call, (void *)hooked_commit,
                        (void **)&mem_commit)) {
        (void)ag_ocaml_detour("caml_mem_map", ag_kept_call, (void *)hooked_map, (void **)&mem_map);
    }
}

/* ---- OCaml 5: large blocks ---- */

enum {
    POOLED_WORDS = 128,
    HEAD_BYTES = 16
}; /* POOLED_WORDS: maximum size of a block in a pool, with its header; HEAD_BYTES: size of struct
    * large_alloc */

static struct ag_address_bits large;
static uintptr_t (*try_alloc)(void *heap, uintptr_t words, uintptr_t tag, uintptr_t reserved);
static void (*host_free)(void *block);
static bool are_counted_once;

static uintptr_t hooked_try_alloc(void *heap, uintptr_t words, uintptr_t tag, uintptr_t reserved) {
    if (words + 1 <= POOLED_WORDS) {
        return try_alloc(heap, words, tag, reserved);
    }
    const uintptr_t suspended = ag_record_suspend();
    const uintptr_t block = try_alloc(heap, words, tag, reserved);
    ag_record_resume(suspended);
    if (block) {
        (void)ag_address_bits_set(&large, /* set= */ 0, block - HEAD_BYTES);
    }
    return block;
}

static void hooked_free(void *block) {
    if (block && ag_address_bits_clear(&large, /* set= */ 0, (uintptr_t)block)) {
        const uintptr_t suspended = ag_record_suspend();
        host_free(block);
        ag_record_resume(suspended);
        return;
    }
    host_free(block);
}

bool ag_ocaml_large_blocks_follow(void) {
    struct ag_symbol_place place;
    void *bound; /* not used: an unbound slot has the loader's stub */
    const void *inside = ag_ocaml_find("caml_shared_try_alloc");
    if (!inside || !ag_import_find(inside, "free") ||
        !ag_symbol_find("free", AG_SYMBOL_FIRST, NULL, &place) ||
        ag_address_bits_start(&large, /* n_sets= */ 1, /* forgets_on_fork= */ false) < 0) {
        return false;
    }
    host_free = (void (*)(void *))place.address;
    /* The hook of free comes first: if it fails, the blocks stay recorded as malloc's as well. */
    are_counted_once = ag_import_replace(inside, "free", (void *)hooked_free, &bound) == 0 &&
                       ag_ocaml_detour("caml_shared_try_alloc", ag_kept_call,
                                       (void *)hooked_try_alloc, (void **)&try_alloc);
    return are_counted_once;
}

/* ---- sizes ---- */

static void report_4(const struct ag_ocaml_counters *counters) {
    const uint64_t minor_bytes = chunk_bytes(minor_heap);
    const uint64_t major_bytes = chunk_bytes(major_heap);
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
        .known =
            AG_MEMORY_SIZES | AG_MEMORY_FREE | (are_counted_once ? 0 : AG_MEMORY_RECORDED_TWICE),
        .reserved_bytes = counter_read(&major.reserved_bytes) + large_bytes,
        .committed_bytes = counter_read(&major.committed_bytes) + large_bytes,
        .free_bytes = counters->free_words * 8,
        .of_malloc_bytes = large_bytes};
    ag_record_memory(&of_minor);
    ag_record_memory(&of_major);
}

void ag_ocaml_memory_follow(allogram_heap minor_number, allogram_heap major_number) {
    minor_heap = minor_number;
    major_heap = major_number;
    recorded_pid = ag_recorder.pid;
    if (ag_ocaml.generation == AG_OCAML_4) {
        follow_chunks();
    } else {
        follow_mappings();
    }
}

void ag_ocaml_memory_report(void) {
    struct ag_ocaml_counters counters = {0};
    /* a child does not know its parent's blocks */
    const bool is_known = ag_recorder.pid == recorded_pid && ag_ocaml_counters_read(&counters);
    if (ag_ocaml.generation == AG_OCAML_4 && is_known && chunk_bytes(minor_heap) > 0) {
        report_4(&counters);
    } else if (ag_ocaml.generation == AG_OCAML_5 && is_known &&
               counter_read(&minor.reserved_bytes) > 0) {
        report_5(&counters);
    }
}
