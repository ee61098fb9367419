/* text_store.c: stores each string once, see text_store.h. Texts are stored one after the other in
 * blocks of memory that never move. A map from their hashes finds them again. */
#include "table/text_store.h"

#include <stdlib.h>
#include <string.h>

#include "table/array.h"

enum { BLOCK_BYTES = 64 * 1024 };

void ag_text_store_done(struct ag_text_store *store) {
    for (char *block = store->block; block;) {
        char *older;
        memcpy(&older, block, sizeof(older));
        free(block);
        block = older;
    }
    free(store->entries);
    ag_index_map_done(&store->by_hash);
    *store = (struct ag_text_store){0};
}

static const char *copy(struct ag_text_store *store, const char *data, size_t length) {
    if (store->block_bytes - store->block_used < length + 1) {
        const size_t wanted = sizeof(char *) + length + 1;
        const size_t bytes = wanted > BLOCK_BYTES ? wanted : BLOCK_BYTES;
        char *block = malloc(bytes);
        if (!block) {
            return NULL;
        }
        memcpy(block, &store->block, sizeof(store->block));
        store->block = block;
        store->block_used = sizeof(char *);
        store->block_bytes = bytes;
    }
    char *text = store->block + store->block_used;
    memcpy(text, data, length);
    text[length] = '\0';
    store->block_used += length + 1;
    return text;
}

uint32_t ag_text_id(struct ag_text_store *store, const char *data, size_t length) {
    length = data ? strnlen(data, length) : 0;
    if (length == 0 || length > UINT32_MAX) {
        return 0;
    }
    const uint64_t hash = ag_keyed_hash_bytes(data, length);
    size_t cursor = 0;
    for (uint32_t at; (at = ag_index_map_next(&store->by_hash, hash, &cursor)) != AG_INDEX_NONE;) {
        if (store->entries[at].length == length &&
            memcmp(store->entries[at].text, data, length) == 0) {
            return at + 1;
        }
    }
    if (AG_ARRAY_RESERVE(store->entries, store->capacity, store->count + 1) < 0) {
        return 0;
    }
    const char *text = copy(store, data, length);
    if (!text || ag_index_map_insert(&store->by_hash, hash, (uint32_t)store->count) < 0) {
        return 0;
    }
    store->entries[store->count++] =
        (struct ag_text_entry){.text = text, .length = (uint32_t)length};
    return (uint32_t)store->count;
}

const char *ag_text(const struct ag_text_store *store, uint32_t id) {
    return id != 0 ? store->entries[id - 1].text : "";
}

const char *ag_text_keep(struct ag_text_store *store, const char *data, size_t length) {
    return ag_text(store, ag_text_id(store, data, length));
}
