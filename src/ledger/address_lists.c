/* address_lists.c: adds items to the list of an address and removes items from it, see
 * address_lists.h. */
#include "ledger/address_lists.h"

#include <stdlib.h>

#include "table/array.h"

void ag_address_lists_done(struct ag_address_lists *lists) {
    free(lists->links);
    ag_index_map_done(&lists->first);
    *lists = (struct ag_address_lists){0};
}

uint32_t ag_address_lists_add(struct ag_address_lists *lists, uint64_t address) {
    const uint32_t first = ag_address_lists_first(lists, address);
    uint32_t number = lists->first_free;
    if (!number) {
        if (AG_ARRAY_EXTEND(lists->links, lists->capacity, lists->count + (size_t)2) < 0) {
            return 0;
        }
        number = lists->count + 1;
    }
    if (!first && ag_index_map_insert(&lists->first, address, number) < 0) {
        return 0;
    }
    if (lists->first_free) {
        lists->first_free = lists->links[number].behind;
    } else {
        lists->count++;
    }
    struct ag_address_link *links = lists->links;
    const uint32_t last = first ? links[first].before : number;
    links[number] = (struct ag_address_link){.address = address, .before = last};
    if (first) {
        links[last].behind = number;
        links[first].before = number;
    }
    return number;
}

void ag_address_lists_remove(struct ag_address_lists *lists, uint32_t number) {
    struct ag_address_link *links = lists->links;
    const struct ag_address_link link = links[number];
    const uint32_t first = ag_address_lists_first(lists, link.address);
    if (number != first) {
        links[link.before].behind = link.behind;
        links[link.behind ? link.behind : first].before = link.before;
    } else {
        ag_index_map_remove(&lists->first, link.address, number);
        if (link.behind) {
            links[link.behind].before = link.before;
            /* cannot fail: a key was just removed */
            (void)ag_index_map_insert(&lists->first, link.address, link.behind);
        }
    }
    links[number].behind = lists->first_free;
    lists->first_free = number;
}
