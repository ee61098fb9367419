/* timeline.c: the curve of memory over time, and the resident sizes that wait to become part of it.
 *
 * 1. The curve. Time is divided into slices of 2^n ns, and the moment of each slice with the most
 *    bytes in use is kept as a point. When all points are used, n grows by one and each pair of
 *    neighbors is replaced by the higher point: so every point is a real moment, short peaks are
 *    kept, and the spacing stays even.
 *
 * 2. Resident sizes. The resident size is measured at regular times, but events arrive in chunks,
 *    which may come minutes later if the program records few events. So a measurement waits until
 *    the events up to its time have arrived. When the list is full, each pair of neighbors in the
 *    whole list is replaced by the higher one of the two. So the list still contains the peak, its
 *    items stay evenly spaced, and it does not grow in days of inactivity. */
#include "ledger/timeline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SLICE_BITS = 10, /* slices of 1 us; stamps are seldom closer together */
    KEPT_APART = 2,        /* points that stay free for the peak and the end */
    WAITING_MOST = 4096,   /* most resident sizes that wait; even, so that all have a neighbor */
};

/* ---- 1. the curve ---- */

int ag_timeline_init(struct ag_timeline *timeline) {
    timeline->points = calloc(AG_TIMELINE_POINTS, sizeof(*timeline->points));
    timeline->slice_bits = FIRST_SLICE_BITS;
    return timeline->points ? 0 : -ENOMEM;
}

void ag_timeline_done(struct ag_timeline *timeline) {
    free(timeline->points);
    *timeline = (struct ag_timeline){0};
}

static void timeline_append(struct ag_timeline *timeline, const struct ag_timeline_point *moment) {
    const uint64_t slice = moment->time_ns >> timeline->slice_bits;
    if (timeline->count > 0 && slice == timeline->slice) {
        struct ag_timeline_point *last = &timeline->points[timeline->count - 1];
        if (moment->in_use_bytes >= last->in_use_bytes) {
            *last = *moment;
        }
        return;
    }
    timeline->points[timeline->count++] = *moment;
    timeline->slice = slice;
}

void ag_timeline_observe(struct ag_timeline *timeline, const struct ag_timeline_point *moment) {
    while (timeline->count == AG_TIMELINE_POINTS - KEPT_APART) {
        const size_t count = timeline->count;
        timeline->count = 0;
        timeline->slice_bits++;
        for (size_t i = 0; i < count; i++) {
            timeline_append(timeline, &timeline->points[i]);
        }
    }
    timeline_append(timeline, moment);
}

/* Of two points at one time, the one with fewer allocated bytes comes first. */
static bool is_behind(const struct ag_timeline_point *point, const struct ag_timeline_point *kept) {
    return point->time_ns == kept->time_ns
               ? point->allocated_bytes > kept->allocated_bytes
               : point->time_ns > kept->time_ns && point->allocated_bytes >= kept->allocated_bytes;
}

void ag_timeline_keep(struct ag_timeline *timeline, const struct ag_timeline_point *moment) {
    struct ag_timeline_point kept = *moment;
    size_t at = timeline->count;
    while (at > 0 && is_behind(&timeline->points[at - 1], &kept)) {
        at--;
    }
    if (at > 0 && timeline->points[at - 1].time_ns > kept.time_ns) {
        kept.time_ns = timeline->points[at - 1].time_ns;
    }
    if (at > 0 && memcmp(&timeline->points[at - 1], &kept, sizeof(kept)) == 0) {
        return;
    }
    if (timeline->count < AG_TIMELINE_POINTS) {
        memmove(&timeline->points[at + 1], &timeline->points[at],
                (timeline->count - at) * sizeof(kept));
        timeline->points[at] = kept;
        timeline->count++;
    }
}

/* ---- 2. resident sizes ---- */

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
