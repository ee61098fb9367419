/* index_map.h: maps sparse 64-bit keys to dense 32-bit indexes; it grows and never removes a key.
 *
 * Open addressing with linear probing at a load of at most 1/2; a slot is 16 bytes, so a lookup
 * takes one cache line. Keys come from outside (stack ids, stream numbers): any value is allowed,
 * and memory is proportional to the number of different keys. */
#ifndef AG_INDEX_MAP_H
#define AG_INDEX_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/keyed_hash.h"

#define AG_INDEX_NONE UINT32_MAX

struct ag_index_slot {
    uint64_t key;
    uint32_t value_plus_1; /* 0: the slot is empty */
    uint32_t reserved;
};
struct ag_index_map { /* zero-initialise, then ag_index_map_init */
    struct ag_index_slot *slots;
    uint64_t mask;
    uint32_t shift;
    size_t count;
};

int ag_index_map_init(struct ag_index_map *map);
void ag_index_map_done(struct ag_index_map *map);
/* KEY must not be in the map. Returns 0 or -ENOMEM. */
int ag_index_map_insert(struct ag_index_map *map, uint64_t key, uint32_t value);

AG_FAST const struct ag_index_slot *ag_index_map_home(const struct ag_index_map *map,
                                                      uint64_t key) {
    return &map->slots[ag_keyed_hash(key) >> map->shift];
}

AG_FAST uint32_t ag_index_map_find(const struct ag_index_map *map, uint64_t key) {
    const struct ag_index_slot *slot = ag_index_map_home(map, key);
    while (slot->value_plus_1) {
        if (AG_LIKELY(slot->key == key)) {
            return slot->value_plus_1 - 1;
        }
        slot = &map->slots[((uint64_t)(slot - map->slots) + 1) & map->mask];
    }
    return AG_INDEX_NONE;
}

#endif
