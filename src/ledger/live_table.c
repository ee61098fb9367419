/* live_table.c: the growing half of live_table.h. */
#include "ledger/live_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ledger/table_memory.h"

enum {
    INITIAL_BITS = 10,
    SPARSE_SLOTS = 1 << 21, /* 64 MiB: below, memory is given for shorter probes */
};

static int allocate(struct ag_live_table *table, uint32_t bits, bool with_times) {
    const size_t slots = (size_t)1 << bits;
    struct ag_live_block *blocks = ag_table_memory_new(slots * sizeof(*blocks));
    uint64_t *times_ns = with_times ? malloc(slots * sizeof(*times_ns)) : NULL;
    if (!blocks || (with_times && !times_ns)) {
        ag_table_memory_free(blocks, slots * sizeof(*blocks));
        free(times_ns);
        return -ENOMEM;
    }
    *table = (struct ag_live_table){.blocks = blocks,
                                    .times_ns = times_ns,
                                    .mask = slots - 1,
                                    .shift = 64 - bits,
                                    .limit = slots < SPARSE_SLOTS ? slots / 2 : slots / 4 * 3};
    return 0;
}

int ag_live_table_init(struct ag_live_table *table) {
    return allocate(table, INITIAL_BITS, /* with_times= */ false);
}

void ag_live_table_done(struct ag_live_table *table) {
    ag_table_memory_free(table->blocks,
                         table->blocks ? (table->mask + 1) * sizeof(*table->blocks) : 0);
    free(table->times_ns);
    *table = (struct ag_live_table){0};
}

int ag_live_table_keep_times(struct ag_live_table *table) {
    if (!table->times_ns) {
        table->times_ns = malloc((table->mask + 1) * sizeof(*table->times_ns));
    }
    return table->times_ns ? 0 : -ENOMEM;
}

int ag_live_table_grow(struct ag_live_table *table) {
    struct ag_live_table grown;
    const int r = allocate(&grown, 64 - table->shift + 1, table->times_ns != NULL);
    if (r < 0) {
        return r;
    }
    for (uint64_t i = 0; i <= table->mask; i++) {
        if (table->blocks[i].address) {
            const uint64_t at = ag_live_table_seek(&grown, table->blocks[i].address);
            grown.blocks[at] = table->blocks[i];
            if (grown.times_ns) {
                grown.times_ns[at] = table->times_ns[i];
            }
        }
    }
    grown.count = table->count;
    ag_live_table_done(table);
    *table = grown;
    return 0;
}
