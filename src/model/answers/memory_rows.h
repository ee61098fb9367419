/* memory_rows.h: who holds the process' memory, in one picture: malloc, what the program mapped,
 * and the heaps of runtimes, each once. */
#ifndef AG_MEMORY_ROWS_H
#define AG_MEMORY_ROWS_H

#include "model/profile.h"

struct ag_memory_row {
    const char *name;  /* of a runtime; of a heap that is none's, or holds others */
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
/* Caller frees *ret_rows; those that reserve most come first. Nothing where no heap was ever
 * counted or mapped: *ret_count 0. 0 or -ENOMEM. */
int ag_memory_rows_make(const struct ag_heap_row *heaps, size_t n_heaps,
                        struct ag_memory_row **ret_rows, size_t *ret_count,
                        struct ag_memory_total *ret_total);
/* What another process' heap of this name holds besides. */
void ag_heap_memory_add(struct ag_heap_memory *sum, const struct ag_heap_memory *more);

#endif
