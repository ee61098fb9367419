/* pointer_map.c: maps 64-bit keys to pointers, see pointer_map.h. */
#include "table/pointer_map.h"

#include <errno.h>

static struct ag_index_slot *slot_of(const struct ag_index_map *map, uint64_t key) {
    const struct ag_index_slot *slot = ag_index_map_slot(map, ag_index_map_home(map, key), key);
    return slot ? &map->slots[slot - map->slots] : NULL;
}

void *ag_pointer_map_find(const struct ag_pointer_map *map, uint64_t key) {
    const struct ag_index_slot *slot = slot_of(&map->map, key);
    return slot ? (void *)(uintptr_t)slot->value : NULL;
}

int ag_pointer_map_put(struct ag_pointer_map *map, uint64_t key, void *value) {
    struct ag_index_slot *slot = slot_of(&map->map, key);
    slot = slot ? slot : ag_index_map_place(&map->map, key);
    if (!slot) {
        return -ENOMEM;
    }
    slot->value = (uintptr_t)value;
    return 0;
}

void ag_pointer_map_done(struct ag_pointer_map *map, void (*destroy)(void *value)) {
    for (size_t i = 0; destroy && map->map.slots && i <= map->map.mask; i++) {
        if (map->map.slots[i].value) {
            destroy((void *)(uintptr_t)map->map.slots[i].value);
        }
    }
    ag_index_map_done(&map->map);
}
