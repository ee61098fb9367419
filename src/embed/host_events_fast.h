/* host_events_fast.h: inline checks whether an event has to be reported at all. They are for
 * adapters (the code for one runtime each) whose runtimes allocate as often as C programs call
 * malloc, and for recordings that sample.
 *
 * By default, a sampled recording records about one block per 512 KiB of allocations.
 * ag_host_wants_alloc and ag_host_wants_free check inline whether a block is a sample, as
 * allogram.h does for programs. A block that is not a sample costs a subtraction and a branch, its
 * free costs a load and a compare, and neither event is reported. If the program has a tracker
 * (callbacks for sampled blocks, tracker.h), or every block is recorded, both functions return true
 * and host_events.c decides. */
#ifndef AG_HOST_EVENTS_FAST_H
#define AG_HOST_EVENTS_FAST_H

#include "embed/host_events.h"
#include "record/sampler.h"

/* Whether events are needed only by a recording that samples, and by no tracker. */
AG_FAST bool ag_host_samples_alone(void) {
    return (allogram_mode_ & (ALLOGRAM_RATED_ | ALLOGRAM_SAMPLES_ | ALLOGRAM_EACH_ |
                              ALLOGRAM_FREES_)) == ALLOGRAM_RATED_;
}

/* Whether an allocation of so many bytes is to be reported (by ag_host_alloc or ag_host_realloc_end
 * of host_events.h). Has to be called once for each allocation, because false means that the
 * allocation has been counted. May be called before the block exists. */
AG_FAST bool ag_host_wants_alloc(size_t bytes) {
    if (ag_host_samples_alone() && AG_LIKELY(ag_host_left > bytes)) {
        ag_host_left -= bytes + 1;
        return false;
    }
    return true;
}

/* Whether the end of a block is to be reported (by ag_host_free, ag_host_realloc_begin or
 * ag_host_realloc_failed of host_events.h). Not for heaps with late types (late_types.h). */
AG_FAST bool ag_host_wants_free(allogram_heap heap, uint64_t address) {
    return !ag_host_samples_alone() ||
           ag_sampled_may_hold_fast(ag_sampled_key((uintptr_t)address, heap));
}

#endif
