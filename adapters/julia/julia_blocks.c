/* julia_blocks.c: see julia_blocks.h. A hash of region numbers to regions; entries are never taken
 * out. */
#include "julia_blocks.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/raw_syscall.h"
#include "julia_runtime.h"

enum {
    GRANULE_SHIFT = 4,
    REGION_SHIFT = 20,
    REGION_WORDS = 1 << (REGION_SHIFT - GRANULE_SHIFT - 6),
    SLOTS_BITS = 17, /* regions known at most: 128 GiB of addresses */
    SLOTS = 1 << SLOTS_BITS,
    PROBES_MOST = 64,
};
struct region {
    _Atomic uint64_t bits[AG_JULIA_BLOCKS][REGION_WORDS];
};
struct slot {
    _Atomic uint64_t key; /* number of the region plus 1; 0: free */
    _Atomic(struct region *) region;
};
static struct slot *slots;

int ag_julia_blocks_start(void) {
    slots = ag_julia_map(SLOTS * sizeof(*slots));
    return slots ? 0 : -ENOMEM;
}

AG_COLD static struct region *make_region(struct slot *slot) {
    struct region *made = ag_julia_map(sizeof(*made));
    struct region *expected = NULL;
    if (!made || atomic_compare_exchange_strong_explicit(
                     &slot->region, &expected, made, memory_order_acq_rel, memory_order_acquire)) {
        return made;
    }
    (void)ag_syscall2(SYS_munmap, (long)made, sizeof(*made));
    return expected;
}

static struct region *find_region(uintptr_t address, bool makes_one) {
    const uint64_t key = (address >> REGION_SHIFT) + 1;
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_BITS));
    for (int i = 0; i < PROBES_MOST; i++, at = (at + 1) & (SLOTS - 1)) {
        uint64_t found = atomic_load_explicit(&slots[at].key, memory_order_relaxed);
        if (found == 0 && makes_one &&
            atomic_compare_exchange_strong_explicit(&slots[at].key, &found, key,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            found = key;
        }
        if (found == key) {
            struct region *region = atomic_load_explicit(&slots[at].region, memory_order_acquire);
            return region || !makes_one ? region : make_region(&slots[at]);
        }
        if (found == 0) {
            return NULL;
        }
    }
    return NULL;
}

static _Atomic uint64_t *word_of(struct region *region, enum ag_julia_block kind,
                                 uintptr_t address) {
    return &region->bits[kind][address >> (GRANULE_SHIFT + 6) & (REGION_WORDS - 1)];
}

static uint64_t bit_of(uintptr_t address) {
    return UINT64_C(1) << (address >> GRANULE_SHIFT & 63);
}

bool ag_julia_blocks_set(enum ag_julia_block kind, uintptr_t address) {
    struct region *region = find_region(address, /* makes_one= */ true);
    if (region) {
        atomic_fetch_or_explicit(word_of(region, kind, address), bit_of(address),
                                 memory_order_relaxed);
    }
    return region != NULL;
}

bool ag_julia_blocks_clear(enum ag_julia_block kind, uintptr_t address) {
    struct region *region = find_region(address, /* makes_one= */ false);
    const uint64_t bit = bit_of(address);
    if (!region) {
        return false;
    }
    _Atomic uint64_t *word = word_of(region, kind, address);
    return (atomic_load_explicit(word, memory_order_relaxed) & bit) != 0 &&
           (atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed) & bit) != 0;
}
