/* pointer_map.h: maps 64-bit keys to pointers: an index map (index_map.h) whose values are
 * addresses. */
#ifndef AG_POINTER_MAP_H
#define AG_POINTER_MAP_H

#include "table/index_map.h"

struct ag_pointer_map { /* zero-initialize: an empty map */
    struct ag_index_map map;
};

/* Returns the value of KEY; NULL: KEY is not in the map. */
void *ag_pointer_map_find(const struct ag_pointer_map *map, uint64_t key);
/* Adds KEY or replaces its value. VALUE must not be NULL. Returns 0, or -ENOMEM, and then the map
 * is unchanged. */
int ag_pointer_map_put(struct ag_pointer_map *map, uint64_t key, void *value);
/* Calls DESTROY for each value, unless DESTROY is NULL; then frees the map. */
void ag_pointer_map_done(struct ag_pointer_map *map, void (*destroy)(void *value));

#endif
