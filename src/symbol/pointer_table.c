/* pointer_table.c: open addressing with linear probing; three quarters full at most. */
#include "pointer_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/keyed_hash.h"

enum { FIRST_SLOTS = 64 };

static struct ag_pointer_slot *slot_of(const struct ag_pointer_table *table, uint64_t key) {
    size_t at = ag_keyed_hash(key) >> 32 & (table->n_slots - 1);
    while (table->slots[at].value != NULL && table->slots[at].key != key) {
        at = (at + 1) & (table->n_slots - 1);
    }
    return &table->slots[at];
}

void *ag_pointer_table_find(const struct ag_pointer_table *table, uint64_t key) {
    return table->n_slots == 0 ? NULL : slot_of(table, key)->value;
}

static int pointer_table_grow(struct ag_pointer_table *table) {
    struct ag_pointer_table larger = {.n_slots =
                                          table->n_slots == 0 ? FIRST_SLOTS : 2 * table->n_slots};
    larger.slots = calloc(larger.n_slots, sizeof(*larger.slots));
    if (larger.slots == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < table->n_slots; i++) {
        if (table->slots[i].value != NULL) {
            *slot_of(&larger, table->slots[i].key) = table->slots[i];
        }
    }
    larger.n_used = table->n_used;
    free(table->slots);
    *table = larger;
    return 0;
}

int ag_pointer_table_put(struct ag_pointer_table *table, uint64_t key, void *value) {
    if (4 * (table->n_used + 1) > 3 * table->n_slots) {
        const int r = pointer_table_grow(table);
        if (r < 0) {
            return r;
        }
    }
    struct ag_pointer_slot *slot = slot_of(table, key);
    table->n_used += slot->value == NULL;
    *slot = (struct ag_pointer_slot){.key = key, .value = value};
    return 0;
}

void ag_pointer_table_clear(struct ag_pointer_table *table, void (*destroy)(void *value)) {
    for (size_t i = 0; destroy != NULL && i < table->n_slots; i++) {
        if (table->slots[i].value != NULL) {
            destroy(table->slots[i].value);
        }
    }
    free(table->slots);
    *table = (struct ag_pointer_table){0};
}
