/* index_map.c: the functions of index_map.h that grow the table. */
#include "ledger/index_map.h"

#include <errno.h>

#include "ledger/table_memory.h"

enum { INITIAL_BITS = 6 };

void ag_index_map_done(struct ag_index_map *map) {
    ag_table_memory_free(map->slots, map->slots ? (map->mask + 1) * sizeof(*map->slots) : 0);
    *map = (struct ag_index_map){0};
}

static int resize(struct ag_index_map *map, uint32_t bits) {
    struct ag_index_slot *slots = ag_table_memory_new(sizeof(*slots) << bits);
    if (!slots) {
        return -ENOMEM;
    }
    struct ag_index_map grown = {
        .slots = slots, .mask = ((uint64_t)1 << bits) - 1, .shift = 64 - bits, .count = map->count};
    for (size_t i = 0; map->slots && i <= map->mask; i++) {
        if (map->slots[i].value_plus_1) {
            uint64_t at = (uint64_t)(ag_index_map_home(&grown, map->slots[i].key) - slots);
            while (slots[at].value_plus_1) {
                at = (at + 1) & grown.mask;
            }
            slots[at] = map->slots[i];
        }
    }
    ag_index_map_done(map);
    *map = grown;
    return 0;
}

int ag_index_map_init(struct ag_index_map *map) {
    return resize(map, INITIAL_BITS);
}

int ag_index_map_insert(struct ag_index_map *map, uint64_t key, uint32_t value) {
    if ((map->count + 1) * 2 > map->mask) {
        const int r = resize(map, 64 - map->shift + 1);
        if (r < 0) {
            return r;
        }
    }
    uint64_t at = (uint64_t)(ag_index_map_home(map, key) - map->slots);
    while (map->slots[at].value_plus_1) {
        at = (at + 1) & map->mask;
    }
    map->slots[at] = (struct ag_index_slot){.key = key, .value_plus_1 = value + 1};
    map->count++;
    return 0;
}
