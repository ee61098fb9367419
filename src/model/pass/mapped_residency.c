/* mapped_residency.c: walks through the runs of resident pages and through mapped ranges at the
 * same time; both are sorted by address.
 *
 * For writable anonymous memory, the look (one reading of the resident memory) lists the resident
 * pages, so the result is exact to a page. For other mappings, and if the list of pages was too
 * long, the look has only the number of resident bytes. Such a mapping is treated as one run, and a
 * range that covers a part of the mapping gets resident bytes in proportion to the size of the
 * part. Usually one call made the whole mapping; then the range covers all of it, and the result is
 * exact, too. */
#include "model/pass/mapped_residency.h"

struct ag_mapped_residency ag_mapped_residency_of(const struct ag_resident_look *look) {
    return (struct ag_mapped_residency){.look = look};
}

/* Makes the next run of the current mapping the current run. Returns false if there is none. */
static bool next_pages(struct ag_mapped_residency *residency) {
    if (residency->runs.at == NULL || !ag_page_runs_next(&residency->runs)) {
        return false;
    }
    residency->low = residency->runs.low;
    residency->high = residency->runs.high;
    residency->bytes = residency->high - residency->low;
    return true;
}

/* Returns false if there is no run left. */
static bool next_run(struct ag_mapped_residency *residency) {
    const struct ag_resident_look *look = residency->look;
    while (!next_pages(residency)) {
        if (residency->next == look->n_mappings) {
            return false;
        }
        const struct ag_resident_mapping *mapping = &look->mappings[residency->next++];
        if (mapping->low < residency->reached || mapping->high <= mapping->low) {
            continue;
        }
        residency->reached = mapping->high;
        if (mapping->pages == NULL) {
            const uint64_t size = mapping->high - mapping->low;
            residency->low = mapping->low;
            residency->high = mapping->high;
            residency->bytes = mapping->rss_bytes < size ? mapping->rss_bytes : size;
            return true;
        }
        residency->runs = ag_page_runs_of(mapping, look->page_bytes);
        residency->low = residency->high = mapping->low;
        residency->bytes = 0;
    }
    return true;
}

uint64_t ag_mapped_residency_in(struct ag_mapped_residency *residency, uint64_t low,
                                uint64_t high) {
    uint64_t bytes = 0;
    while (residency->high <= low || residency->bytes == 0) {
        if (!next_run(residency)) {
            return 0;
        }
    }
    while (residency->low < high) {
        const uint64_t from = residency->low > low ? residency->low : low;
        const uint64_t to = residency->high < high ? residency->high : high;
        const uint64_t size = residency->high - residency->low, part = to > from ? to - from : 0;
        bytes +=
            residency->bytes == size
                ? part
                : (uint64_t)((long double)residency->bytes * (long double)part / (long double)size);
        if (residency->high > high || !next_run(residency)) {
            break;
        }
    }
    return bytes;
}
