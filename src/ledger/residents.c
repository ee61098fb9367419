/* residents.c: a list of measured resident sizes that wait for the events of their time.
 *
 * A recording is measured by the clock, but its events come by the chunk, minutes later if a
 * program does little. When the list is full, each pair of neighbours is replaced by the higher
 * one, over the whole list: so it contains the peak, its spacing is even, and days of inactivity
 * cost no more than this list. */
#include "ledger/residents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WAITING_MOST = 4096 }; /* as many as a timeline has points; must be even */

void ag_residents_done(struct ag_residents *residents) {
    free(residents->items);
    *residents = (struct ag_residents){0};
}

static struct ag_resident higher(struct ag_resident first, struct ag_resident second) {
    return first.bytes > second.bytes ? first : second;
}

static void residents_make_room(struct ag_residents *residents) {
    struct ag_resident *items = residents->items;
    const size_t n = residents->end - residents->first;
    memmove(items, items + residents->first, n * sizeof(*items));
    residents->first = 0;
    residents->end = n;
    if (n == WAITING_MOST) {
        for (size_t i = 0; i < n / 2; i++) {
            items[i] = higher(items[2 * i], items[2 * i + 1]);
        }
        residents->end = n / 2;
        residents->share *= 2;
    }
}

int ag_residents_add(struct ag_residents *residents, const struct ag_resident *resident) {
    if (!residents->items) {
        residents->items = calloc(WAITING_MOST, sizeof(*residents->items));
        if (!residents->items) {
            return -ENOMEM;
        }
    }
    if (residents->first == residents->end) {
        residents->first = residents->end = 0;
        residents->share = 1;
    } else if (residents->in_last < residents->share) {
        struct ag_resident *last = &residents->items[residents->end - 1];
        *last = higher(*last, *resident);
        residents->in_last++;
        return 0;
    }
    if (residents->end == WAITING_MOST) {
        residents_make_room(residents);
    }
    residents->items[residents->end++] = *resident;
    residents->in_last = 1;
    return 0;
}

bool ag_residents_take(struct ag_residents *residents, uint64_t time_ns,
                       struct ag_resident *ret_resident) {
    if (residents->first == residents->end ||
        residents->items[residents->first].time_ns > time_ns) {
        return false;
    }
    *ret_resident = residents->items[residents->first++];
    return true;
}
