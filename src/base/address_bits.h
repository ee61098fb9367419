/* address_bits.h: which addresses of a heap are in one of a few sets.
 *
 * Bits, one a granule of 16 bytes, in regions of 1 MiB that are mapped as they are met: the
 * addresses themselves are kept nowhere, so no collector finds a block alive because it is in a
 * set. Any thread may call anything at any time; no lock, no malloc; safe in a signal handler. */
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

/* Once for each table, before any other. Sets are numbers below n_sets. forgets_on_fork: a forked
 * child begins with empty sets (the kernel wipes them), else with its parent's. 0 or -ENOMEM. */
int ag_address_bits_start(struct ag_address_bits *bits, uint32_t n_sets, bool forgets_on_fork);
/* false: there is no memory. */
bool ag_address_bits_set(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
/* Whether it was set: of several who take it away one hears yes. */
bool ag_address_bits_clear(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
bool ag_address_bits_has(struct ag_address_bits *bits, uint32_t set, uintptr_t address);
/* Visits all of a set by rising address within each region; visit may clear them. */
typedef void ag_address_fn(void *context, uintptr_t address);
void ag_address_bits_walk(struct ag_address_bits *bits, uint32_t set, ag_address_fn *visit,
                          void *context);

#endif
