/* numbering.c: an open hash table over an array that is never reordered; half full at most. */
#include "export/numbering.h"

#include <stdlib.h>

#include "base/keyed_hash.h"

static size_t home(const struct ag_numbering *numbering, uint64_t a, uint64_t b) {
    return (size_t)ag_keyed_hash_pair(a, b) & (numbering->n_slots - 1);
}

static bool numbering_grow(struct ag_numbering *numbering) {
    const size_t capacity = numbering->capacity ? numbering->capacity * 2 : 256;
    struct ag_numbered *things = realloc(numbering->things, capacity * sizeof(*things));
    numbering->things = things ? things : numbering->things;
    uint32_t *slots = things && capacity < UINT32_MAX ? calloc(capacity * 2, sizeof(*slots)) : NULL;
    if (!slots) {
        return false;
    }
    free(numbering->slots);
    numbering->slots = slots;
    numbering->n_slots = capacity * 2;
    numbering->capacity = capacity;
    for (size_t i = 0; i < numbering->count; i++) {
        size_t at = home(numbering, things[i].a, things[i].b);
        while (slots[at] != 0) {
            at = (at + 1) & (numbering->n_slots - 1);
        }
        slots[at] = (uint32_t)i + 1;
    }
    return true;
}

uint32_t ag_numbering_of(struct ag_numbering *numbering, uint64_t a, uint64_t b, bool *ret_is_new) {
    bool unused;
    bool *is_new = ret_is_new ? ret_is_new : &unused;
    *is_new = false;
    if (numbering->count == numbering->capacity && !numbering_grow(numbering)) {
        numbering->has_failed = true;
        return 0;
    }
    size_t at = home(numbering, a, b);
    for (; numbering->slots[at] != 0; at = (at + 1) & (numbering->n_slots - 1)) {
        const struct ag_numbered *known = &numbering->things[numbering->slots[at] - 1];
        if (known->a == a && known->b == b) {
            return numbering->slots[at] - 1;
        }
    }
    *is_new = true;
    numbering->things[numbering->count++] = (struct ag_numbered){.a = a, .b = b};
    return (numbering->slots[at] = (uint32_t)numbering->count) - 1;
}

void ag_numbering_done(struct ag_numbering *numbering) {
    free(numbering->things);
    free(numbering->slots);
    *numbering = (struct ag_numbering){0};
}
