/* collections.h: the garbage collections of a trace: each collection with its cause, and sums of
 * collections. */
#ifndef AG_COLLECTIONS_H
#define AG_COLLECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/records.h"

struct ag_profile;

struct ag_collection_row {
    const char *runtime, *kind;
    /* the process of the runtime (such as an Erlang process) that owns the heap; NULL: the heap
     * belongs to the whole runtime */
    const char *process;
    uint64_t start_ns; /* time since the start of the recording */
    uint64_t pause_ns, heap_before_bytes, heap_after_bytes, needed_bytes;
    uint32_t known;           /* flags of enum ag_gc_known: which of the numbers of this struct are
                               * valid */
    uint32_t cause_frame;     /* frame of the innermost managed function (a function of a virtual
                               * machine) of the stack that caused the collection; of the innermost
                               * native function if no function is managed; UINT32_MAX: unknown */
    uint64_t allocated_bytes; /* allocated since the previous collection */
    uint64_t weight_bytes;    /* if only some collections are recorded: the allocated bytes that
                               * this collection represents */
    uint64_t promoted_bytes;
    uint32_t thread_id;
    /* The collection ran within another collection of the same thread and runtime, such as a slice
     * within a cycle that is recorded, too. The pause of the outer collection includes that of the
     * nested one. */
    bool is_nested;
    /* The bytes that the collection freed. Promoted blocks left the collected generation, but live
     * on, so they do not count. The bytes of a nested collection count once, in the outer one. 0 if
     * the sizes of the heap are not known, or if the heap grew. */
    uint64_t reclaimed_bytes;
};
/* the sum of the collections of a runtime, of a cause, or of a process of a runtime */
struct ag_collection_sum {
    const char *runtime;           /* of a cause: the runtime of its function, NULL if unknown */
    uint32_t cause_frame;          /* of a process: the cause of its longest collection */
    uint64_t collections, unended; /* unended: the number of collections without a known end */
    uint64_t pause_total_ns, pause_max_ns; /* pause_total_ns: without nested collections */
    /* start of the newest collection that was not a minor one (a minor collection examines only new
     * blocks), since the start of the recording; 0: there was none */
    uint64_t last_ns;
    uint64_t needed_bytes, reclaimed_bytes; /* sums over the collections whose `known` has these
                                             * numbers */
    const char *process;                    /* NULL: the sum is not of a process */
    /* sum over the collections that report promoted_bytes */
    uint64_t promoted_bytes;
    bool has_promoted; /* whether any collection reports promoted_bytes */
    /* sum of weight_bytes, over the collections that report it */
    uint64_t allocated_bytes;
};
struct ag_collections {
    struct ag_collection_row *rows; /* sorted by start_ns */
    /* one sum for each name of a runtime; one for each function that is a cause */
    struct ag_collection_sum *runtimes, *causes;
    /* one sum for each name of a process; without the collections of heaps that belong to no
     * process */
    struct ag_collection_sum *processes;
    size_t n_rows, n_runtimes, n_causes, n_processes;
};
/* Valid until the profile is closed. 0 or -ENOMEM. */
int ag_profile_collections(struct ag_profile *profile,
                           const struct ag_collections **ret_collections);

/* Whether a garbage collector frees the blocks of rows[ROW] of ag_profile_stacks (model/profile.h).
 * Such blocks that are in use at the end may be garbage that was not collected before the end. */
bool ag_profile_row_is_collected(const struct ag_profile *profile, size_t row);

#endif
