/* collections.h: what collectors did: each collection, and its cause. */
#ifndef AG_COLLECTIONS_H
#define AG_COLLECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/records.h"

struct ag_profile;

struct ag_collection_row {
    const char *runtime, *kind;
    const char *process; /* the runtime's process that owned the heap; NULL: a heap of all */
    uint64_t start_ns;   /* since the start of the recording */
    uint64_t pause_ns, heap_before_bytes, heap_after_bytes, needed_bytes;
    uint32_t known;           /* flags of enum ag_gc_known: which of these numbers count */
    uint32_t cause_frame;     /* the innermost managed function of the stack that caused it, or the
                               * innermost native one if there is none; UINT32_MAX: unknown */
    uint64_t allocated_bytes; /* since the previous collection */
    uint64_t weight_bytes;    /* allocated bytes that it stands for */
    uint64_t promoted_bytes;
};
struct ag_collection_sum {         /* of a runtime, of a cause, or of a process of a runtime */
    const char *runtime;           /* of a cause: that of its function, NULL if unknown */
    uint32_t cause_frame;          /* of a process: of its longest collection */
    uint64_t collections, unended; /* unended: of these, those whose end is not known */
    uint64_t pause_total_ns, pause_max_ns;
    uint64_t needed_bytes, reclaimed_bytes; /* of those that report it */
    const char *process;                    /* NULL: it is no sum of a process */
    uint64_t promoted_bytes;                /* of those that report it */
    bool has_promoted;                      /* any of them does */
    uint64_t allocated_bytes;               /* of those that report it: of all that they
                                             * stand for */
};
struct ag_collections {
    struct ag_collection_row *rows;              /* in order of time */
    struct ag_collection_sum *runtimes, *causes; /* by name, and by function */
    struct ag_collection_sum *processes;         /* by name; of heaps that are everybody's none */
    size_t n_rows, n_runtimes, n_causes, n_processes;
};
/* Valid until the profile is closed. 0 or -ENOMEM. */
int ag_profile_collections(struct ag_profile *profile,
                           const struct ag_collections **ret_collections);

/* The bytes freed: 0 if the heap grew, or its sizes are unknown. */
static inline uint64_t ag_collection_reclaimed(const struct ag_collection_row *row) {
    const bool is_known = row->known & AG_GC_KNOWN_HEAP;
    return is_known && row->heap_before_bytes > row->heap_after_bytes
               ? row->heap_before_bytes - row->heap_after_bytes
               : 0;
}

#endif
