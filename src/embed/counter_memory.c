/* counter_memory.c: memory of counter sets, of which a virtual machine may have a hundred thousand:
 * one for each of its processes, that come and go in any order.
 *
 * A mapping for each would cut the address space into as many pieces as there are sets, and the
 * kernel lets a process have 65,530 of them: then the program's own mmap fails. So blocks up to 64
 * KiB, in sizes of powers of two, are cut from mappings of 1 MiB, and go to a list of their size
 * when they are freed; they are given back to nobody, which is bounded by what was in use at once.
 * Larger blocks are few (a set of 2,000 paths) and have a mapping each.
 *
 * A signal handler that finds the lock held by the thread it interrupted gets a mapping of its own,
 * and loses what it frees. */
#include "counter_memory.h"

#include <stdint.h>
#include <string.h>

#include "base/own_memory.h"
#include "defined_names.h"
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
    struct freed
        *freed[LARGEST_LOG2 + 1]; /* under the lock, as what follows; by log2 of the size */
    char *piece;                  /* of 1 MiB */
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
    if (all.left < bytes) { /* what is left of a piece is lost */
        all.piece = ag_reported_memory(PIECE_BYTES);
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
        return ag_reported_memory(bytes);
    }
    const uint32_t log2 = log2_of(bytes);
    if (!ag_host_lock_take(&all.lock)) {
        return ag_reported_memory((size_t)1 << log2);
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
