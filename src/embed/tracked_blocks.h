/* tracked_blocks.h: blocks that something is kept for, by address: a tracker's value, or where a
 * block without a type was allocated. All under a lock of the caller's, but for
 * ag_tracked_may_have. */
#ifndef AG_TRACKED_BLOCKS_H
#define AG_TRACKED_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum {
    AG_TRACKED_BITS = 16, /* 256 KiB of lists, touched as they are used */
    AG_TRACKED_PAGE = 4096,
    AG_TRACKED_PAGES = 4096, /* 16 million blocks */
};
enum ag_tracked_state {
    AG_TRACKED_RUNNING = 1, /* its alloc callback has not returned yet */
    AG_TRACKED_KEPT = 2,    /* value is what it returned */
    AG_TRACKED_DEAD = 3,    /* KEPT, and it died: somebody is still to be told */
};
struct ag_tracked { /* 56 bytes */
    uint64_t key;   /* space << 48 | address */
    union {
        void *value;
        struct { /* late_types.c, which uses nothing below but next */
            uint64_t bytes, interval_bytes;
            uint32_t stack, recording;
        } born;
    };
    uint32_t next;           /* in its list, or in that of free places; 0: the end */
    uint32_t state, tracker; /* enum ag_tracked_state; number of the tracker */
    uint32_t owner;    /* RUNNING: tid of the thread whose callback it is; queued: who comes next */
    bool is_freed;     /* RUNNING: the block has died meanwhile */
    bool is_discarded; /* RUNNING, queued: and nobody wants to know any more */
    bool is_queued;    /* KEPT, DEAD: there is something to tell of it */
    bool is_complete;  /* queued: that it is whole */
};
struct ag_tracked_blocks { /* zero-initialised */
    _Atomic uint32_t heads[1 << AG_TRACKED_BITS];
    struct ag_tracked *pages[AG_TRACKED_PAGES];
    uint32_t n_places, first_free, count;
};

AG_FAST uint32_t ag_tracked_list(uint64_t key) {
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - AG_TRACKED_BITS));
}

/* False: the block is not there, which costs one load. From any thread. A block that this thread
 * (or one that handed it over) had put there is seen. */
AG_FAST bool ag_tracked_may_have(const struct ag_tracked_blocks *blocks, uint64_t key) {
    return atomic_load_explicit(&blocks->heads[ag_tracked_list(key)], memory_order_relaxed) != 0;
}

/* Places are numbers from 1; 0: none (insert: no memory). Blocks that were freed while their
 * callback runs are not found: their address may be another block's. */
uint32_t ag_tracked_find(const struct ag_tracked_blocks *blocks, uint64_t key);
uint32_t ag_tracked_insert(struct ag_tracked_blocks *blocks, uint64_t key);
/* The same block under another key, which nothing has. */
void ag_tracked_rename(struct ag_tracked_blocks *blocks, uint32_t place, uint64_t key);
void ag_tracked_remove(struct ag_tracked_blocks *blocks, uint32_t place);
struct ag_tracked *ag_tracked_at(const struct ag_tracked_blocks *blocks, uint32_t place);

#endif
