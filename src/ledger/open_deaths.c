/* open_deaths.c: finds, for order_repair.c, the deaths (frees of blocks) at an address in the open
 * windows. The open window of a stream (the events of one thread) is the time since its last stamp,
 * a clock value among its events.
 *
 * Most traces never need a search. So applying a death does not index it: the stream is listed once
 * per batch of events, and the next search indexes the deaths of all listed streams. Each death is
 * indexed at most once, and is removed when its window ends.
 *
 * At one address a search examines at most LOOKED_AT deaths. No allocator produces more deaths at
 * one address in the windows that are open at one time. If there are more, the search may miss the
 * death that fits best. */
#include <errno.h>
#include <stdlib.h>

#include "ledger/ledger_state.h"

enum { LOOKED_AT = 64 };

void ag_open_deaths_done(struct ag_open_deaths *open) {
    free(open->entries);
    ag_address_lists_done(&open->lists);
    free(open->unindexed);
    *open = (struct ag_open_deaths){0};
}

int ag_ledger_list_deaths(struct ag_ledger *ledger, uint32_t stream) {
    struct ag_stream *listed = &ledger->streams[stream];
    if (AG_LIKELY(listed->n_deaths == listed->n_indexed || listed->is_listed)) {
        return 0;
    }
    struct ag_open_deaths *open = &ledger->open_deaths;
    listed->is_listed = true;
    return AG_ARRAY_ADD(open->unindexed, open->n_unindexed, stream);
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

static int open_deaths_add(struct ag_open_deaths *open, uint32_t stream,
                           const struct ag_death *death, uint32_t *ret_entry) {
    const uint32_t at = ag_address_lists_add(&open->lists, death->block.address);
    if (!at || AG_ARRAY_EXTEND(open->entries, open->entry_capacity, at + (size_t)1) < 0) {
        return -ENOMEM;
    }
    open->entries[at] = (struct ag_open_death){
        .number = death->number, .freed_by = stream, .allocated_by = death->block.stream};
    *ret_entry = at;
    return 0;
}

void ag_ledger_forget_death(struct ag_ledger *ledger, struct ag_stream *stream, uint32_t at) {
    if (at < stream->n_indexed) {
        ag_address_lists_remove(&ledger->open_deaths.lists, stream->death_entries[at]);
    }
}

/* Indexes the deaths of one stream that are not indexed yet. */
static int index_stream(struct ag_ledger *ledger, uint32_t index) {
    struct ag_stream *stream = &ledger->streams[index];
    if (AG_ARRAY_RESERVE(stream->death_entries, stream->entry_capacity, stream->n_deaths) < 0) {
        return -ENOMEM;
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

/* Stores BEST, the result of a search; NULL: nothing was found. Returns 0. */
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
    const struct ag_open_death *best = NULL;
    unsigned n = 0;
    for (uint32_t at = ag_address_lists_first(&open->lists, address); at && n < LOOKED_AT;
         at = ag_address_lists_next(&open->lists, at), n++) {
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
    const struct ag_open_death *best = NULL;
    unsigned n = 0;
    for (uint32_t at = ag_address_lists_last(&open->lists, address); at && n < LOOKED_AT;
         at = ag_address_lists_previous(&open->lists, at), n++) {
        const struct ag_open_death *death = &open->entries[at];
        if (death->freed_by != stream && (!best || death->number > best->number)) {
            best = death;
        }
    }
    return open_death_found(ledger, best, ret_death, ret_freed_by);
}
