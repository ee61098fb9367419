/* tracked_blocks.h: data kept for blocks, by address: a tracker's value (tracker.h), or the stack
 * of a block without a type. The caller holds a lock, except for ag_tracked_may_have. */
#ifndef AG_TRACKED_BLOCKS_H
#define AG_TRACKED_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum {
    /* log2 of the number of hash lists. The array `heads` has 256 KiB, of which only the pages that
     * are used get memory. */
    AG_TRACKED_BITS = 16,
    AG_TRACKED_PAGE = 4096,  /* entries per page */
    AG_TRACKED_PAGES = 4096, /* most pages: 16 million entries */
};
enum ag_tracked_state {
    AG_TRACKED_RUNNING = 1, /* the block's alloc callback has not returned yet */
    AG_TRACKED_KEPT = 2,    /* the alloc callback returned `value` */
    AG_TRACKED_DEAD = 3,    /* the block was KEPT and then freed: the callback on_free is due */
};
struct ag_tracked { /* 56 bytes; a comment "RUNNING: ..." describes the member in this state */
    uint64_t key;   /* AG_VIA_SPACE(heap) << 48 | address */
    union {
        void *value;
        struct { /* used by late_types.c, which uses none of the following members except next */
            uint64_t bytes, interval_bytes;
            uint32_t stack, recording;
        } born;
    };
    /* place (number, from 1) of the next entry in the hash list, or in the list of free entries; 0:
     * none */
    uint32_t next;
    uint32_t state, tracker; /* enum ag_tracked_state; number of the tracker */
    /* RUNNING: tid of the thread that runs the callback; is_queued: place of the next entry in the
     * queue */
    uint32_t owner;
    bool is_freed;     /* RUNNING: the block was freed while its callback runs */
    bool is_discarded; /* RUNNING or is_queued: the tracker was discarded, so no other callback
                        * may run */
    bool is_queued;    /* KEPT, DEAD: the entry is in the queue of due callbacks */
    bool is_complete;  /* if is_queued is set: the callback on_complete is due */
};
struct ag_tracked_blocks { /* zero-initialized */
    _Atomic uint32_t heads[1 << AG_TRACKED_BITS];
    struct ag_tracked *pages[AG_TRACKED_PAGES];
    /* n_places: number of entries that were ever used; first_free: place of the first entry in the
     * list of free entries, 0: none; count: number of blocks in the table */
    uint32_t n_places, first_free, count;
};

AG_FAST uint32_t ag_tracked_list(uint64_t key) {
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - AG_TRACKED_BITS));
}

/* Returns false if the block is certainly not in the table, and true if it may be in the table.
 * Costs one load; may be called by any thread. The result is true for each block of the table that
 * was inserted by this thread, or by the thread that passed the block to this thread. */
AG_FAST bool ag_tracked_may_have(const struct ag_tracked_blocks *blocks, uint64_t key) {
    return atomic_load_explicit(&blocks->heads[ag_tracked_list(key)], memory_order_relaxed) != 0;
}

/* A place is the number of an entry, from 1. ag_tracked_find returns 0 if the block is not in the
 * table; ag_tracked_insert returns 0 if there is no memory or no free entry. A block that was freed
 * while its callback runs is not found, because its address may belong to another block. */
uint32_t ag_tracked_find(const struct ag_tracked_blocks *blocks, uint64_t key);
uint32_t ag_tracked_insert(struct ag_tracked_blocks *blocks, uint64_t key);
/* Gives the block another key, which no other block has. */
void ag_tracked_rename(struct ag_tracked_blocks *blocks, uint32_t place, uint64_t key);
void ag_tracked_remove(struct ag_tracked_blocks *blocks, uint32_t place);
struct ag_tracked *ag_tracked_at(const struct ag_tracked_blocks *blocks, uint32_t place);

#endif
