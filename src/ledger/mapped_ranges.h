/* mapped_ranges.h: which addresses a heap holds from the kernel, from a log of maps and unmaps.
 *
 * Only the end matters to a report, so nothing is kept in order meanwhile: operations are logged,
 * and the log is settled (the last operation on a byte wins) when it has doubled and at the end. A
 * part of a range may be unmapped or mapped over; memory is bounded by the number of ranges that
 * are mapped. */
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
struct ag_mapped_ranges { /* zero-initialise */
    struct ag_mapped_range *log;
    size_t count, capacity;
};

void ag_mapped_ranges_done(struct ag_mapped_ranges *ranges);
/* The last word on [address, address + bytes); empty and wrapping ranges say nothing. 0 or -ENOMEM.
 */
int ag_mapped_ranges_set(struct ag_mapped_ranges *ranges, uint32_t heap, uint64_t address,
                         uint64_t bytes);
/* Reduces the log to the ranges that are mapped now: disjoint, rising. 0 or -ENOMEM. */
int ag_mapped_ranges_settle(struct ag_mapped_ranges *ranges);

#endif
