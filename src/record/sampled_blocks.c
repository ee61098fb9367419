/* sampled_blocks.c: a lock-free set of addresses in private memory, with a filter in front of it.
 *
 * 1. Why a table. An alternative would be to place sampled blocks in an address range of the
 * recorder; then a free would need only one comparison. But if a free bypasses the hooks (a
 * statically bound free, a namespace of dlmopen, an unloaded recorder), the program's own allocator
 * would get a pointer that it did not allocate. So the program's allocator allocates sampled blocks
 * like all others, and this table contains their addresses.
 *
 * 2. The filter. The filter has 2^16 counters of one byte, indexed by a hash of the address. If a
 * counter is zero, no sampled block has an address with this hash. So nearly every free costs one
 * load and one compare. The hash maps neighboring addresses to neighboring counters (one cache line
 * of counters covers one KiB of heap), so a loop over few blocks touches few cache lines. With a
 * hash that scatters addresses, all 64 KiB of counters would compete with the program for the
 * first-level cache. With n live samples, the free of a block that is not a sample has to search
 * the table in n / 65536 of all cases (6 % with 2 GiB in use at the default interval). A counter
 * that reaches 255 is not changed again.
 *
 * 3. The table. The table consists of 6 levels with 2^9, 2^11 ... 2^19 lines. A line has room for 8
 * addresses and takes 64 bytes. A hash of an address selects one line of each level; the address is
 * stored in the first level in which this line has room. So a small set takes 32 KiB, and the whole
 * table has room for 5.6 million addresses. A slot is claimed and freed by compare-and-swap.
 *
 * 4. Threads and signals. At each moment, the allocator has given an address to at most one owner.
 * The thread that inserts an address has just got it from the allocator and has not passed it on.
 * The thread that removes an address is about to free it. So the same address is never inserted and
 * removed at the same time. Relaxed memory order is enough, because the program itself orders its
 * operations on a block. If an address is inserted that is in the set already (because its free was
 * not seen), the set still contains it once. */
#include "sampled_blocks.h"

#include <stdatomic.h>
#include <string.h>

#include "base/pages.h"
#include "base/raw_syscall.h"
#include "sampler.h"

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio */
enum { LEVELS = 6, FIRST_LINES = 1 << 9, LINE_SLOTS = 8 };

struct line {
    AG_CACHE_ALIGNED _Atomic uintptr_t addresses[LINE_SLOTS]; /* 0: free */
};

_Atomic uint8_t ag_sampled_filter[AG_SAMPLED_FILTER_SLOTS];
static struct line *lines;            /* the lines of all levels, the smallest level first */
static _Atomic uint32_t n_levels = 1; /* levels that were ever used */

static size_t lines_before(uint32_t level) {
    return FIRST_LINES * (((size_t)1 << 2 * level) - 1) / 3;
}

static struct line *line_of(uintptr_t address, uint32_t level) {
    const uint64_t hash = (uint64_t)(address >> 4) * HASH_FACTOR;
    const size_t n_lines = (size_t)FIRST_LINES << 2 * level;
    return &lines[lines_before(level) + ((hash >> 20) & (n_lines - 1))];
}

static void count_in_filter(uintptr_t address, int change) {
    _Atomic uint8_t *counter = &ag_sampled_filter[ag_sampled_filter_slot(address)];
    uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);
    while (count != UINT8_MAX &&
           !atomic_compare_exchange_weak_explicit(counter, &count, (uint8_t)(count + change),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

size_t ag_sampled_blocks_bytes(void) {
    return lines_before(LEVELS) * sizeof(struct line);
}

void ag_sampled_blocks_start(void *memory) {
    lines = memory;
}

void ag_sampled_blocks_unmap(void) {
    ag_pages_unmap(lines, ag_sampled_blocks_bytes());
    lines = NULL;
}

bool ag_sampled_blocks_prepare(void) {
    if (!lines) {
        lines = ag_pages_map(ag_sampled_blocks_bytes());
    } else if (ag_syscall3(SYS_madvise, (long)lines, (long)ag_sampled_blocks_bytes(),
                           MADV_DONTNEED) != 0) {
        /* a sandbox refuses madvise; only the levels that were used contain addresses */
        const uint32_t count = atomic_load_explicit(&n_levels, memory_order_relaxed);
        memset(lines, 0, lines_before(count) * sizeof(*lines));
    }
    for (uint32_t i = 0; i < AG_SAMPLED_FILTER_SLOTS; i++) {
        atomic_store_explicit(&ag_sampled_filter[i], 0, memory_order_relaxed);
    }
    return lines != NULL;
}

static _Atomic uintptr_t *sampled_blocks_find(uintptr_t address) {
    const uint32_t count = atomic_load_explicit(&n_levels, memory_order_relaxed);
    for (uint32_t level = 0; level < count; level++) {
        struct line *line = line_of(address, level);
        for (int i = 0; i < LINE_SLOTS; i++) {
            if (atomic_load_explicit(&line->addresses[i], memory_order_relaxed) == address) {
                return &line->addresses[i];
            }
        }
    }
    return NULL;
}

static bool sampled_slot_claim(struct line *line, uintptr_t address) {
    for (int i = 0; i < LINE_SLOTS; i++) {
        uintptr_t expected = 0;
        if (atomic_load_explicit(&line->addresses[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&line->addresses[i], &expected, address,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

bool ag_sampled_blocks_insert(uintptr_t address) {
    if (sampled_blocks_find(address)) {
        return true;
    }
    /* The filter is updated before the table, because a thread that reads only the filter must not
     * miss the address. */
    count_in_filter(address, +1);
    for (uint32_t level = 0; level < LEVELS; level++) {
        uint32_t known = atomic_load_explicit(&n_levels, memory_order_relaxed);
        while (known <= level &&
               !atomic_compare_exchange_weak_explicit(&n_levels, &known, level + 1,
                                                      memory_order_relaxed, memory_order_relaxed)) {
        }
        if (sampled_slot_claim(line_of(address, level), address)) {
            return true;
        }
    }
    count_in_filter(address, -1);
    return false;
}

bool ag_sampled_blocks_has(uintptr_t address) {
    return ag_sampled_may_hold_fast(address) && sampled_blocks_find(address) != NULL;
}

bool ag_sampled_blocks_remove(uintptr_t address) {
    _Atomic uintptr_t *slot = sampled_blocks_find(address);
    uintptr_t expected = address;
    if (!slot || !atomic_compare_exchange_strong_explicit(slot, &expected, 0, memory_order_relaxed,
                                                          memory_order_relaxed)) {
        return false;
    }
    count_in_filter(address, -1);
    return true;
}
