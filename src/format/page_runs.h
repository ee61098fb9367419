/* page_runs.h: reads the list of resident pages of a mapping (field `pages` of the record
 * resident_mapping), run by run. A run that does not fit into the mapping is damage that no
 * checksum found, and ends the list. */
#ifndef AG_PAGE_RUNS_H
#define AG_PAGE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/varint.h"
#include "schema/resident_mapping.h"

struct ag_page_runs {
    const uint8_t *at, *end; /* the rest of the list; at is NULL: the list has ended */
    uint64_t page_bytes, mapping_high;
    uint64_t low, high; /* the current run: [low, high). Before the first run, both are the start of
                         * the mapping; after the last run, both are its end */
};

/* Returns the state before the first run. If mapping->pages is NULL, the list is not known, and
 * ag_page_runs_next returns false. */
static inline struct ag_page_runs ag_page_runs_of(const struct ag_resident_mapping *mapping,
                                                  uint64_t page_bytes) {
    const uint8_t *at = mapping->pages;
    return (struct ag_page_runs){.at = at,
                                 .end = at != NULL ? at + mapping->pages_length : NULL,
                                 .page_bytes = page_bytes,
                                 .mapping_high = mapping->high,
                                 .low = mapping->low,
                                 .high = mapping->low};
}

/* Makes the next run the current one. Returns false if there is none. */
static inline bool ag_page_runs_next(struct ag_page_runs *runs) {
    const uint64_t left = (runs->mapping_high - runs->high) / runs->page_bytes;
    uint64_t gap, n;
    const uint8_t *at = runs->at;
    at = at != NULL && at < runs->end ? ag_varint_get(at, runs->end, &gap) : NULL;
    at = at != NULL ? ag_varint_get(at, runs->end, &n) : NULL;
    if (at == NULL || gap > left || n > left - gap) {
        runs->at = NULL;
        runs->low = runs->high = runs->mapping_high;
        return false;
    }
    runs->at = at;
    runs->low = runs->high + gap * runs->page_bytes;
    runs->high = runs->low + n * runs->page_bytes;
    return true;
}

#endif
