/* host_events_fast.h: whether an event need be told at all, inline: for adapters of runtimes that
 * allocate as often as others call malloc, and for recordings that sample.
 *
 * A sampled recording wants one block in half a MiB. What allogram.h does for a program, an adapter
 * does with these two: a block that is no sample costs a subtraction and a branch, its end a load
 * and a compare, and neither is told. Where a tracker is, or every block is recorded, both say yes
 * and host_events.c sorts it out. */
#ifndef AG_HOST_EVENTS_FAST_H
#define AG_HOST_EVENTS_FAST_H

#include "embed/host_events.h"
#include "record/sampler.h"

/* Nobody but a recording that samples. */
AG_FAST bool ag_host_samples_alone(void) {
    return (allogram_mode_ & (ALLOGRAM_RATED_ | ALLOGRAM_SAMPLES_ | ALLOGRAM_EACH_ |
                              ALLOGRAM_FREES_)) == ALLOGRAM_RATED_;
}

/* Is an allocation of so many bytes to be told (ag_host_alloc, ag_host_realloc_end)? Asked once for
 * each: no means that it has been counted. It may be asked before the block is there. */
AG_FAST bool ag_host_wants_alloc(size_t bytes) {
    if (ag_host_samples_alone() && AG_LIKELY(ag_host_left > bytes)) {
        ag_host_left -= bytes + 1;
        return false;
    }
    return true;
}

/* Is the end of a block (ag_host_free, ag_host_realloc_begin and _failed)? The heap has no late
 * types. */
AG_FAST bool ag_host_wants_free(allogram_heap heap, uint64_t address) {
    return !ag_host_samples_alone() ||
           ag_sampled_may_hold_fast(ag_sampled_key((uintptr_t)address, heap));
}

#endif
