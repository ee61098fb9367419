/* backing.c: records the memory that OCaml 4 takes from malloc to hold the blocks of its heaps. The
 * memory is recorded as mapped by the heap, and not as blocks of malloc, so that nothing counts
 * twice.
 *
 * Chunks of the major heap come from caml_alloc_for_heap. The minor heap comes from
 * caml_stat_alloc_aligned_noexc, which caml_alloc_for_heap also calls, or has inlined. Chunks are
 * freed by caml_free_for_heap, caml_shrink_heap (which has caml_free_for_heap inlined) and
 * caml_stat_free. caml_stat_free frees other memory too, so the recorded chunks are kept in a
 * table. All these functions run under the runtime's lock. */
#include "collector_hooks.h"
#include "heap_memory.h"
#include "suppress.h"

enum { BLOCKS_MOST = 4096 }; /* chunks of a heap: each new one is 15 % of the heap */

static struct backing {
    void *block; /* the pointer that is freed */
    uintptr_t address;
    size_t bytes;
    allogram_heap heap;
} blocks[BLOCKS_MOST];
static size_t n_blocks;
static allogram_heap minor_heap, major_heap;
static bool is_nested; /* caml_alloc_for_heap is running */

static char *(*alloc_for_heap)(size_t bytes);
static void (*free_for_heap)(char *chunk);
static void (*shrink_heap)(char *chunk);
static char *const *first_chunk; /* caml_heap_start, a chunk that is never freed */
static void *(*alloc_aligned)(size_t bytes, int modulo, void **ret_block);
static void (*stat_free)(void *block);

static void report_chunk(void *block, void *address, size_t bytes, allogram_heap heap) {
    if (address && n_blocks < BLOCKS_MOST) {
        blocks[n_blocks++] = (struct backing){block, (uintptr_t)address, bytes, heap};
        const uintptr_t resumed = ag_ocaml_resume();
        allogram_map(heap, (uintptr_t)address, bytes);
        ag_ocaml_suppress(resumed);
    }
}

/* Whether the block was recorded; removes it from the table. */
static bool take_back(const void *block) {
    for (size_t i = n_blocks; i > 0; i--) {
        const struct backing found = blocks[i - 1];
        if (found.block == block) {
            blocks[i - 1] = blocks[--n_blocks];
            const uintptr_t resumed = ag_ocaml_resume();
            allogram_unmap(found.heap, found.address, found.bytes);
            ag_ocaml_suppress(resumed);
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
    const uintptr_t suspended = take_back(chunk) ? ag_record_suspend() : 0;
    free_for_heap(chunk);
    ag_record_resume(suspended);
}

static void hooked_shrink_heap(char *chunk) {
    const bool is_reported = chunk != *first_chunk && take_back(chunk);
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
    const uintptr_t suspended = block && take_back(block) ? ag_record_suspend() : 0;
    stat_free(block);
    ag_record_resume(suspended);
}

uint64_t ag_ocaml_backing_bytes(allogram_heap heap) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        bytes += blocks[i].heap == heap ? blocks[i].bytes : 0;
    }
    return bytes;
}

void ag_ocaml_backing_follow(allogram_heap minor, allogram_heap major) {
    minor_heap = minor;
    major_heap = major;
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
