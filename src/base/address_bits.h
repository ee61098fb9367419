/* address_bits.h: which addresses of a heap are in one of a few sets.
 *
 * One bit per granule of 16 bytes, in regions of 1 MiB that are mapped on first use: the addresses
 * themselves are stored nowhere, so no garbage collector keeps a block alive because it is in a
 * set. Any thread may call any function at any time; no lock, no malloc; safe in a signal
 * handler. */
#ifndef AG_ADDRESS_BITS_H
#define AG_ADDRESS_BITS_H

#include <stdbool.h>
#include <stdint.h>

struct ag_address_slot;
struct ag_address_bits {
    struct ag_address_slot *slots;
    _Atomic uint32_t *listed; /* slot + 1; 0: not yet */
    _Atomic uint32_t n_listed;
    uint32_t n_sets;
    bool forgets_on_fork;
};

/* Called once for each table, before any other function. Sets are numbers below n_sets.
 * forgets_on_fork: a forked child begins with empty sets (the kernel wipes them), else with its
 * parent's. 0 or -ENOMEM. */
int ag_address_bits_start(struct ag_address_bits *bits, uint32_t n_sets, bool forgets_on_fork);
/* false: no memory. */
bool ag_address_bits_set(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
/* Returns whether the bit was set: of several threads that clear it, one gets true. */
bool ag_address_bits_clear(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
bool ag_address_bits_has(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
/* Visits all addresses of a set, ascending within each region; visit may clear them. */
typedef void ag_address_fn(void *context, uintptr_t address);
void ag_address_bits_walk(struct ag_address_bits *bits, uint32_t set, ag_address_fn *visit,
                          void *context);

#endif
