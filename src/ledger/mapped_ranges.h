/* mapped_ranges.h: computes for the ledger, from a log of maps and unmaps, which addresses each
 * heap has got from the kernel.
 *
 * Reports need only the final state, so operations are just logged. The log is settled (reduced to
 * the mapped ranges: the last operation on a byte decides) when it has doubled since it was last
 * settled, and at the end. A part of a range may be unmapped or mapped over; memory is bounded by
 * the number of mapped ranges. */
#ifndef AG_MAPPED_RANGES_H
#define AG_MAPPED_RANGES_H

#include <stddef.h>
#include <stdint.h>

#define AG_HEAP_UNMAPPED UINT32_MAX

struct ag_mapped_range {
    uint64_t low, high; /* [low, high) */
    uint32_t heap;      /* AG_HEAP_UNMAPPED: an unmap */
    uint32_t reserved;
};
struct ag_mapped_ranges { /* zero-initialize */
    struct ag_mapped_range *log;
    size_t count, capacity;
};

void ag_mapped_ranges_done(struct ag_mapped_ranges *ranges);
/* Logs an operation on [address, address + bytes), which overrides earlier ones; empty and wrapping
 * ranges are ignored. 0 or -ENOMEM. */
int ag_mapped_ranges_set(struct ag_mapped_ranges *ranges, uint32_t heap, uint64_t address,
                         uint64_t bytes);
/* Reduces the log to the ranges that are mapped now: disjoint, in rising order. 0 or -ENOMEM. */
int ag_mapped_ranges_settle(struct ag_mapped_ranges *ranges);

#endif
