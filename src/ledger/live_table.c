/* live_table.c: the functions of live_table.h that grow the table.
 *
 * The table grows in place: a table of hundreds of MiB is not written twice, and the kernel has to
 * clear only the new half (clearing pages costs more than moving the blocks). With twice the slots,
 * the home slot h of a block becomes 2h or 2h + 1. So the blocks are moved from the highest slot
 * down: the new slot of each block is after all blocks that have not been moved. The few exceptions
 * (blocks in the chains of the first slots, and blocks that would wrap around the end) are set
 * aside until all other blocks have been moved. */
#include "ledger/live_table.h"

#include <errno.h>
#include <stdlib.h>

#include "table/array.h"
#include "table/table_memory.h"

enum {
    INITIAL_BITS = 10,
    /* slots of a table of 2 MiB; a smaller table is at most 1/4 full, because second
     * probes are mispredicted branches */
    AIRY_SLOTS = 1 << 16,
    /* slots of a table of 64 MiB; a smaller table is at most 1/2 full, for shorter probes */
    SPARSE_SLOTS = 1 << 21,
};

static size_t limit_of(size_t slots) {
    return slots < AIRY_SLOTS ? slots / 4 : slots < SPARSE_SLOTS ? slots / 2 : slots / 4 * 3;
}

int ag_live_table_init(struct ag_live_table *table) {
    const size_t slots = (size_t)1 << INITIAL_BITS;
    struct ag_live_block *blocks = ag_table_memory_new(slots * sizeof(*blocks));
    if (!blocks) {
        return -ENOMEM;
    }
    *table = (struct ag_live_table){
        .blocks = blocks, .mask = slots - 1, .shift = 64 - INITIAL_BITS, .limit = limit_of(slots)};
    return 0;
}

void ag_live_table_done(struct ag_live_table *table) {
    ag_table_memory_free(table->blocks,
                         table->blocks ? (table->mask + 1) * sizeof(*table->blocks) : 0);
    free(table->times_ns);
    free(table->collections);
    *table = (struct ag_live_table){0};
}

int ag_live_table_keep_times(struct ag_live_table *table) {
    if (!table->times_ns) {
        table->times_ns = malloc((table->mask + 1) * sizeof(*table->times_ns));
    }
    return table->times_ns ? 0 : -ENOMEM;
}

int ag_live_table_keep_collections(struct ag_live_table *table) {
    if (table->times_ns && !table->collections) {
        table->collections = calloc(table->mask + 1, sizeof(*table->collections));
        return table->collections ? 0 : -ENOMEM;
    }
    return 0;
}

/* ---- growing ---- */

struct set_aside { /* blocks that must wait until all others have left their old slots */
    struct moved_block {
        struct ag_live_block block;
        struct ag_live_past past;
    } * blocks;
    size_t count;
};

static void put_at(struct ag_live_table *table, uint64_t at, const struct moved_block *moved) {
    table->blocks[at] = moved->block;
    ag_live_table_set_past(table, at, moved->past);
}

static struct moved_block lift(struct ag_live_table *table, uint64_t at) {
    const struct moved_block moved = {.block = table->blocks[at],
                                      .past = ag_live_table_past(table, at)};
    table->blocks[at].address = 0;
    return moved;
}

/* Moves the block of slot FROM, the highest block that has not been moved, to its new slot after
 * FROM. Sets the block aside if this slot is not after FROM or wraps around the end. */
static int table_move(struct ag_live_table *table, uint64_t from, struct set_aside *aside) {
    const struct moved_block moved = lift(table, from);
    uint64_t at = ag_live_table_home(table, moved.block.address);
    if (at <= from) {
        return AG_ARRAY_ADD(aside->blocks, aside->count, moved);
    }
    while (at <= table->mask && table->blocks[at].address != 0) {
        at++;
    }
    if (at > table->mask) {
        return AG_ARRAY_ADD(aside->blocks, aside->count, moved);
    }
    put_at(table, at, &moved);
    return 0;
}

static int widen(struct ag_live_table *table) {
    const size_t slots = table->mask + 1;
    if (table->times_ns) {
        uint64_t *times_ns = realloc(table->times_ns, slots * 2 * sizeof(*times_ns));
        if (!times_ns) {
            return -ENOMEM;
        }
        table->times_ns = times_ns;
    }
    if (table->collections) {
        struct ag_live_collections *collections =
            realloc(table->collections, slots * 2 * sizeof(*collections));
        if (!collections) {
            return -ENOMEM;
        }
        table->collections = collections;
    }
    const size_t block_bytes = sizeof(*table->blocks);
    struct ag_live_block *blocks =
        ag_table_memory_grow(table->blocks, slots * block_bytes, slots * 2 * block_bytes);
    if (!blocks) {
        return -ENOMEM;
    }
    table->blocks = blocks;
    table->mask = slots * 2 - 1;
    table->shift--;
    table->limit = limit_of(slots * 2);
    return 0;
}

int ag_live_table_grow(struct ag_live_table *table) {
    struct set_aside aside = {0};
    uint64_t from = table->mask + 1;
    int r = widen(table);
    while (from-- > 0 && r == 0) {
        r = table->blocks[from].address ? table_move(table, from, &aside) : 0;
    }
    for (size_t i = 0; i < aside.count && r == 0; i++) {
        put_at(table, ag_live_table_seek(table, aside.blocks[i].block.address), &aside.blocks[i]);
    }
    free(aside.blocks);
    return r;
}
