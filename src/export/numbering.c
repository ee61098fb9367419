/* numbering.c: numbers items in the order in which they are first seen. The items are in an array;
 * a map leads from the hash of an item to its index. */
#include "export/numbering.h"

#include <stdlib.h>

#include "table/array.h"

uint32_t ag_numbering_of(struct ag_numbering *numbering, uint64_t a, uint64_t b, bool *ret_is_new) {
    const uint64_t hash = ag_keyed_hash_pair(a, b);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&numbering->by_hash, hash, &cursor)) != AG_INDEX_NONE &&
           (numbering->things[at].a != a || numbering->things[at].b != b)) {
    }
    if (ret_is_new) {
        *ret_is_new = at == AG_INDEX_NONE;
    }
    if (at != AG_INDEX_NONE) {
        return at;
    }
    at = (uint32_t)numbering->count;
    if (AG_ARRAY_ADD(numbering->things, numbering->count, (struct ag_numbered){.a = a, .b = b}) <
            0 ||
        ag_index_map_insert(&numbering->by_hash, hash, at) < 0) {
        numbering->has_failed = true;
        return 0;
    }
    return at;
}

void ag_numbering_done(struct ag_numbering *numbering) {
    free(numbering->things);
    ag_index_map_done(&numbering->by_hash);
    *numbering = (struct ag_numbering){0};
}
