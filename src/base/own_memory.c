/* own_memory.c: maps and frees memory for the agent. Allocations are recorded in a list, which is
 * mapped with the first one. */
#include "own_memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "compiler.h"
#include "raw_syscall.h"

/* 4 MiB of address space; a region of address_bits.c is one piece */
enum { PIECES_MOST = 1 << 18 };

struct piece {
    uintptr_t address; /* 0: none */
    size_t bytes;
};
static struct {
    struct piece *_Atomic pieces;
    _Atomic uint32_t n;
} taken;

static void *map_pages(size_t bytes) {
    const long address = ag_syscall6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return ag_syscall_failed(address) ? NULL : (void *)address;
}

static void unmap_pages(void *memory, size_t bytes) {
    (void)ag_syscall2(SYS_munmap, (long)memory, (long)bytes); /* our own mapping: cannot fail */
}

static struct piece *piece_list(void) {
    /* acquire: pairs with the exchange below */
    struct piece *known = atomic_load_explicit(&taken.pieces, memory_order_acquire);
    if (AG_LIKELY(known != NULL)) {
        return known;
    }
    struct piece *made = map_pages(PIECES_MOST * sizeof(*made));
    if (made && !atomic_compare_exchange_strong_explicit(
                    &taken.pieces, &known, made, memory_order_acq_rel, memory_order_acquire)) {
        unmap_pages(made, PIECES_MOST * sizeof(*made)); /* another thread was faster */
        return known;
    }
    return made;
}

void *ag_own_memory_take(size_t bytes) {
    struct piece *pieces = piece_list();
    const uint32_t at = pieces ? atomic_fetch_add_explicit(&taken.n, 1, memory_order_relaxed) : 0;
    void *memory = pieces && at < PIECES_MOST ? map_pages(bytes) : NULL;
    if (memory) {
        pieces[at] = (struct piece){(uintptr_t)memory, bytes};
    }
    return memory;
}

void ag_own_memory_give(void *memory) {
    struct piece *pieces = atomic_load_explicit(&taken.pieces, memory_order_acquire);
    const uint32_t n = atomic_load_explicit(&taken.n, memory_order_relaxed);
    for (uint32_t i = n < PIECES_MOST ? n : PIECES_MOST; memory && pieces && i > 0; i--) {
        if (pieces[i - 1].address == (uintptr_t)memory) {
            unmap_pages(memory, pieces[i - 1].bytes);
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
            unmap_pages((void *)pieces[i].address, pieces[i].bytes);
        }
    }
    if (pieces) {
        unmap_pages(pieces, PIECES_MOST * sizeof(*pieces));
    }
    atomic_store_explicit(&taken.pieces, NULL, memory_order_relaxed);
    atomic_store_explicit(&taken.n, 0, memory_order_relaxed);
}
