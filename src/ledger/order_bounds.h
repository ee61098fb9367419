/* order_bounds.h: between which values the true peak lies, where the order between threads is open.
 *
 * Fed by the ledger with one line per window (the events of one stream between two of its stamps),
 * in order of their starts. order_bounds.c derives what it computes. */
#ifndef AG_ORDER_BOUNDS_H
#define AG_ORDER_BOUNDS_H

#include <stddef.h>
#include <stdint.h>

struct ag_bounds_stream { /* bytes that one stream's events added up to, since the beginning; may be
                             negative */
    int64_t base;         /* at the start of its window: exact */
    int64_t net;          /* what its window adds in all */
    int64_t high, low;    /* extremes inside of its window, late events included */
    int64_t first_low; /* `low` as it was when the window started: what the floors of that time were
                          made with */
    int64_t attained;  /* surely reached inside of its window; <= high */
    uint64_t step;     /* when its window started */
};
struct ag_bounds_floor { /* least sum of lows over the steps behind the floor below, up to this one
                          */
    uint64_t step;
    int64_t low;
};
enum { AG_BOUNDS_FLOORS = 1024 };

struct ag_order_bounds {
    struct ag_bounds_stream *streams;
    size_t n_streams;
    uint64_t step;
    int64_t sum_high, sum_low;                       /* over all streams */
    int64_t peak_high, peak_low;                     /* the answer so far */
    struct ag_bounds_floor floors[AG_BOUNDS_FLOORS]; /* rising steps, rising lows */
    size_t n_floors;
};

void ag_order_bounds_done(struct ag_order_bounds *bounds);
int ag_order_bounds_add_stream(struct ag_order_bounds *bounds); /* the next index; 0 or -ENOMEM */
/* The next window of a stream: relative to the stream's sum at its start, it rose to RISE >= 0,
 * fell to DIP <= 0 and ended NET higher. */
void ag_order_bounds_window(struct ag_order_bounds *bounds, uint32_t stream, int64_t rise,
                            int64_t dip, int64_t net);
/* An event of the stream's current window whose effect was not known then: it added (or, negative,
 * took) BYTES. */
void ag_order_bounds_late(struct ag_order_bounds *bounds, uint32_t stream, int64_t bytes);
/* The last windows end. */
void ag_order_bounds_finish(struct ag_order_bounds *bounds);
/* A new peak is looked for from here on (a time window of the reader starts). */
void ag_order_bounds_restart(struct ag_order_bounds *bounds);

#endif
