/* address_ranges.h: finds the address range that contains an address; ranges may be nested and
 * overlap. */
#ifndef AG_ADDRESS_RANGES_H
#define AG_ADDRESS_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct ag_address_range {
    uint64_t low, high; /* the range from low to high - 1; low < high */
    /* the greatest `high` of this range and of all ranges before it in the sorted array */
    uint64_t reach;
    size_t value; /* a number for the caller, such as an index */
};
struct ag_address_ranges { /* all zero: empty */
    struct ag_address_range *items;
    size_t n;
};

/* Adds a range; ignores it if LOW >= HIGH. The range is found only after ag_address_ranges_sort.
 * Returns 0 or -ENOMEM. */
int ag_address_ranges_add(struct ag_address_ranges *ranges, uint64_t low, uint64_t high,
                          size_t value);
void ag_address_ranges_sort(struct ag_address_ranges *ranges);
/* Returns the range with the greatest `low` that contains ADDRESS (of nested ranges, the
 * innermost), or NULL. */
const struct ag_address_range *ag_address_ranges_find(const struct ag_address_ranges *ranges,
                                                      uint64_t address);
void ag_address_ranges_clear(struct ag_address_ranges *ranges);

#endif
