/* text_store.c: texts are stored one after the other in blocks that never move; a map from their
 * hashes finds them again. */
#include "model/definitions/text_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024 };

int ag_text_store_init(struct ag_text_store *store) {
    const int r = ag_index_map_init(&store->by_hash);
    if (r < 0) {
        return r;
    }
    store->entries = malloc(16 * sizeof(*store->entries));
    if (!store->entries) {
        return -ENOMEM;
    }
    store->capacity = 16;
    store->entries[store->count++] = (struct ag_text_entry){.text = ""};
    return 0;
}

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

static uint32_t text_store_add(struct ag_text_store *store, const char *data, size_t length) {
    struct ag_text_entry *entries = store->entries;
    if (store->count == store->capacity) {
        entries = realloc(entries, store->capacity * 2 * sizeof(*entries));
        if (!entries) {
            return 0;
        }
        store->entries = entries;
        store->capacity *= 2;
    }
    const char *text = copy(store, data, length);
    if (!text) {
        return 0;
    }
    entries[store->count] = (struct ag_text_entry){.text = text, .length = (uint32_t)length};
    return (uint32_t)store->count++;
}

uint32_t ag_text_id(struct ag_text_store *store, const char *data, size_t length) {
    length = data ? strnlen(data, length) : 0;
    if (length == 0 || length > UINT32_MAX) {
        return 0;
    }
    const uint64_t hash = ag_keyed_hash_bytes(data, length);
    const uint32_t first = ag_index_map_find(&store->by_hash, hash);
    uint32_t last = AG_INDEX_NONE;
    for (uint32_t at = first; at != AG_INDEX_NONE; at = store->entries[at].next - 1) {
        if (store->entries[at].length == length &&
            memcmp(store->entries[at].text, data, length) == 0) {
            return at;
        }
        last = at;
    }
    const uint32_t id = text_store_add(store, data, length);
    if (id != 0 && last != AG_INDEX_NONE) {
        store->entries[last].next = id + 1;
    } else if (id != 0) {
        (void)ag_index_map_insert(&store->by_hash, hash, id); /* out of memory: stored twice */
    }
    return id;
}

const char *ag_text(const struct ag_text_store *store, uint32_t id) {
    return store->entries[id].text;
}

const char *ag_text_keep(struct ag_text_store *store, const char *data, size_t length) {
    return ag_text(store, ag_text_id(store, data, length));
}
