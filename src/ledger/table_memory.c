/* table_memory.c: see table_memory.h. Large tables are mappings of their own, cut to the alignment
 * of a huge page. */
#include "ledger/table_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static size_t rounded(size_t bytes, size_t unit) {
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Address space for so many bytes, at the alignment of a huge page; or NULL. */
static void *map_aligned(size_t bytes) {
    const size_t wanted = rounded(bytes, HUGE_PAGE_BYTES);
    char *mapping = wanted < bytes ? MAP_FAILED
                                   : mmap(NULL, wanted + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return NULL;
    }
    char *memory = (char *)rounded((uintptr_t)mapping, HUGE_PAGE_BYTES);
    if (memory > mapping) {
        (void)munmap(mapping, (size_t)(memory - mapping)); /* our own mapping: cannot fail */
    }
    (void)munmap(memory + wanted, (size_t)(mapping + HUGE_PAGE_BYTES - memory));
    (void)madvise(memory, wanted, MADV_HUGEPAGE); /* a wish */
    return memory;
}

void *ag_table_memory_new(size_t bytes) {
    if (bytes >= HUGE_PAGE_BYTES) {
        return map_aligned(bytes);
    }
    void *memory = aligned_alloc(AG_CACHE_LINE, rounded(bytes, AG_CACHE_LINE));
    return memory ? memset(memory, 0, bytes) : NULL;
}

void *ag_table_memory_grow(void *memory, size_t old_bytes, size_t bytes) {
    void *grown = ag_table_memory_new(bytes);
    if (!grown || !memory) {
        return grown;
    }
    if (old_bytes >= HUGE_PAGE_BYTES) { /* the very pages move, nobody has to clear others */
        const size_t wanted = rounded(bytes, HUGE_PAGE_BYTES);
        if (mremap(memory, rounded(old_bytes, HUGE_PAGE_BYTES), wanted,
                   MREMAP_MAYMOVE | MREMAP_FIXED, grown) == grown) {
            return grown;
        }
        (void)munmap(grown, wanted); /* what the kernel left of it */
        return NULL;
    }
    memcpy(grown, memory, old_bytes);
    ag_table_memory_free(memory, old_bytes);
    return grown;
}

void ag_table_memory_free(void *memory, size_t bytes) {
    if (bytes < HUGE_PAGE_BYTES) {
        free(memory);
    } else if (memory) {
        (void)munmap(memory, rounded(bytes, HUGE_PAGE_BYTES)); /* our own mapping: cannot fail */
    }
}
