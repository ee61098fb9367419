/* own_memory.c: maps and frees memory for the agent. Allocations are recorded in a list; the first
 * allocation maps the memory of the list. */
#include "own_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "compiler.h"
#include "pages.h"
#include "raw_syscall.h"

/* Maximum number of allocations; their list takes 4 MiB of address space. Most allocations are
 * regions of address_bits.c: one for each MiB of a heap. */
enum { PIECES_MOST = 1 << 18 };

struct piece {
    uintptr_t address; /* 0: not allocated yet, or freed */
    size_t bytes;
};
static struct {
    struct piece *_Atomic pieces;
    _Atomic uint32_t n;
} taken;

static struct piece *piece_list(void) {
    /* acquire: pairs with the exchange below */
    struct piece *known = atomic_load_explicit(&taken.pieces, memory_order_acquire);
    if (AG_LIKELY(known != NULL)) {
        return known;
    }
    struct piece *made = ag_pages_map(PIECES_MOST * sizeof(*made));
    if (made && !atomic_compare_exchange_strong_explicit(
                    &taken.pieces, &known, made, memory_order_acq_rel, memory_order_acquire)) {
        ag_pages_unmap(made, PIECES_MOST * sizeof(*made)); /* another thread was faster */
        return known;
    }
    return made;
}

void *ag_own_memory_take(size_t bytes) {
    struct piece *pieces = piece_list();
    const bool has_room = atomic_load_explicit(&taken.n, memory_order_relaxed) < PIECES_MOST;
    /* mapped before an element of the list is taken, so that failed maps take no elements */
    void *memory = pieces && has_room ? ag_pages_map(bytes) : NULL;
    if (!memory) {
        return NULL;
    }
    const uint32_t at = atomic_fetch_add_explicit(&taken.n, 1, memory_order_relaxed);
    if (at >= PIECES_MOST) {
        ag_pages_unmap(memory, bytes);
        return NULL;
    }
    pieces[at] = (struct piece){(uintptr_t)memory, bytes};
    return memory;
}

void *ag_own_memory_take_wiped(size_t bytes) {
    void *memory = ag_own_memory_take(bytes);
    if (memory) {
        (void)ag_syscall3(SYS_madvise, (long)memory, (long)bytes, MADV_WIPEONFORK);
    }
    return memory;
}

void ag_own_memory_give(void *memory) {
    struct piece *pieces = atomic_load_explicit(&taken.pieces, memory_order_acquire);
    const uint32_t n = atomic_load_explicit(&taken.n, memory_order_relaxed);
    for (uint32_t i = n < PIECES_MOST ? n : PIECES_MOST; memory && pieces && i > 0; i--) {
        if (pieces[i - 1].address == (uintptr_t)memory) {
            ag_pages_unmap(memory, pieces[i - 1].bytes);
            pieces[i - 1].address = 0;
            return;
        }
    }
}

void ag_own_memory_give_back(void) {
    struct piece *pieces = atomic_load_explicit(&taken.pieces, memory_order_acquire);
    const uint32_t n = atomic_load_explicit(&taken.n, memory_order_relaxed);
    for (uint32_t i = 0; pieces && i < n && i < PIECES_MOST; i++) {
        if (pieces[i].address != 0) {
            ag_pages_unmap((void *)pieces[i].address, pieces[i].bytes);
        }
    }
    ag_pages_unmap(pieces, PIECES_MOST * sizeof(*pieces));
    atomic_store_explicit(&taken.pieces, NULL, memory_order_relaxed);
    atomic_store_explicit(&taken.n, 0, memory_order_relaxed);
}
