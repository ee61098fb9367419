/* node_pace.h: chooses which collections are reported, if there are too many to report each.
 *
 * All allocated bytes form a line. Random points lie on the line, `period_bytes` apart on average:
 * a Poisson process. A collection before which n bytes were allocated takes the next n bytes of the
 * line. If there is a point among these bytes, the collection is reported. Its weight is the number
 * of bytes that it stands for: those from the last point of the previous reported collection to its
 * own last point. Otherwise the collection is not reported and costs a comparison and a
 * subtraction.
 *
 *     bytes   |.....a.....|..b..|.......c.......|.d.|....      collections
 *     points       ^                ^      ^
 *             a: up to here         c: from there to its last point
 *
 * Each byte is a point with the same probability, whatever came before. So the expected sum of a
 * function's weights is the number of bytes that it allocated. The sum of all weights is the number
 * of all allocated bytes, except for those after the last point. Of the points within one
 * collection only the last one matters. Its distance from the end of the collection's bytes has an
 * exponential distribution, because a Poisson process is the same in both directions.
 *
 * Without a period each collection is reported, with its own bytes. This file is compiled for two
 * machines, BPF and the CPU. The kernel half (node.bpf.c) has one struct node_pace for each
 * thread. */
#ifndef AG_NODE_PACE_H
#define AG_NODE_PACE_H

#include <linux/types.h>

#define NODE_PACE_INLINE static inline __attribute__((always_inline))

struct node_pace {
    __u64 period_bytes; /* the period that `left_bytes` was drawn with; 0: none */
    __u64 left_bytes;   /* from the current place on the line to the next point; at least 1 if there
                         * is a period */
    __u64 gap_bytes;    /* from the last point of the last reported collection to the next point */
};

/* Returns 1 if a collection before which BYTES were allocated is not reported. */
NODE_PACE_INLINE int node_pace_passes(struct node_pace *pace, __u64 bytes, __u64 period_bytes) {
    if (pace->period_bytes != period_bytes || bytes >= pace->left_bytes) {
        return 0;
    }
    pace->left_bytes -= bytes;
    return 1;
}

/* The number of leading zero bits; NUMBER is not 0. (clang 14 has no such builtin for BPF.) */
NODE_PACE_INLINE __u32 node_pace_zeros(__u32 number) {
    __u32 n = 0;
    for (__u32 step = 16; step > 0; step /= 2) {
        if (number >> (32 - step) == 0) {
            number <<= step;
            n += step;
        }
    }
    return n;
}

/* A random distance with an exponential distribution of the mean PERIOD_BYTES, from 32 random bits:
 * -ln(u) in integers. The logarithm to base 2 of 1 + m is a polynomial, exact to 0.001. */
NODE_PACE_INLINE __u64 node_pace_distance(__u64 period_bytes, __u32 random) {
    const __u64 one = 1 << 16, ln_2 = 45426;
    const __u32 bits = random | 1;
    const __u32 zeros = node_pace_zeros(bits);
    const __u64 m = (bits << zeros << 1) >> 16;
    const __u64 log_2 = (m * (93270 - (m * (38147 - (m * 10414 >> 16)) >> 16))) >> 16;
    const __u64 factor = ((zeros + 1) * one - log_2) * ln_2 >> 16; /* at most 22.2 */
    return (period_bytes * factor >> 16) + 1;
}

/* Called if node_pace_passes returned 0, or was not called. Returns the weight of the collection;
 * 0: no point lies among its bytes (the period has changed, or node_pace_passes was not called).
 * FIRST and SECOND: random bits. Periods are below 4 GiB. */
NODE_PACE_INLINE __u64 node_pace_weight(struct node_pace *pace, __u64 bytes, __u64 period_bytes,
                                        __u32 first, __u32 second) {
    if (pace->period_bytes != period_bytes) {
        /* the distance to the next point does not depend on the past, so it may be drawn anew */
        pace->gap_bytes -= pace->left_bytes;
        pace->period_bytes = period_bytes;
        pace->left_bytes = period_bytes != 0 ? node_pace_distance(period_bytes, first) : 0;
        pace->gap_bytes += pace->left_bytes;
        first = second ^ 0x9e3779b9;
    }
    if (bytes < pace->left_bytes) {
        pace->left_bytes -= bytes;
        return 0;
    }
    const __u64 over = bytes - pace->left_bytes; /* after the collection's first point */
    if (period_bytes == 0) {
        const __u64 weight = pace->gap_bytes + over;
        pace->gap_bytes = 0;
        return weight;
    }
    const __u64 back = node_pace_distance(period_bytes, first);
    const __u64 rest = back < over ? back : over; /* after the collection's last point */
    const __u64 weight = pace->gap_bytes + over - rest;
    pace->left_bytes = node_pace_distance(period_bytes, second);
    pace->gap_bytes = rest + pace->left_bytes;
    return weight;
}

#endif
