/* pointer_table.h: a hash map from 64-bit keys to pointers that only grows. Keys may be any values:
 * addresses, or numbers from a hostile file. */
#ifndef AG_POINTER_TABLE_H
#define AG_POINTER_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct ag_pointer_slot {
    uint64_t key;
    void *value; /* NULL: free */
};
struct ag_pointer_table { /* all zero: empty */
    struct ag_pointer_slot *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n_used;  /* 4 n_used <= 3 n_slots */
};

void *ag_pointer_table_find(const struct ag_pointer_table *table, uint64_t key);
/* Adds KEY or replaces its value, which must not be NULL. -ENOMEM: unchanged. */
int ag_pointer_table_put(struct ag_pointer_table *table, uint64_t key, void *value);
/* Frees the slots; calls DESTROY, unless it is NULL, for each value. */
void ag_pointer_table_clear(struct ag_pointer_table *table, void (*destroy)(void *value));

#endif
