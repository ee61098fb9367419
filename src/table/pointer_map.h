/* pointer_map.h: maps 64-bit keys to pointers: an index_map.h whose values are addresses. */
#ifndef AG_POINTER_MAP_H
#define AG_POINTER_MAP_H

#include "table/index_map.h"

struct ag_pointer_map { /* zero-initialize: an empty map */
    struct ag_index_map map;
};

void *ag_pointer_map_find(const struct ag_pointer_map *map, uint64_t key); /* NULL: not there */
/* Adds KEY or replaces its value, which must not be NULL. -ENOMEM: unchanged. */
int ag_pointer_map_put(struct ag_pointer_map *map, uint64_t key, void *value);
/* Calls DESTROY, unless it is NULL, for each value. */
void ag_pointer_map_done(struct ag_pointer_map *map, void (*destroy)(void *value));

#endif
