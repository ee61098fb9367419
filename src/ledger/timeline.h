/* timeline.h: the curve of memory over time, at most AG_TIMELINE_POINTS real moments whatever the
 * trace's length. */
#ifndef AG_TIMELINE_H
#define AG_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "format/decode.h"

enum { AG_TIMELINE_POINTS = 4096 };

struct ag_timeline {                  /* zero-initialise */
    struct ag_timeline_point *points; /* in rising order of times, at most one per slice */
    size_t count;
    uint32_t slice_bits; /* a slice is 2^slice_bits ns; its number is time >> slice_bits */
    uint64_t slice;      /* of the last point */
};

int ag_timeline_init(struct ag_timeline *timeline);
void ag_timeline_done(struct ag_timeline *timeline);
/* Adds a moment; times must not decrease. Of those in one slice the highest is kept. */
void ag_timeline_observe(struct ag_timeline *timeline, const struct ag_timeline_point *moment);
/* Inserts a moment at its place in the curve, whatever its slice; for the peak and the end, at most
 * 2 times. Its time is the stamp of its own thread, and others may have been ahead: it is placed
 * after every point with fewer allocated bytes, and takes that point's time. */
void ag_timeline_keep(struct ag_timeline *timeline, const struct ag_timeline_point *moment);

#endif
