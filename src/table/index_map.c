/* index_map.c: the functions of index_map.h that change the table. */
#include "table/index_map.h"

#include <errno.h>

#include "table/table_memory.h"

enum { INITIAL_BITS = 6 };

void ag_index_map_done(struct ag_index_map *map) {
    ag_table_memory_free(map->slots, map->slots ? (map->mask + 1) * sizeof(*map->slots) : 0);
    *map = (struct ag_index_map){0};
}

static struct ag_index_slot *free_slot(const struct ag_index_map *map, uint64_t key) {
    const struct ag_index_slot *slot = ag_index_map_home(map, key);
    while (slot->value) {
        slot = ag_index_map_after(map, slot);
    }
    return &map->slots[slot - map->slots];
}

static int index_map_grow(struct ag_index_map *map) {
    const uint32_t bits = map->slots ? 64 - map->shift + 1 : INITIAL_BITS;
    struct ag_index_map grown = {.slots = ag_table_memory_new(sizeof(*grown.slots) << bits),
                                 .mask = ((uint64_t)1 << bits) - 1,
                                 .shift = 64 - bits,
                                 .count = map->count};
    if (!grown.slots) {
        return -ENOMEM;
    }
    for (size_t i = 0; map->slots && i <= map->mask; i++) {
        if (map->slots[i].value) {
            *free_slot(&grown, map->slots[i].key) = map->slots[i];
        }
    }
    ag_index_map_done(map);
    *map = grown;
    return 0;
}

struct ag_index_slot *ag_index_map_place(struct ag_index_map *map, uint64_t key) {
    if ((map->count + 1) * 2 > map->mask && index_map_grow(map) < 0) {
        return NULL;
    }
    struct ag_index_slot *slot = free_slot(map, key);
    slot->key = key;
    map->count++;
    return slot;
}

int ag_index_map_insert(struct ag_index_map *map, uint64_t key, uint32_t index) {
    struct ag_index_slot *slot = ag_index_map_place(map, key);
    if (!slot) {
        return -ENOMEM;
    }
    slot->value = (uint64_t)index + 1;
    return 0;
}

int ag_index_map_insert_first(struct ag_index_map *map, uint64_t key, uint32_t index) {
    return ag_index_map_find(map, key) != AG_INDEX_NONE ? 0 : ag_index_map_insert(map, key, index);
}

int ag_index_map_number(struct ag_index_map *map, uint64_t key, uint32_t *ret_index) {
    const uint32_t known = ag_index_map_find(map, key);
    const uint32_t index = known != AG_INDEX_NONE ? known : (uint32_t)map->count;
    if (known == AG_INDEX_NONE &&
        (map->count >= AG_INDEX_NONE || ag_index_map_insert(map, key, index) < 0)) {
        return -ENOMEM;
    }
    if (ret_index) {
        *ret_index = index;
    }
    return known == AG_INDEX_NONE;
}

void ag_index_map_remove(struct ag_index_map *map, uint64_t key, uint32_t index) {
    uint64_t hole = ag_keyed_hash(key) >> map->shift;
    while (map->slots[hole].key != key || map->slots[hole].value != (uint64_t)index + 1) {
        hole = (hole + 1) & map->mask;
    }
    /* moves back the keys that the removed key had displaced, so that a search still finds them */
    for (uint64_t at = (hole + 1) & map->mask; map->slots[at].value; at = (at + 1) & map->mask) {
        const uint64_t home = ag_keyed_hash(map->slots[at].key) >> map->shift;
        if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (struct ag_index_slot){0};
    map->count--;
}
