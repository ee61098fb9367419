/* table_memory.c: zeroed memory for hash tables, see table_memory.h. Large tables are separate
 * mappings, aligned to huge pages.
 *
 * Clearing a huge page takes 0.3 ms. But in a virtual machine that returns its free memory to the
 * host, the host first has to provide 512 pages, which takes 12 ms (measured in a Firecracker
 * machine with free page reporting). In such a machine, ordinary pages are faster, because they
 * mostly come from memory that the virtual machine has not returned. So the time to clear the first
 * page of each large table is measured. The measure is the CPU time of the thread, which includes
 * the work of the host but not that of other processes. If the page is slow, this process stops
 * requesting huge pages.
 *
 * A table is always one mapping, because before Linux 6.17 mremap cannot move two mappings at
 * once. */
#include "table/table_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* 5 times as long as it takes to clear a huge page, and an eighth of the 12 ms that it takes if the
 * host has to provide the pages */
enum { SLOW_PAGE_NS = 1500000 };
static atomic_bool pages_are_slow;

static size_t rounded(size_t bytes, size_t unit) {
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Requests huge pages for a table, if they are fast. The memory from offset FRESH on was never
 * accessed, so the time of an access to the page at FRESH is measured. The kernel may ignore the
 * request. */
static void table_advise(char *memory, size_t bytes, size_t fresh) {
    if (!atomic_load_explicit(&pages_are_slow, memory_order_relaxed)) {
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
        const uint64_t begin_ns = ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        *(volatile char *)(memory + fresh) = 0;
        if (ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns < SLOW_PAGE_NS) {
            return;
        }
        atomic_store_explicit(&pages_are_slow, true, memory_order_relaxed);
    }
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE); /* existing huge pages stay */
}

/* Maps BYTES of zeroed memory, aligned to a huge page. NULL: no memory. */
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
    return memory;
}

void *ag_table_memory_new(size_t bytes) {
    if (bytes >= HUGE_PAGE_BYTES) {
        void *mapping = map_aligned(bytes);
        if (mapping) {
            table_advise(mapping, rounded(bytes, HUGE_PAGE_BYTES), 0);
        }
        return mapping;
    }
    void *memory = aligned_alloc(AG_CACHE_LINE, rounded(bytes, AG_CACHE_LINE));
    return memory ? memset(memory, 0, bytes) : NULL;
}

/* Grows a large table by moving its pages, so that no new pages have to be cleared for its
 * contents. */
static void *move_pages(void *memory, size_t old_bytes, size_t bytes) {
    const size_t wanted = rounded(bytes, HUGE_PAGE_BYTES);
    void *grown = map_aligned(bytes);
    if (!grown) {
        return NULL;
    }
    if (mremap(memory, old_bytes, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, grown) != grown) {
        (void)munmap(grown, wanted); /* unmaps what remains of the new mapping */
        return NULL;
    }
    if (wanted > old_bytes) {
        table_advise(grown, wanted, old_bytes);
    }
    return grown;
}

void *ag_table_memory_grow(void *memory, size_t old_bytes, size_t bytes) {
    if (memory && old_bytes >= HUGE_PAGE_BYTES) {
        return move_pages(memory, rounded(old_bytes, HUGE_PAGE_BYTES), bytes);
    }
    void *grown = ag_table_memory_new(bytes);
    if (!grown || !memory) {
        return grown;
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
