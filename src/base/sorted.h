/* sorted.h: searches in sorted arrays. */
#ifndef AG_SORTED_H
#define AG_SORTED_H

#include <stddef.h>
#include <stdint.h>

/* Returns how many of the N ITEMS have a KEY, a field of type uint64_t, that is at most VALUE. The
 * items are sorted by KEY, so the result is the index of the first item whose KEY is greater than
 * VALUE. */
#define AG_SORTED_UNTIL(items, n, key, value) \
    ((n) == 0 ? 0 : ag_sorted_until(&(items)[0].key, (n), sizeof((items)[0]), (value)))

static inline size_t ag_sorted_until(const uint64_t *first_key, size_t n, size_t item_bytes,
                                     uint64_t value) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (*(const uint64_t *)(const void *)((const char *)first_key + middle * item_bytes) <=
            value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif
