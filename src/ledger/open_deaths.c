/* open_deaths.c: finds the deaths at an address in the open windows (since each stream's last
 * stamp).
 *
 * Only order_repair.c searches, and most traces never need a search, so applying a death costs
 * nothing extra: the stream is listed once per batch, and the next search indexes the deaths of
 * listed streams. Each death is indexed at most once and is removed with its window.
 *
 * At one address a search examines at most LOOKED_AT deaths. No allocator produces more of them in
 * the windows that are open at one time. Beyond the limit any result is accepted. */
#include <errno.h>
#include <stdlib.h>

#include "base/keyed_hash.h"
#include "ledger/ledger_state.h"

enum { FIRST_CAPACITY = 64, LOOKED_AT = 64 };

void ag_open_deaths_done(struct ag_open_deaths *open) {
    free(open->entries);
    free(open->places);
    free(open->buckets);
    free(open->unindexed);
    *open = (struct ag_open_deaths){0};
}

int ag_ledger_list_deaths(struct ag_ledger *ledger, uint32_t stream) {
    struct ag_stream *listed = &ledger->streams[stream];
    if (AG_LIKELY(listed->n_deaths == listed->n_indexed || listed->is_listed)) {
        return 0;
    }
    struct ag_open_deaths *open = &ledger->open_deaths;
    uint32_t *unindexed = ag_ledger_grown(open->unindexed, &open->unindexed_capacity,
                                          open->n_unindexed, sizeof(*unindexed));
    if (!unindexed) {
        return -ENOMEM;
    }
    open->unindexed = unindexed;
    unindexed[open->n_unindexed++] = stream;
    listed->is_listed = true;
    return 0;
}

struct ag_death *ag_ledger_find_death(const struct ag_stream *stream, uint64_t number) {
    size_t low = 0, high = stream->n_deaths;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (stream->deaths[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    struct ag_death *found = low < stream->n_deaths ? &stream->deaths[low] : NULL;
    return found && found->number == number && found->block.address != 0 ? found : NULL;
}

/* ---- the index ---- */

static uint32_t *bucket_of(const struct ag_open_deaths *open, uint64_t address) {
    return &open->buckets[ag_keyed_hash(address) & (open->capacity - 1)];
}

static int open_deaths_grow(struct ag_open_deaths *open) {
    const uint32_t capacity = open->capacity ? open->capacity * 2 : FIRST_CAPACITY;
    struct ag_open_death *entries = realloc(open->entries, capacity * sizeof(*entries));
    open->entries = entries ? entries : open->entries;
    struct ag_death_place *places = realloc(open->places, capacity * sizeof(*places));
    open->places = places ? places : open->places;
    uint32_t *buckets = calloc(capacity, sizeof(*buckets));
    if (!entries || !places || !buckets) {
        free(buckets);
        return -ENOMEM;
    }
    free(open->buckets);
    open->buckets = buckets;
    open->capacity = capacity;
    open->n_entries += open->n_entries == 0; /* 0 means none */
    open->n_places += open->n_places == 0;
    for (uint32_t i = 1; i < open->n_places; i++) {
        if (places[i].oldest) {
            uint32_t *bucket = bucket_of(open, places[i].address);
            places[i].next_of_bucket = *bucket;
            *bucket = i;
        }
    }
    return 0;
}

static uint32_t find_place(const struct ag_open_deaths *open, uint64_t address) {
    uint32_t at = open->capacity ? *bucket_of(open, address) : 0;
    while (at && open->places[at].address != address) {
        at = open->places[at].next_of_bucket;
    }
    return at;
}

static uint32_t find_or_add_place(struct ag_open_deaths *open, uint64_t address) {
    uint32_t at = find_place(open, address);
    if (at) {
        return at;
    }
    if (open->first_free_place) {
        at = open->first_free_place;
        open->first_free_place = open->places[at].next_of_bucket;
    } else {
        at = open->n_places++;
    }
    uint32_t *bucket = bucket_of(open, address);
    open->places[at] = (struct ag_death_place){.address = address, .next_of_bucket = *bucket};
    return *bucket = at;
}

static int open_deaths_add(struct ag_open_deaths *open, uint32_t stream,
                           const struct ag_death *death, uint32_t *ret_entry) {
    /* There are never more places than entries. */
    if (!open->first_free && open->n_entries >= open->capacity && open_deaths_grow(open) < 0) {
        return -ENOMEM;
    }
    uint32_t at = open->first_free;
    if (at) {
        open->first_free = open->entries[at].older;
    } else {
        at = open->n_entries++;
    }
    const uint32_t place = find_or_add_place(open, death->block.address);
    struct ag_death_place *there = &open->places[place];
    open->entries[at] = (struct ag_open_death){.address = death->block.address,
                                               .number = death->number,
                                               .freed_by = stream,
                                               .allocated_by = death->block.stream,
                                               .older = there->newest,
                                               .place = place};
    if (there->newest) {
        open->entries[there->newest].newer = at;
    } else {
        there->oldest = at;
    }
    there->newest = at;
    *ret_entry = at;
    return 0;
}

static void remove_place(struct ag_open_deaths *open, uint32_t place) {
    uint32_t *link = bucket_of(open, open->places[place].address);
    while (*link != place) {
        link = &open->places[*link].next_of_bucket;
    }
    *link = open->places[place].next_of_bucket;
    open->places[place].next_of_bucket = open->first_free_place;
    open->first_free_place = place;
}

void ag_ledger_forget_death(struct ag_ledger *ledger, struct ag_stream *stream, uint32_t at) {
    struct ag_open_deaths *open = &ledger->open_deaths;
    if (at >= stream->n_indexed) {
        return;
    }
    const uint32_t index = stream->death_entries[at];
    const struct ag_open_death entry = open->entries[index];
    struct ag_death_place *place = &open->places[entry.place];
    *(entry.older ? &open->entries[entry.older].newer : &place->oldest) = entry.newer;
    *(entry.newer ? &open->entries[entry.newer].older : &place->newest) = entry.older;
    if (!place->oldest) {
        remove_place(open, entry.place);
    }
    open->entries[index].older = open->first_free;
    open->first_free = index;
}

/* Indexes the deaths of one stream since the last time. */
static int index_stream(struct ag_ledger *ledger, uint32_t index) {
    struct ag_stream *stream = &ledger->streams[index];
    if (stream->entry_capacity < stream->n_deaths) {
        uint32_t *entries =
            realloc(stream->death_entries, stream->death_capacity * sizeof(*entries));
        if (!entries) {
            return -ENOMEM;
        }
        stream->death_entries = entries;
        stream->entry_capacity = stream->death_capacity;
    }
    for (uint32_t i = stream->n_indexed; i < stream->n_deaths; i++) {
        const struct ag_death *death = &stream->deaths[i];
        /* An undone death gets no entry; ag_ledger_forget_death is not called for it. */
        if (death->block.address != 0 &&
            open_deaths_add(&ledger->open_deaths, index, death, &stream->death_entries[i]) < 0) {
            return -ENOMEM;
        }
        stream->n_indexed = i + 1;
    }
    return 0;
}

static int index_all(struct ag_ledger *ledger) {
    struct ag_open_deaths *open = &ledger->open_deaths;
    int r = ledger->applying != AG_INDEX_NONE ? index_stream(ledger, ledger->applying) : 0;
    while (open->n_unindexed > 0 && r == 0) {
        const uint32_t stream = open->unindexed[--open->n_unindexed];
        ledger->streams[stream].is_listed = false;
        r = index_stream(ledger, stream);
    }
    return r;
}

/* ---- searches ---- */

/* The result of a search: BEST, or nothing. Always 0. */
static int open_death_found(const struct ag_ledger *ledger, const struct ag_open_death *best,
                            const struct ag_death **ret_death, uint32_t *ret_freed_by) {
    *ret_death = best ? ag_ledger_find_death(&ledger->streams[best->freed_by], best->number) : NULL;
    *ret_freed_by = best ? best->freed_by : AG_INDEX_NONE;
    return 0;
}

int ag_ledger_first_open_death(struct ag_ledger *ledger, uint64_t address, uint32_t stream,
                               const struct ag_death **ret_death, uint32_t *ret_freed_by) {
    const int r = index_all(ledger);
    if (r < 0) {
        return r;
    }
    const struct ag_open_deaths *open = &ledger->open_deaths;
    const uint32_t place = find_place(open, address);
    const struct ag_open_death *best = NULL;
    unsigned n = 0;
    for (uint32_t at = place ? open->places[place].oldest : 0; at && n < LOOKED_AT;
         at = open->entries[at].newer, n++) {
        const struct ag_open_death *death = &open->entries[at];
        const bool is_own = death->allocated_by == stream;
        const bool best_is_own = best && best->allocated_by == stream;
        if (death->freed_by != stream &&
            (!best || is_own < best_is_own ||
             (is_own == best_is_own && death->number < best->number))) {
            best = death;
        }
    }
    return open_death_found(ledger, best, ret_death, ret_freed_by);
}

int ag_ledger_last_open_death(struct ag_ledger *ledger, uint64_t address, uint32_t stream,
                              const struct ag_death **ret_death, uint32_t *ret_freed_by) {
    const int r = index_all(ledger);
    if (r < 0) {
        return r;
    }
    const struct ag_open_deaths *open = &ledger->open_deaths;
    const uint32_t place = find_place(open, address);
    const struct ag_open_death *best = NULL;
    unsigned n = 0;
    for (uint32_t at = place ? open->places[place].newest : 0; at && n < LOOKED_AT;
         at = open->entries[at].older, n++) {
        const struct ag_open_death *death = &open->entries[at];
        if (death->freed_by != stream && (!best || death->number > best->number)) {
            best = death;
        }
    }
    return open_death_found(ledger, best, ret_death, ret_freed_by);
}
