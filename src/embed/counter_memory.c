/* counter_memory.c: memory for counter sets (counters.h). A counter set has the function counters
 * of one thread, or of one process of a virtual machine. A virtual machine may have a hundred
 * thousand processes, which begin and end in any order.
 *
 * One mapping per set would split the address space into as many pieces as there are sets, and the
 * kernel lets a process have only 65,530: then the program's own mmap fails. So blocks of up to 64
 * KiB, in sizes of powers of two, are cut from mappings of 1 MiB, and go to a free list of their
 * size when they are freed. The mappings are never unmapped, so their total size is that of the
 * largest use at one time. Larger blocks are few (a set has one from 8,191 call paths on) and have
 * a mapping each.
 *
 * A signal handler that interrupted the holder of the lock gets a mapping of its own, and leaks
 * what it frees. */
#include "counter_memory.h"

#include <stdint.h>
#include <string.h>

#include "base/own_memory.h"
#include "host_lock.h"

enum {
    SMALLEST_LOG2 = 8,
    LARGEST_LOG2 = 16,
    PIECE_BYTES = 1 << 20,
};
struct freed {
    struct freed *next;
};
static struct {
    struct ag_host_lock lock;
    /* free lists; index: log2 of the size. The lock protects this member and the following
     * members. */
    struct freed *freed[LARGEST_LOG2 + 1];
    char *piece; /* the newest mapping of 1 MiB, from which blocks are cut */
    size_t left;
} all;

static uint32_t log2_of(size_t bytes) {
    uint32_t log2 = SMALLEST_LOG2;
    while (((size_t)1 << log2) < bytes) {
        log2++;
    }
    return log2;
}

static void *take_locked(uint32_t log2) {
    const size_t bytes = (size_t)1 << log2;
    struct freed *freed = all.freed[log2];
    if (freed) {
        all.freed[log2] = freed->next;
        memset(freed, 0, bytes);
        return freed;
    }
    if (all.left < bytes) { /* the rest of the previous mapping is wasted */
        all.piece = ag_own_memory_take(PIECE_BYTES);
        all.left = all.piece ? PIECE_BYTES : 0;
    }
    char *memory = all.left >= bytes ? all.piece : NULL;
    if (memory) {
        all.piece += bytes;
        all.left -= bytes;
    }
    return memory;
}

void *ag_counter_memory(size_t bytes) {
    if (bytes > (size_t)1 << LARGEST_LOG2) {
        return ag_own_memory_take(bytes);
    }
    const uint32_t log2 = log2_of(bytes);
    if (!ag_host_lock_take(&all.lock)) {
        return ag_own_memory_take((size_t)1 << log2);
    }
    void *memory = take_locked(log2);
    ag_host_lock_give(&all.lock);
    return memory;
}

void ag_counter_memory_free(void *memory, size_t bytes) {
    if (!memory) {
        return;
    }
    if (bytes > (size_t)1 << LARGEST_LOG2) {
        ag_own_memory_give(memory);
        return;
    }
    if (ag_host_lock_take(&all.lock)) {
        struct freed *freed = memory;
        struct freed **list = &all.freed[log2_of(bytes)];
        freed->next = *list;
        *list = freed;
        ag_host_lock_give(&all.lock);
    }
}
