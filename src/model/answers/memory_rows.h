/* memory_rows.h: attributes the memory of a process to malloc, to mappings that the program made,
 * and to the heaps of runtimes, for the heaps view. The total counts each byte once. */
#ifndef AG_MEMORY_ROWS_H
#define AG_MEMORY_ROWS_H

#include "model/profile.h"

struct ag_memory_row {
    /* name of a runtime, or of a heap that belongs to no runtime or contains other heaps */
    const char *name;
    uint64_t time_ns;  /* time of the newest report on a heap of this row; 0: no report */
    bool has_reserved; /* false: the size of the row's memory is unknown */
    bool has_committed, has_free, has_fragmentation;
    uint64_t reserved_bytes, committed_bytes, free_bytes;
    uint64_t of_malloc_bytes; /* the part of committed_bytes that was allocated with malloc */
    /* in the row of malloc: the bytes that the other rows allocated with malloc */
    uint64_t lent_bytes;
    /* committed bytes that are neither in use nor lent: free memory, rounding, headers, tables */
    uint64_t fragmentation_bytes;
    /* metrics.in_use_bytes: sum of the sizes that the program requested */
    struct ag_metrics metrics;
};
/* memory that a runtime allocated with malloc counts once, in malloc's row */
struct ag_memory_total {
    uint64_t reserved_bytes, committed_bytes, fragmentation_bytes;
    struct ag_metrics metrics;
};
/* Returns the rows, sorted by reserved_bytes, largest first; the caller frees *ret_rows. *ret_count
 * is 0 if no runtime reported its memory and the program mapped no memory. Returns 0 or -ENOMEM. */
int ag_memory_rows_make(const struct ag_heap_row *heaps, size_t n_heaps,
                        struct ag_memory_row **ret_rows, size_t *ret_count,
                        struct ag_memory_total *ret_total);
/* Adds MORE, the memory of a heap with the same name in another process, to SUM. */
void ag_heap_memory_add(struct ag_heap_memory *sum, const struct ag_heap_memory *more);

#endif
