/* held_blocks.c: see held_blocks.h. A hash of region numbers to regions, and a list of the slots
 * taken, so that a walk costs what the heap is large: small heaps are collected thousands of times
 * a second. Entries are never taken out. A slot is listed before its region can be found; where two
 * threads meet at one it may be listed twice, and walked twice, which finds nothing more. */
#include "held_blocks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/raw_syscall.h"

enum {
    GRANULE_SHIFT = 4,
    REGION_SHIFT = 20,
    REGION_WORDS = 1 << (REGION_SHIFT - GRANULE_SHIFT - 6),
    SLOTS = 1 << 17, /* regions known at most: 128 GiB of heap */
    LISTED_MOST = 2 * SLOTS,
    PROBES_MOST = 64,
    WIPE_ON_FORK = 18, /* MADV_WIPEONFORK */
};

struct region {
    _Atomic uint64_t bits[AG_HELD_KINDS][REGION_WORDS];
};
struct slot {
    _Atomic uint64_t key; /* number of the region plus 1; 0: free */
    _Atomic(struct region *) region;
};
static struct slot *slots;
static _Atomic uint32_t *listed; /* slot + 1; 0: not yet */
static _Atomic uint32_t n_listed;

static void *map_zeros(size_t bytes) {
    const long address = ag_syscall6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return ag_syscall_failed(address) ? NULL : (void *)address;
}

int ag_held_start(void) {
    slots = map_zeros(SLOTS * sizeof(*slots));
    listed = map_zeros(LISTED_MOST * sizeof(*listed));
    return slots && listed ? 0 : -ENOMEM;
}

static struct slot *find_slot(uint64_t key, bool makes_one) {
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 47);
    for (int i = 0; i < PROBES_MOST; i++, at = (at + 1) & (SLOTS - 1)) {
        uint64_t found = atomic_load_explicit(&slots[at].key, memory_order_relaxed);
        if (found == key) {
            return &slots[at];
        }
        if (found == 0) {
            if (!makes_one) {
                return NULL;
            }
            if (atomic_compare_exchange_strong_explicit(
                    &slots[at].key, &found, key, memory_order_relaxed, memory_order_relaxed) ||
                found == key) {
                return &slots[at];
            }
        }
    }
    return NULL;
}

AG_COLD static struct region *make_region(struct slot *slot) {
    struct region *expected = NULL;
    const uint32_t at = atomic_fetch_add_explicit(&n_listed, 1, memory_order_relaxed);
    struct region *made = at < LISTED_MOST ? map_zeros(sizeof(*made)) : NULL;
    if (!made) {
        return NULL;
    }
    /* before the region: who walks after somebody has found it finds it as well */
    atomic_store_explicit(&listed[at], (uint32_t)(slot - slots) + 1, memory_order_release);
    (void)ag_syscall3(SYS_madvise, (long)made, sizeof(*made), WIPE_ON_FORK);
    /* release: pairs with find_region's acquire; the memory is there */
    if (atomic_compare_exchange_strong_explicit(&slot->region, &expected, made,
                                                memory_order_acq_rel, memory_order_acquire)) {
        return made;
    }
    (void)ag_syscall2(SYS_munmap, (long)made, sizeof(*made));
    return expected;
}

static struct region *find_region(uintptr_t address, bool makes_one) {
    struct slot *slot = find_slot((address >> REGION_SHIFT) + 1, makes_one);
    struct region *region = slot ? atomic_load_explicit(&slot->region, memory_order_acquire) : NULL;
    return region || !slot || !makes_one ? region : make_region(slot);
}

static _Atomic uint64_t *word_of(struct region *region, enum ag_held_kind kind, uintptr_t address) {
    return &region->bits[kind][address >> (GRANULE_SHIFT + 6) & (REGION_WORDS - 1)];
}

static uint64_t bit_of(uintptr_t address) {
    return UINT64_C(1) << (address >> GRANULE_SHIFT & 63);
}

bool ag_held_set(enum ag_held_kind kind, uintptr_t address) {
    struct region *region = find_region(address, /* makes_one= */ true);
    if (region) {
        atomic_fetch_or_explicit(word_of(region, kind, address), bit_of(address),
                                 memory_order_relaxed);
    }
    return region != NULL;
}

bool ag_held_clear(enum ag_held_kind kind, uintptr_t address) {
    struct region *region = find_region(address, /* makes_one= */ false);
    const uint64_t bit = bit_of(address);
    if (!region) {
        return false;
    }
    _Atomic uint64_t *word = word_of(region, kind, address);
    return (atomic_load_explicit(word, memory_order_relaxed) & bit) != 0 &&
           (atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed) & bit) != 0;
}

bool ag_held_has(enum ag_held_kind kind, uintptr_t address) {
    struct region *region = find_region(address, /* makes_one= */ false);
    return region && (atomic_load_explicit(word_of(region, kind, address), memory_order_relaxed) &
                      bit_of(address)) != 0;
}

static void walk_region(struct region *region, uintptr_t base, enum ag_held_kind kind,
                        ag_held_fn *visit, void *context) {
    for (size_t i = 0; i < REGION_WORDS; i++) {
        uint64_t left = atomic_load_explicit(&region->bits[kind][i], memory_order_relaxed);
        while (left != 0) {
            const uintptr_t granule = i * 64 + AG_TRAILING_ZEROS(left);
            left &= left - 1;
            visit(context, base + (granule << GRANULE_SHIFT));
        }
    }
}

void ag_held_walk(enum ag_held_kind kind, ag_held_fn *visit, void *context) {
    const uint32_t n = atomic_load_explicit(&n_listed, memory_order_acquire);
    for (uint32_t i = 0; i < n && i < LISTED_MOST; i++) {
        const uint32_t at = atomic_load_explicit(&listed[i], memory_order_acquire);
        struct slot *slot = at != 0 ? &slots[at - 1] : NULL;
        struct region *region =
            slot ? atomic_load_explicit(&slot->region, memory_order_acquire) : NULL;
        if (region) {
            const uint64_t key = atomic_load_explicit(&slot->key, memory_order_relaxed);
            walk_region(region, (uintptr_t)(key - 1) << REGION_SHIFT, kind, visit, context);
        }
    }
}
