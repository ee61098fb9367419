/* address_bits.h: a table that says which addresses of a heap are in which of a few sets.
 *
 * A set has one bit per granule of 16 bytes. The bits of each region of 1 MiB of addresses are
 * mapped on first use. The addresses themselves are stored nowhere; so no garbage collector that
 * scans this memory keeps a block alive because the block is in a set. Any thread may call any
 * function at any time; no lock, no malloc; safe in a signal handler. */
#ifndef AG_ADDRESS_BITS_H
#define AG_ADDRESS_BITS_H

#include <stdbool.h>
#include <stdint.h>

struct ag_address_slot;
struct ag_address_bits {
    struct ag_address_slot *slots;
    _Atomic uint32_t *listed; /* index of each used slot (a slot has the bits of one region), plus
                               * 1; 0: the element is unused */
    _Atomic uint32_t n_listed;
    uint32_t n_sets;
    bool forgets_on_fork;
};

/* Called once for each struct ag_address_bits, before any other function. Sets are numbers below
 * n_sets. forgets_on_fork: true: a forked child begins with empty sets (the kernel wipes them);
 * false: it begins with the sets of its parent. Returns 0 or -ENOMEM. */
int ag_address_bits_start(struct ag_address_bits *bits, uint32_t n_sets, bool forgets_on_fork);
/* Adds the address to the set. Returns false if there is no memory or no free slot. */
bool ag_address_bits_set(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
/* Removes the address from the set. Returns whether the address was in the set: if several threads
 * remove it at once, one thread gets true. */
bool ag_address_bits_clear(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
bool ag_address_bits_has(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
/* Visits all addresses of a set, ascending within each region; VISIT may remove them. */
typedef void ag_address_fn(void *context, uintptr_t address);
void ag_address_bits_walk(struct ag_address_bits *bits, uint32_t set, ag_address_fn *visit,
                          void *context);

#endif
