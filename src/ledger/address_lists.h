/* address_lists.h: keeps a list of items for each address, in the order in which they were added.
 * Each item gets a number (1, 2, 3 ...), by which open_deaths.c and order_repair.c index their
 * arrays. The number of a removed item is given to a later item. */
#ifndef AG_ADDRESS_LISTS_H
#define AG_ADDRESS_LISTS_H

#include "table/index_map.h"

struct ag_address_link {
    uint64_t address;
    /* the previous and the next item; `before` of the first item is the last item, `behind` of the
     * last item is 0 */
    uint32_t before, behind;
};
struct ag_address_lists { /* zero-initialize */
    /* index: the item's number; unused items form a list, linked by `behind` */
    struct ag_address_link *links;
    size_t capacity;
    /* count: the highest number so far; first_free: the first unused item, 0: none */
    uint32_t count, first_free;
    struct ag_index_map first; /* address -> number of the first item */
};

void ag_address_lists_done(struct ag_address_lists *lists);
/* Adds an item at the end of the list of ADDRESS, and returns its number; 0: no memory. */
uint32_t ag_address_lists_add(struct ag_address_lists *lists, uint64_t address);
void ag_address_lists_remove(struct ag_address_lists *lists, uint32_t number);

/* Return the first and last item of a list, and the neighbors of an item; 0: there is none. */
static inline uint32_t ag_address_lists_first(const struct ag_address_lists *lists,
                                              uint64_t address) {
    const uint32_t first = ag_index_map_find(&lists->first, address);
    return first != AG_INDEX_NONE ? first : 0;
}
static inline uint32_t ag_address_lists_last(const struct ag_address_lists *lists,
                                             uint64_t address) {
    const uint32_t first = ag_address_lists_first(lists, address);
    return first ? lists->links[first].before : 0;
}
static inline uint32_t ag_address_lists_next(const struct ag_address_lists *lists,
                                             uint32_t number) {
    return lists->links[number].behind;
}
static inline uint32_t ag_address_lists_previous(const struct ag_address_lists *lists,
                                                 uint32_t number) {
    const uint32_t before = lists->links[number].before;
    return lists->links[before].behind == number ? before : 0;
}

#endif
