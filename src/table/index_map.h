/* index_map.h: maps sparse 64-bit keys to dense 32-bit indices.
 *
 * The map uses open addressing with linear probing at a load of at most 1/2. A slot is 16 bytes, so
 * a lookup usually takes one cache line. Keys come from untrusted input (stack ids, stream
 * numbers), so any value is allowed, and the hash is keyed (base/keyed_hash.h). Memory is
 * proportional to the largest number of keys that the map had at one time.
 *
 * For items such as texts or structs, the key is a hash of the item. If different items have the
 * same hash, the map contains that key several times, and a search tries all indices of the key:
 *
 *     size_t slot = 0;
 *     uint32_t at;
 *     while ((at = ag_index_map_next(&map, hash, &slot)) != AG_INDEX_NONE && !is_same(at, item)) {
 *     } */
#ifndef AG_INDEX_MAP_H
#define AG_INDEX_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/keyed_hash.h"

#define AG_INDEX_NONE UINT32_MAX

struct ag_index_slot {
    uint64_t key;
    uint64_t value; /* the index plus 1; 0: the slot is empty */
};
struct ag_index_map { /* zero-initialize: an empty map */
    struct ag_index_slot *slots;
    uint64_t mask;  /* number of slots - 1; the number of slots is a power of two */
    uint32_t shift; /* 64 - log2 of the number of slots */
    size_t count;
};

void ag_index_map_done(struct ag_index_map *map);
/* Adds KEY with INDEX. KEY must not be in the map, unless it is the hash of an item (see above).
 * Returns 0 or -ENOMEM. */
int ag_index_map_insert(struct ag_index_map *map, uint64_t key, uint32_t index);
/* Adds KEY with INDEX. If KEY is in the map already, it keeps its index. Returns 0 or -ENOMEM. */
int ag_index_map_insert_first(struct ag_index_map *map, uint64_t key, uint32_t index);
/* Adds KEY, which must not be in the map, and returns its slot. The caller must set the slot's
 * value to a number other than 0. NULL: out of memory. */
struct ag_index_slot *ag_index_map_place(struct ag_index_map *map, uint64_t key);
/* Numbers keys 0, 1, 2 ... in the order in which they are first seen, and sets *ret_index to the
 * number of KEY. ret_index may be NULL, if the map is used as a set. Returns 1 if KEY is new, 0 if
 * it is known, or -ENOMEM. */
int ag_index_map_number(struct ag_index_map *map, uint64_t key, uint32_t *ret_index);
/* Removes KEY, which must be in the map with INDEX. The memory is kept for other keys. Do not use
 * this function on a map that is used with ag_index_map_number, because ag_index_map_number uses
 * the count of keys as the next number. */
void ag_index_map_remove(struct ag_index_map *map, uint64_t key, uint32_t index);

/* Returns the slot where a search for KEY begins, for prefetching. NULL: the map is empty. */
AG_FAST const struct ag_index_slot *ag_index_map_home(const struct ag_index_map *map,
                                                      uint64_t key) {
    return AG_LIKELY(map->slots) ? &map->slots[ag_keyed_hash(key) >> map->shift] : NULL;
}

/* Returns the slot that a search tries after SLOT. */
AG_FAST const struct ag_index_slot *ag_index_map_after(const struct ag_index_map *map,
                                                       const struct ag_index_slot *slot) {
    return &map->slots[((uint64_t)(slot - map->slots) + 1) & map->mask];
}

/* Searches KEY from SLOT on. Returns the slot of KEY; NULL: KEY is not in the map. */
AG_FAST const struct ag_index_slot *ag_index_map_slot(const struct ag_index_map *map,
                                                      const struct ag_index_slot *slot,
                                                      uint64_t key) {
    for (; slot && slot->value; slot = ag_index_map_after(map, slot)) {
        if (AG_LIKELY(slot->key == key)) {
            return slot;
        }
    }
    return NULL;
}

AG_FAST uint32_t ag_index_map_find(const struct ag_index_map *map, uint64_t key) {
    const struct ag_index_slot *slot = ag_index_map_slot(map, ag_index_map_home(map, key), key);
    return slot ? (uint32_t)slot->value - 1 : AG_INDEX_NONE;
}

/* Returns the next index of KEY; AG_INDEX_NONE: KEY has no further index. *cursor contains the
 * state of the search, and must be 0 before the first call. */
AG_FAST uint32_t ag_index_map_next(const struct ag_index_map *map, uint64_t key, size_t *cursor) {
    const struct ag_index_slot *slot =
        ag_index_map_slot(map,
                          *cursor == 0 ? ag_index_map_home(map, key)
                                       : ag_index_map_after(map, &map->slots[*cursor - 1]),
                          key);
    *cursor = slot ? (size_t)(slot - map->slots) + 1 : 0;
    return slot ? (uint32_t)slot->value - 1 : AG_INDEX_NONE;
}

#endif
