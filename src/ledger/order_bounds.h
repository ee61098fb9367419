/* order_bounds.h: computes bounds for the true peak when the order between threads is unknown.
 *
 * A stream is the events of one thread. A window is the events of a stream between two stamps
 * (clock values). A step is the time between two neighboring starts of windows. The ledger, which
 * computes sums from the events, calls ag_order_bounds_window for each window, in the order of the
 * windows' starts. order_bounds.c derives the bounds. */
#ifndef AG_ORDER_BOUNDS_H
#define AG_ORDER_BOUNDS_H

#include <stddef.h>
#include <stdint.h>

struct ag_bounds_stream { /* running sum of the bytes of one stream's events; may be negative */
    int64_t base;         /* the exact sum at the start of the stream's window */
    int64_t net;          /* the change over the whole window */
    /* extremes inside the window, with its late events (ag_order_bounds_late) */
    int64_t high, low;
    /* `low` when the window started, before late events; the floors from that time contain this
     * value */
    int64_t first_low;
    int64_t attained; /* a value that the sum certainly reached inside the window; <= high */
    uint64_t step;    /* the step in which the window started */
};
/* the least sum of all streams' lows in the steps after the previous floor, up to this step */
struct ag_bounds_floor {
    uint64_t step;
    int64_t low;
};
enum { AG_BOUNDS_FLOORS = 1024 };

struct ag_order_bounds {
    struct ag_bounds_stream *streams;
    size_t n_streams;
    uint64_t step;                                   /* number of the current step */
    int64_t sum_high, sum_low;                       /* sums of the streams' high and low */
    int64_t peak_high, peak_low;                     /* the bounds so far */
    struct ag_bounds_floor floors[AG_BOUNDS_FLOORS]; /* steps and lows both rise */
    size_t n_floors;
};

void ag_order_bounds_done(struct ag_order_bounds *bounds);
/* Adds a stream, whose index is the number of streams before. Returns 0 or -ENOMEM. */
int ag_order_bounds_add_stream(struct ag_order_bounds *bounds);
/* Adds the next window of a stream: relative to the stream's sum at the window's start, the sum
 * rose to RISE >= 0, fell to DIP <= 0 and ended NET higher. */
void ag_order_bounds_window(struct ag_order_bounds *bounds, uint32_t stream, int64_t rise,
                            int64_t dip, int64_t net);
/* Adds an event of the stream's current window whose effect was unknown before: BYTES more in use
 * (less, if negative). */
void ag_order_bounds_late(struct ag_order_bounds *bounds, uint32_t stream, int64_t bytes);
/* Ends the last window of each stream. */
void ag_order_bounds_finish(struct ag_order_bounds *bounds);
/* Starts a new search for the peak, when the time window of a report begins. */
void ag_order_bounds_restart(struct ag_order_bounds *bounds);

#endif
