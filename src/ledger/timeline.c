/* timeline.c: divides time into slices of 2^n ns and keeps the highest moment of each. When the
 * points run out, n grows by one and neighbours are joined: so every point is a real moment, spikes
 * survive, and the spacing stays even. */
#include "ledger/timeline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SLICE_BITS = 10, /* 1 us: no trace has stamps that are closer together */
    KEPT_APART = 2,        /* room for the peak and the end */
};

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
