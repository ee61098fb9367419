/* history.h: computes what each group of an outline allocated and freed in each slice of the
 * recording's time, and the sizes and lifetimes of the blocks that were allocated in the slice. An
 * outline is a shortened call tree; a group contains the stacks of one of its nodes (see
 * outline.h). ag_history_make makes one pass over the events. For a merged profile it makes one
 * pass over the events of each process, and the slices divide the time from the start of the first
 * process to the end of the last.
 *
 * Slices have equal length. The exact time of an event is unknown, because a trace contains stamps
 * (times) only between some events of a thread. An event belongs to the slice that contains the
 * stamp before it. */
#ifndef AG_HISTORY_H
#define AG_HISTORY_H

#include "model/answers/outline.h"

enum {
    /* Sizes and lifetimes are classified by powers of two: order i contains the values from 2^i to
     * 2^(i+1) - 1 bytes or nanoseconds; order 0 also contains the value 0. */
    AG_HISTORY_ORDERS = 64,
    /* the most rows for threads; if there are more threads, the last row is for all others */
    AG_HISTORY_THREADS = 256,
    AG_HISTORY_PAIRS = 100000, /* the most entries of `pairs`; later pairs are not counted */
};

struct ag_history_slice {
    uint64_t end_ns; /* time since the start of the recording */
    uint64_t peak_bytes, peak_blocks, peak_time_ns;
    uint64_t in_use_bytes, in_use_blocks; /* at the end of the slice */
    uint64_t allocated_bytes;             /* during the slice */
};
/* The changes of one group's sums in one slice. A change may be negative if the ledger (the code
 * that computes sums from the events) later corrects the order of events of an earlier slice. */
struct ag_history_entry {
    uint32_t group;
    int64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, temporary_blocks;
    /* change of what the group has in use, from the start of the slice to the slice's peak */
    int64_t rise_blocks, rise_bytes;
};
/* What one process of a merged profile had in use in each slice in which it lived. */
struct ag_history_process {
    size_t first_slice, end_slice;         /* it lived from first_slice to end_slice - 1 */
    const struct ag_history_slice *slices; /* index: slice - first_slice */
};
/* Returns 0; or a negative errno, which ag_history_make returns after its pass, without further
 * visits. */
typedef int ag_history_visit(void *context, size_t slice, const struct ag_history_entry *entries,
                             size_t count);

struct ag_history_count {
    uint64_t blocks, bytes;
};
struct ag_history_thread {
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
};
struct ag_history_pair { /* blocks that freed_by freed in the slice, and that another thread,
                          * allocated_by, had allocated */
    /* allocated_by, freed_by: numbers of threads, as in `threads` */
    uint32_t slice, allocated_by, freed_by;
    uint64_t blocks, bytes;
};
struct ag_history_leak { /* blocks allocated in the slice and never freed */
    uint32_t slice, group;
    uint64_t blocks, bytes;
};
/* numbers of blocks by order; sizes and lifetimes are adjacent because each freed block is counted
 * in both */
struct ag_history_orders {
    uint64_t sizes[AG_HISTORY_ORDERS], lifetimes[AG_HISTORY_ORDERS];
};
struct ag_history {
    size_t n_slices, n_groups;
    uint64_t slice_ns;
    /* Of a merged profile: the sums over the processes that live; the peak is the highest point of
     * the profile's timeline in the slice, because the time of a process' events is not known
     * exactly enough to add up the processes between two points. */
    struct ag_history_slice *slices;
    struct ag_history_process *processes;  /* NULL: the profile is not merged */
    struct ag_history_slice *of_processes; /* the memory of processes[i].slices */
    size_t n_processes;
    /* index: slice of the allocation * AG_HISTORY_ORDERS + order; `lifetimes` counts only freed
     * blocks */
    struct ag_history_count *sizes, *lifetimes;
    struct ag_history_orders *groups;  /* by group */
    struct ag_history_thread *threads; /* index: slice * n_threads + thread */
    /* by thread: its row in ag_profile_threads (model/profile.h); threads are sorted by allocated
     * bytes, largest first */
    uint32_t *thread_rows;
    size_t n_threads; /* includes the row for all other threads, if has_other_threads */
    bool has_other_threads;
    struct ag_history_pair *pairs;
    struct ag_history_leak *leaks; /* sorted by slice, then by group */
    size_t n_pairs, n_leaks;
};

/* Calls VISIT for each slice in the order of time, with its entries sorted by group; for a merged
 * profile first for the slices of the first process, then for those of the second, and so on. 0 or
 * a negative errno; in either case the caller calls ag_history_done. */
int ag_history_make(struct ag_profile *profile, const struct ag_outline *outline, size_t n_slices,
                    ag_history_visit *visit, void *context, struct ag_history *ret_history);
void ag_history_done(struct ag_history *history);

#endif
