/* timeline.h: the curve of memory over time, with at most AG_TIMELINE_POINTS points for any length
 * of trace, and a queue of measured resident sizes (RSS): each size waits until the events up to
 * its time have been processed. */
#ifndef AG_TIMELINE_H
#define AG_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/decode.h"

enum { AG_TIMELINE_POINTS = 4096 };

struct ag_timeline {                  /* zero-initialize */
    struct ag_timeline_point *points; /* in rising order of times: at most one per slice, plus the
                                       * points of ag_timeline_keep */
    size_t count;
    uint32_t slice_bits; /* a slice is 2^slice_bits ns; its number is time >> slice_bits */
    uint64_t slice;      /* slice of the last point */
};

int ag_timeline_init(struct ag_timeline *timeline);
void ag_timeline_done(struct ag_timeline *timeline);
/* Adds a moment (a time with the totals at this time); times must not decrease. Of the moments in
 * one slice, the one with the most bytes in use is kept. */
void ag_timeline_observe(struct ag_timeline *timeline, const struct ag_timeline_point *moment);
/* Inserts a moment at its place in the curve, whatever its slice. To be called at most twice: for
 * the peak and for the end. The moment's time is a stamp (a clock value among the events) of one
 * thread, and other threads may have later stamps. The sum of allocated bytes never decreases, so
 * the moment is placed after the last point with fewer allocated bytes. If that point is later than
 * the moment, the moment gets that point's time. */
void ag_timeline_keep(struct ag_timeline *timeline, const struct ag_timeline_point *moment);

/* ---- resident sizes ---- */

struct ag_resident {
    uint64_t time_ns, bytes;
};
struct ag_residents { /* zero-initialize */
    struct ag_resident *items;
    size_t first, end; /* waiting: [first, end) */
    uint64_t share;    /* how many measurements each item stands for, a power of two */
    uint64_t in_last;  /* how many measurements the last item stands for so far */
};

void ag_residents_done(struct ag_residents *residents);
/* Adds a measurement, in the order of times. 0 or -ENOMEM. */
int ag_residents_add(struct ag_residents *residents, const struct ag_resident *resident);
/* Removes and returns the oldest measurement if its time is not after TIME_NS. */
bool ag_residents_take(struct ag_residents *residents, uint64_t time_ns,
                       struct ag_resident *ret_resident);

#endif
