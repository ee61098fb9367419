/* text_store.h: stores each string once: equal texts have one number and one address. */
#ifndef AG_TEXT_STORE_H
#define AG_TEXT_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "table/index_map.h"

struct ag_text_entry {
    const char *text;
    uint32_t length;
};
struct ag_text_store { /* zero-initialize: a store that contains only "", whose number is 0 */
    struct ag_index_map by_hash;
    struct ag_text_entry *entries; /* index: the number of the text minus 1 */
    size_t count, capacity;
    /* the newest block of texts; the first word of a block points to the previous block */
    char *block;
    size_t block_used, block_bytes;
};

void ag_text_store_done(struct ag_text_store *store);
/* Returns the number of the text at DATA, which ends after LENGTH bytes or at an earlier NUL.
 * Numbers are 1, 2, 3 ... in the order in which texts are first seen. Returns 0 for "", and if
 * there is no memory. */
uint32_t ag_text_id(struct ag_text_store *store, const char *data, size_t length);
/* The text with the number ID. Valid until ag_text_store_done. */
const char *ag_text(const struct ag_text_store *store, uint32_t id);
/* Returns the stored copy of the text: ag_text_id and ag_text in one call. */
const char *ag_text_keep(struct ag_text_store *store, const char *data, size_t length);

#endif
