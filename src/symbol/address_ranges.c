/* address_ranges.c: keeps address ranges in a sorted array. Each range stores the highest end of
 * itself and of all ranges before it, so that a search can end early. */
#include "address_ranges.h"

#include <errno.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "table/array.h"

enum {
    /* limits the steps of a search, if a hostile file has many overlapping ranges */
    STEPS_BACK = 256,
};

int ag_address_ranges_add(struct ag_address_ranges *ranges, uint64_t low, uint64_t high,
                          size_t value) {
    const struct ag_address_range range = {.low = low, .high = high, .value = value};
    return low < high ? AG_ARRAY_ADD(ranges->items, ranges->n, range) : 0;
}

/* Of two ranges with equal low, the wider one comes first, so the last range that contains an
 * address is the innermost. */
static int address_ranges_compare(const void *left, const void *right) {
    const struct ag_address_range *a = left, *b = right;
    if (a->low != b->low) {
        return a->low < b->low ? -1 : 1;
    }
    if (a->high != b->high) {
        return a->high > b->high ? -1 : 1;
    }
    return a->value < b->value ? -1 : a->value > b->value;
}

void ag_address_ranges_sort(struct ag_address_ranges *ranges) {
    if (ranges->n == 0) {
        return;
    }
    qsort(ranges->items, ranges->n, sizeof(ranges->items[0]), address_ranges_compare);
    uint64_t reach = 0;
    for (size_t i = 0; i < ranges->n; i++) {
        reach = ranges->items[i].high > reach ? ranges->items[i].high : reach;
        ranges->items[i].reach = reach;
    }
}

const struct ag_address_range *ag_address_ranges_find(const struct ag_address_ranges *ranges,
                                                      uint64_t address) {
    /* items[above - 1].low <= address < items[above].low */
    const size_t above = AG_SORTED_UNTIL(ranges->items, ranges->n, low, address);
    for (size_t step = 0; step < STEPS_BACK && step < above; step++) {
        const struct ag_address_range *range = &ranges->items[above - 1 - step];
        if (address < range->high) {
            return range;
        }
        if (address >= range->reach) {
            return NULL;
        }
    }
    return NULL;
}

void ag_address_ranges_clear(struct ag_address_ranges *ranges) {
    free(ranges->items);
    *ranges = (struct ag_address_ranges){0};
}
