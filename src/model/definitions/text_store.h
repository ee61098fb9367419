/* text_store.h: strings kept once each: equal texts have one number and one address. */
#ifndef AG_TEXT_STORE_H
#define AG_TEXT_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/index_map.h"

struct ag_text_entry {
    const char *text;
    uint32_t length;
    uint32_t next; /* entry + 1 with the same hash, 0: none */
};
struct ag_text_store { /* zero-initialise, then ag_text_store_init */
    struct ag_index_map by_hash;
    struct ag_text_entry *entries;
    size_t count, capacity;
    char *block; /* the newest; its first word links the older ones */
    size_t block_used, block_bytes;
};

int ag_text_store_init(struct ag_text_store *store);
void ag_text_store_done(struct ag_text_store *store);
/* The number of these LENGTH bytes (cut at a NUL, if there is one). If out of memory: the number of
 * "". */
uint32_t ag_text_id(struct ag_text_store *store, const char *data, size_t length);
/* Valid until the store is done. */
const char *ag_text(const struct ag_text_store *store, uint32_t id);
/* ag_text_id and ag_text in one call. */
const char *ag_text_keep(struct ag_text_store *store, const char *data, size_t length);

#endif
