/* array.c: the functions that the macros of array.h call to enlarge growing arrays. */
#include "table/array.h"

#include <stdlib.h>
#include <string.h>

static int resize(void *items, size_t count, size_t item_bytes) {
    if (count > AG_ARRAY_MOST || count > AG_ARRAY_BYTES_MOST / item_bytes) {
        return -ENOMEM;
    }
    void *first;
    /* ITEMS is the address of a pointer; memcpy reads that pointer, because its type is unknown
     * here */
    memcpy(&first, items, sizeof(first));
    first = reallocarray(first, count, item_bytes);
    if (first == NULL) {
        return -ENOMEM;
    }
    memcpy(items, &first, sizeof(first));
    return 0;
}

int ag_array_double(void *items, size_t count, size_t item_bytes) {
    return resize(items, count == 0 ? AG_ARRAY_FIRST : 2 * count, item_bytes);
}

int ag_array_reserve(void *items, size_t *capacity, size_t wanted, size_t item_bytes) {
    size_t larger = wanted < AG_ARRAY_FIRST ? AG_ARRAY_FIRST : wanted;
    if (larger < 2 * *capacity && *capacity <= AG_ARRAY_MOST / 2) {
        larger = 2 * *capacity;
    }
    const int r = resize(items, larger, item_bytes);
    *capacity = r == 0 ? larger : *capacity;
    return r;
}

int ag_array_extend(void *items, size_t *count, size_t wanted, size_t item_bytes) {
    const size_t n_before = *count;
    const int r = ag_array_reserve(items, count, wanted, item_bytes);
    if (r == 0) {
        char *first;
        memcpy(&first, items, sizeof(first));
        memset(first + n_before * item_bytes, 0, (*count - n_before) * item_bytes);
    }
    return r;
}
