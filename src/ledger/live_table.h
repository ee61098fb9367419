/* live_table.h: maps an address to the live block at this address. The ledger accesses the table at
 * every event. (The ledger computes the live blocks and the sums of each stack from the events; a
 * stream is the events of one thread.)
 *
 * Open addressing, linear probing, 32 bytes per slot: a cache line contains two whole slots. The
 * table is at most 1/4 full; from 2 MiB on, at most 1/2; from 64 MiB on, at most 3/4. A removal
 * shifts the following blocks back, so there are no tombstones and a long trace does not slow down.
 * The home slot is the high bits of the hash, so growing keeps the order of slots: the table is
 * read and written sequentially, from its end.
 *
 * Address 0 means an empty slot: no block has the address 0. */
#ifndef AG_LIVE_TABLE_H
#define AG_LIVE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/keyed_hash.h"

struct ag_live_block {
    uint64_t address; /* 0: empty slot */
    uint64_t size;    /* bytes that the program requested */
    uint64_t serial;  /* number of blocks that its stream had allocated, this block included */
    uint32_t sum;     /* index in ag_ledger.sums, for the block's stack and allocation function */
    uint32_t stream;  /* index of the stream that allocated it */
};
_Static_assert(sizeof(struct ag_live_block) == 32, "two blocks have one cache line");
struct ag_live_collections { /* how often a garbage collector moved and promoted a block */
    uint32_t n_moves, n_promotions;
};
struct ag_live_past { /* data of a block that the sums do not need */
    uint64_t born_ns; /* time of the allocation since the recording began */
    struct ag_live_collections collections;
};

struct ag_live_table {
    struct ag_live_block *blocks;
    /* Arrays parallel to `blocks`. NULL: not requested; `collections` is also NULL until the first
     * move or promotion. */
    uint64_t *times_ns;
    struct ag_live_collections *collections;
    uint64_t mask;
    uint32_t shift;
    size_t count, limit; /* the table grows as soon as count > limit */
};

int ag_live_table_init(struct ag_live_table *table);
void ag_live_table_done(struct ag_live_table *table);
int ag_live_table_keep_times(struct ag_live_table *table); /* before the first block */
/* Keeps `collections` from now on, if times are kept. To be called before each move and promotion.
 * 0 or -ENOMEM. */
int ag_live_table_keep_collections(struct ag_live_table *table);
/* Doubles the table. Returns 0 or -ENOMEM; after -ENOMEM the table may only be freed. */
int ag_live_table_grow(struct ag_live_table *table);

AG_FAST uint64_t ag_live_table_home(const struct ag_live_table *table, uint64_t address) {
    return ag_keyed_product(address) >> table->shift;
}

/* Returns the slot of ADDRESS, or the empty slot where it belongs. */
AG_FAST uint64_t ag_live_table_seek(const struct ag_live_table *table, uint64_t address) {
    uint64_t at = ag_live_table_home(table, address);
    while (table->blocks[at].address != address && table->blocks[at].address != 0) {
        at = (at + 1) & table->mask;
    }
    return at;
}

/* Returns the data of the block in slot AT; zeros if that data is not kept. */
AG_FAST struct ag_live_past ag_live_table_past(const struct ag_live_table *table, uint64_t at) {
    return (struct ag_live_past){.born_ns = table->times_ns ? table->times_ns[at] : 0,
                                 .collections = table->collections
                                                    ? table->collections[at]
                                                    : (struct ag_live_collections){0}};
}

AG_FAST void ag_live_table_set_past(struct ag_live_table *table, uint64_t at,
                                    struct ag_live_past past) {
    if (table->times_ns) {
        table->times_ns[at] = past.born_ns;
        if (AG_UNLIKELY(table->collections != NULL)) {
            table->collections[at] = past.collections;
        }
    }
}

/* Empties slot AT and shifts back the blocks that it had displaced. */
AG_FAST void ag_live_table_remove(struct ag_live_table *table, uint64_t at) {
    uint64_t hole = at;
    for (uint64_t next = (at + 1) & table->mask; table->blocks[next].address;
         next = (next + 1) & table->mask) {
        const uint64_t home = ag_live_table_home(table, table->blocks[next].address);
        if (((next - home) & table->mask) >= ((next - hole) & table->mask)) {
            table->blocks[hole] = table->blocks[next];
            ag_live_table_set_past(table, hole, ag_live_table_past(table, next));
            hole = next;
        }
    }
    table->blocks[hole].address = 0;
    table->count--;
}

#endif
