/* tracked_blocks.c: a table of blocks by address, for tracker.c and late_types.c: a hash table with
 * lists, whose entries lie in pages that never move. */
#include "tracked_blocks.h"

#include <stddef.h>

#include "base/pages.h"

struct ag_tracked *ag_tracked_at(const struct ag_tracked_blocks *blocks, uint32_t place) {
    return &blocks->pages[place / AG_TRACKED_PAGE][place % AG_TRACKED_PAGE];
}

uint32_t ag_tracked_find(const struct ag_tracked_blocks *blocks, uint64_t key) {
    uint32_t place =
        atomic_load_explicit(&blocks->heads[ag_tracked_list(key)], memory_order_relaxed);
    while (place != 0) {
        const struct ag_tracked *entry = ag_tracked_at(blocks, place);
        if (entry->key == key && !entry->is_freed) {
            return place;
        }
        place = entry->next;
    }
    return 0;
}

static uint32_t take_place(struct ag_tracked_blocks *blocks) {
    if (blocks->first_free != 0) {
        const uint32_t place = blocks->first_free;
        blocks->first_free = ag_tracked_at(blocks, place)->next;
        return place;
    }
    const uint32_t place = blocks->n_places + 1;
    if (place / AG_TRACKED_PAGE == AG_TRACKED_PAGES) {
        return 0;
    }
    struct ag_tracked **page = &blocks->pages[place / AG_TRACKED_PAGE];
    if (!*page) {
        *page = ag_pages_map(AG_TRACKED_PAGE * sizeof(**page));
    }
    blocks->n_places += *page != NULL;
    return *page ? place : 0;
}

uint32_t ag_tracked_insert(struct ag_tracked_blocks *blocks, uint64_t key) {
    const uint32_t place = take_place(blocks);
    if (place != 0) {
        _Atomic uint32_t *head = &blocks->heads[ag_tracked_list(key)];
        *ag_tracked_at(blocks, place) = (struct ag_tracked){
            .key = key, .next = atomic_load_explicit(head, memory_order_relaxed)};
        atomic_store_explicit(head, place, memory_order_relaxed);
        blocks->count++;
    }
    return place;
}

static void unlink_place(struct ag_tracked_blocks *blocks, uint32_t place) {
    const struct ag_tracked *entry = ag_tracked_at(blocks, place);
    _Atomic uint32_t *head = &blocks->heads[ag_tracked_list(entry->key)];
    uint32_t at = atomic_load_explicit(head, memory_order_relaxed);
    if (at == place) {
        atomic_store_explicit(head, entry->next, memory_order_relaxed);
    } else {
        while (ag_tracked_at(blocks, at)->next != place) {
            at = ag_tracked_at(blocks, at)->next;
        }
        ag_tracked_at(blocks, at)->next = entry->next;
    }
}

void ag_tracked_rename(struct ag_tracked_blocks *blocks, uint32_t place, uint64_t key) {
    struct ag_tracked *entry = ag_tracked_at(blocks, place);
    _Atomic uint32_t *head = &blocks->heads[ag_tracked_list(key)];
    unlink_place(blocks, place);
    entry->key = key;
    entry->next = atomic_load_explicit(head, memory_order_relaxed);
    atomic_store_explicit(head, place, memory_order_relaxed);
}

void ag_tracked_remove(struct ag_tracked_blocks *blocks, uint32_t place) {
    struct ag_tracked *entry = ag_tracked_at(blocks, place);
    unlink_place(blocks, place);
    entry->next = blocks->first_free;
    entry->state = 0;
    blocks->first_free = place;
    blocks->count--;
}
