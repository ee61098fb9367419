/* node_ids.c: see node_ids.h. Open addressing with linear probing. */
#include "model/definitions/node_ids.h"

#include <errno.h>
#include <stdbool.h>

#include "base/keyed_hash.h"
#include "table/table_memory.h"

enum { FIRST_BITS = 8, BITS_MOST = 32 };

static size_t slots_of(uint32_t bits) {
    return (size_t)1 << bits;
}

static size_t home_of(uint32_t id, uint32_t bits) {
    return (size_t)(ag_keyed_hash(id) >> (64 - bits));
}

/* The slot of ID, or the empty one where it would be. */
static size_t seek(const uint64_t *slots, uint32_t bits, uint32_t id) {
    size_t at = home_of(id, bits);
    while (slots[at] != 0 && (uint32_t)(slots[at] >> 32) != id) {
        at = (at + 1) & (slots_of(bits) - 1);
    }
    return at;
}

void ag_node_ids_done(struct ag_node_ids *ids) {
    ag_table_memory_free(ids->slots, ids->slots ? slots_of(ids->bits) * sizeof(*ids->slots) : 0);
    *ids = (struct ag_node_ids){0};
}

static bool is_full(const struct ag_node_ids *ids) {
    return !ids->slots || (ids->count + 1) * 4 > slots_of(ids->bits) * 3;
}

static int node_ids_grow(struct ag_node_ids *ids) {
    const uint32_t bits = ids->slots ? ids->bits + 1 : FIRST_BITS;
    uint64_t *slots =
        bits <= BITS_MOST ? ag_table_memory_new(slots_of(bits) * sizeof(*slots)) : NULL;
    if (!slots) {
        return -ENOMEM;
    }
    const size_t count = ids->count;
    for (size_t i = 0; ids->slots && i < slots_of(ids->bits); i++) {
        if (ids->slots[i] != 0) {
            slots[seek(slots, bits, (uint32_t)(ids->slots[i] >> 32))] = ids->slots[i];
        }
    }
    ag_node_ids_done(ids);
    *ids = (struct ag_node_ids){.slots = slots, .bits = bits, .count = count};
    return 0;
}

int ag_node_ids_insert(struct ag_node_ids *ids, uint32_t id, uint32_t node) {
    const int r = is_full(ids) ? node_ids_grow(ids) : 0;
    if (r < 0) {
        return r;
    }
    uint64_t *slot = &ids->slots[seek(ids->slots, ids->bits, id)];
    if (*slot != 0) {
        return 0;
    }
    *slot = (uint64_t)id << 32 | (node + 1);
    ids->count++;
    return 1;
}

void ag_node_ids_expect(const struct ag_node_ids *ids, uint32_t id) {
    if (ids->slots) {
        __builtin_prefetch(&ids->slots[home_of(id, ids->bits)]);
    }
}

uint32_t ag_node_ids_find(const struct ag_node_ids *ids, uint32_t id) {
    if (!ids->slots) {
        return AG_NODE_NONE;
    }
    const uint64_t slot = ids->slots[seek(ids->slots, ids->bits, id)];
    return slot != 0 ? (uint32_t)slot - 1 : AG_NODE_NONE;
}
