/* address_bits.c: keeps sets of addresses for adapters (the code for one runtime each): a hash
 * table from region numbers to regions of bits, and a list of the used slots of the table. With the
 * list, the time of a walk over all addresses is proportional to the size of the heap, not of the
 * table; this matters because small heaps are collected thousands of times a second. Entries are
 * never removed. A slot is listed before it gets its key, so every region that can be found is
 * listed. If two threads list the same slot at once, the thread that gives the slot its key keeps
 * its element of the list, and the other thread clears its own. A slot whose region cannot be
 * mapped stays listed and gets its region later. */
#include "address_bits.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "compiler.h"
#include "own_memory.h"

enum {
    GRANULE_SHIFT = 4,
    REGION_SHIFT = 20,
    REGION_WORDS = 1 << (REGION_SHIFT - GRANULE_SHIFT - 6),
    SLOTS = 1 << 17,         /* maximum number of regions: 128 GiB of heap */
    LISTED_MOST = 2 * SLOTS, /* elements of the list; those that lost a race stay unused */
    PROBES_MOST = 64,
};

struct ag_address_slot {
    /* number of the region plus 1; 0: free. The key is stored with release after the slot was
     * listed. */
    _Atomic uint64_t key;
    /* array of n_sets * REGION_WORDS words: first the words of set 0, then those of set 1 ... */
    _Atomic(_Atomic uint64_t *) region;
};

static size_t region_bytes(const struct ag_address_bits *bits) {
    return bits->n_sets * REGION_WORDS * sizeof(uint64_t);
}

int ag_address_bits_start(struct ag_address_bits *bits, uint32_t n_sets, bool forgets_on_fork) {
    bits->n_sets = n_sets;
    bits->forgets_on_fork = forgets_on_fork;
    bits->slots = ag_own_memory_take(SLOTS * sizeof(*bits->slots));
    bits->listed = ag_own_memory_take(LISTED_MOST * sizeof(*bits->listed));
    return bits->slots && bits->listed ? 0 : -ENOMEM;
}

/* Gives the free slot a key, and lists the slot. Returns the slot's key: KEY, or the key that
 * another thread gave it meanwhile; 0: the list is full. */
AG_COLD static uint64_t take_slot(struct ag_address_bits *bits, uint32_t slot, uint64_t key) {
    const uint32_t at = atomic_load_explicit(&bits->n_listed, memory_order_relaxed) < LISTED_MOST
                            ? atomic_fetch_add_explicit(&bits->n_listed, 1, memory_order_relaxed)
                            : LISTED_MOST;
    if (at >= LISTED_MOST) {
        return 0;
    }
    uint64_t found = 0;
    atomic_store_explicit(&bits->listed[at], slot + 1, memory_order_release);
    /* release: pairs with the acquire in find_slot, so that the slot is in the list for every
     * thread that has found the key */
    if (atomic_compare_exchange_strong_explicit(&bits->slots[slot].key, &found, key,
                                                memory_order_release, memory_order_acquire)) {
        return key;
    }
    atomic_store_explicit(&bits->listed[at], 0, memory_order_relaxed);
    return found;
}

static struct ag_address_slot *find_slot(struct ag_address_bits *bits, uint64_t key,
                                         bool makes_one) {
    struct ag_address_slot *slots = bits->slots;
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 47);
    for (int i = 0; i < PROBES_MOST; i++, at = (at + 1) & (SLOTS - 1)) {
        uint64_t found = atomic_load_explicit(&slots[at].key, memory_order_acquire);
        if (found == 0) {
            found = makes_one ? take_slot(bits, at, key) : 0;
            if (found == 0) {
                return NULL;
            }
        }
        if (found == key) {
            return &slots[at];
        }
    }
    return NULL;
}

AG_COLD static _Atomic uint64_t *make_region(struct ag_address_bits *bits,
                                             struct ag_address_slot *slot) {
    _Atomic uint64_t *expected = NULL;
    _Atomic uint64_t *made = bits->forgets_on_fork ? ag_own_memory_take_wiped(region_bytes(bits))
                                                   : ag_own_memory_take(region_bytes(bits));
    if (!made) {
        return NULL;
    }
    /* release: pairs with the acquire in find_word, so that a thread that finds the region sees
     * zeroed memory */
    if (atomic_compare_exchange_strong_explicit(&slot->region, &expected, made,
                                                memory_order_acq_rel, memory_order_acquire)) {
        return made;
    }
    /* another thread was faster: the memory of this call stays unused and costs only address
     * space */
    return expected;
}

/* Returns the word that contains the bit of the address in the set; NULL: the region of the address
 * does not exist. makes_one: a missing region is made, if there is memory. */
static _Atomic uint64_t *find_word(struct ag_address_bits *bits, uint32_t set, uintptr_t address,
                                   bool makes_one) {
    struct ag_address_slot *slot = find_slot(bits, (address >> REGION_SHIFT) + 1, makes_one);
    _Atomic uint64_t *region =
        slot ? atomic_load_explicit(&slot->region, memory_order_acquire) : NULL;
    region = region || !slot || !makes_one ? region : make_region(bits, slot);
    return region
               ? &region[set * REGION_WORDS + (address >> (GRANULE_SHIFT + 6) & (REGION_WORDS - 1))]
               : NULL;
}

static uint64_t bit_of(uintptr_t address) {
    return UINT64_C(1) << (address >> GRANULE_SHIFT & 63);
}

bool ag_address_bits_set(struct ag_address_bits *bits, uint32_t set, uintptr_t address) {
    _Atomic uint64_t *word = find_word(bits, set, address, /* makes_one= */ true);
    if (word) {
        atomic_fetch_or_explicit(word, bit_of(address), memory_order_relaxed);
    }
    return word != NULL;
}

bool ag_address_bits_clear(struct ag_address_bits *bits, uint32_t set, uintptr_t address) {
    _Atomic uint64_t *word = find_word(bits, set, address, /* makes_one= */ false);
    const uint64_t bit = bit_of(address);
    return word && (atomic_load_explicit(word, memory_order_relaxed) & bit) != 0 &&
           (atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed) & bit) != 0;
}

bool ag_address_bits_has(struct ag_address_bits *bits, uint32_t set, uintptr_t address) {
    const _Atomic uint64_t *word = find_word(bits, set, address, /* makes_one= */ false);
    return word && (atomic_load_explicit(word, memory_order_relaxed) & bit_of(address)) != 0;
}

static void walk_region(const _Atomic uint64_t *words, uintptr_t base, ag_address_fn *visit,
                        void *context) {
    for (size_t i = 0; i < REGION_WORDS; i++) {
        uint64_t left = atomic_load_explicit(&words[i], memory_order_relaxed);
        while (left != 0) {
            const uintptr_t granule = i * 64 + AG_TRAILING_ZEROS(left);
            left &= left - 1;
            visit(context, base + (granule << GRANULE_SHIFT));
        }
    }
}

void ag_address_bits_walk(struct ag_address_bits *bits, uint32_t set, ag_address_fn *visit,
                          void *context) {
    const uint32_t n = atomic_load_explicit(&bits->n_listed, memory_order_acquire);
    for (uint32_t i = 0; i < n && i < LISTED_MOST; i++) {
        const uint32_t at = atomic_load_explicit(&bits->listed[i], memory_order_acquire);
        struct ag_address_slot *slot = at != 0 ? &bits->slots[at - 1] : NULL;
        const _Atomic uint64_t *region =
            slot ? atomic_load_explicit(&slot->region, memory_order_acquire) : NULL;
        if (region) {
            const uint64_t key = atomic_load_explicit(&slot->key, memory_order_relaxed);
            walk_region(region + set * REGION_WORDS, (uintptr_t)(key - 1) << REGION_SHIFT, visit,
                        context);
        }
    }
}
