/* memory_rows.h: which parts hold the process' memory: malloc, what the program mapped, and the
 * heaps of runtimes, each once. */
#ifndef AG_MEMORY_ROWS_H
#define AG_MEMORY_ROWS_H

#include "model/profile.h"

struct ag_memory_row {
    const char *name;  /* of a runtime; of a heap that belongs to none, or contains others */
    uint64_t time_ns;  /* when the last of its heaps was counted; 0: none was */
    bool has_reserved; /* else nothing is known of the addresses */
    bool has_committed, has_free, has_fragmentation;
    uint64_t reserved_bytes, committed_bytes, free_bytes;
    uint64_t of_malloc_bytes;     /* of what is committed: taken from malloc */
    uint64_t lent_bytes;          /* of malloc: what the others took */
    uint64_t fragmentation_bytes; /* committed, neither in use nor lent: free memory, rounding,
                                     headers, tables */
    struct ag_metrics metrics;    /* in use: what its blocks were asked for */
};
struct ag_memory_total { /* what lies in malloc's memory counts there */
    uint64_t reserved_bytes, committed_bytes, fragmentation_bytes;
    struct ag_metrics metrics;
};
/* Caller frees *ret_rows; those that reserve most come first. *ret_count is 0 if no heap was ever
 * counted or mapped. Returns 0 or -ENOMEM. */
int ag_memory_rows_make(const struct ag_heap_row *heaps, size_t n_heaps,
                        struct ag_memory_row **ret_rows, size_t *ret_count,
                        struct ag_memory_total *ret_total);
/* Adds what another process' heap of this name holds. */
void ag_heap_memory_add(struct ag_heap_memory *sum, const struct ag_heap_memory *more);

#endif
