/* history.h: what each group of an outline did in each slice of the recording, and the sizes and
 * lifetimes of the blocks that began in it. One pass over the events.
 *
 * Slices have equal length; an event belongs to the slice in which its window (the events of one
 * thread between two stamps) began, as in every time window of the model. */
#ifndef AG_HISTORY_H
#define AG_HISTORY_H

#include "model/answers/outline.h"

enum {
    AG_HISTORY_ORDERS = 64,    /* powers of two, of bytes or nanoseconds: [2^i, 2^(i+1)); 0 is in
                                  the first */
    AG_HISTORY_THREADS = 256,  /* threads with rows of their own; the last one is all others */
    AG_HISTORY_PAIRS = 100000, /* (slice, thread, thread) kept; what comes later is not */
};

struct ag_history_slice {
    uint64_t end_ns; /* since the start of the recording */
    uint64_t peak_bytes, peak_blocks, peak_time_ns;
    uint64_t in_use_bytes, in_use_blocks; /* at its end */
    uint64_t allocated_bytes;             /* in it */
};
/* What one group did in one slice. Changes may be negative where a repair changed the order of
 * events. */
struct ag_history_entry {
    uint32_t group;
    int64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, temporary_blocks;
    int64_t rise_blocks, rise_bytes; /* in use: from the slice's start to its highest moment */
};
typedef int ag_history_visit(void *context, size_t slice, const struct ag_history_entry *entries,
                             size_t count); /* returns 0, or a negative errno that ends the pass */

struct ag_history_count {
    uint64_t blocks, bytes;
};
struct ag_history_thread {
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
};
struct ag_history_pair {                    /* freed in the slice */
    uint32_t slice, allocated_by, freed_by; /* threads of the history */
    uint64_t blocks, bytes;
};
struct ag_history_leak { /* allocated in the slice, never freed */
    uint32_t slice, group;
    uint64_t blocks, bytes;
};
struct ag_history_orders { /* blocks by order; side by side: a block counts in both */
    uint64_t sizes[AG_HISTORY_ORDERS], lifetimes[AG_HISTORY_ORDERS];
};
struct ag_history {
    size_t n_slices, n_groups;
    uint64_t slice_ns;
    struct ag_history_slice *slices;
    /* by slice of the allocation * AG_HISTORY_ORDERS + order; lifetimes: of blocks that ended */
    struct ag_history_count *sizes, *lifetimes;
    struct ag_history_orders *groups;  /* by group */
    struct ag_history_thread *threads; /* by slice * n_threads + thread */
    uint32_t *thread_rows;             /* rows of ag_profile_threads, the greatest allocators */
    size_t n_threads;                  /* with the one for all others, if there are more */
    bool has_other_threads;
    struct ag_history_pair *pairs;
    struct ag_history_leak *leaks; /* by slice, then group */
    size_t n_pairs, n_leaks;
};

/* VISIT is called for each slice in turn, entries by rising group. 0 or a negative errno; the
 * caller ends it with ag_history_done in any case. */
int ag_history_make(struct ag_profile *profile, const struct ag_outline *outline, size_t n_slices,
                    ag_history_visit *visit, void *context, struct ag_history *ret_history);
void ag_history_done(struct ag_history *history);

#endif
