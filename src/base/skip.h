/* skip.h: selects blocks for a sampler. Each byte is selected with the same small probability, so
 * only the size of a block determines the probability that the block is selected. No malloc, no
 * libm, safe in a signal handler.
 *
 * The bytes that a thread allocates form one sequence. The sampler chooses points in it: a Poisson
 * process with one point per `interval_bytes` on average. A block is sampled if a point falls into
 * it. So
 *
 *     p(size) = 1 - exp(-(size + 1) / interval_bytes)
 *
 * (each block counts as one byte more than its size, so that blocks of size 0 are sampled too). A
 * sampled block stands for 1 / p(size) blocks and size / p(size) bytes. Both estimates are unbiased
 * for any mix of sizes and any periodic order; docs/explanation/sampling.md has the proof. Instead
 * of a random decision per byte the sampler draws the number of bytes before the next point: the
 * skip. Skips are memoryless: the rest of a skip is distributed like a new skip. So a change of the
 * interval may draw a new skip, the loss of the rest of a skip causes no bias, and a thread may
 * begin anywhere in the sequence. */
#ifndef AG_SKIP_H
#define AG_SKIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* The longest interval: one sample in 8 TiB. With a longer one, the rounding errors of doubles
 * would exceed one byte. */
#define AG_INTERVAL_MAX_BYTES (UINT64_C(1) << 43)

struct ag_skip {
    uint64_t random_state;   /* state of the generator splitmix64 */
    uint64_t interval_bytes; /* 0: every block, p = 1; at most AG_INTERVAL_MAX_BYTES */
    uint64_t left_bytes;     /* bytes before the next point */
};

/* Starts the sequence of a thread. `stream` is a number of the caller's choice. Sequences with
 * different seeds or streams are independent of each other. */
void ag_skip_begin(struct ag_skip *skip, uint64_t seed, uint64_t stream, uint64_t interval_bytes);
/* Changes the interval at once: draws a new skip, so that the old interval has no further
 * effect. */
void ag_skip_set_interval(struct ag_skip *skip, uint64_t interval_bytes);
/* Draws the next skip: the rare case of ag_skip_take_fast. */
void ag_skip_draw_slow(struct ag_skip *skip);
/* The number of points in a block of size_bytes + 1 bytes, each of which is a point with
 * probability p(0); 1 for interval 0. The block is sampled if the result is at least 1. Points
 * beyond AG_SKIP_MOST_POINTS of one block are not drawn one by one: their mean is added. */
uint64_t ag_skip_points(struct ag_skip *skip, uint64_t size_bytes);
enum { AG_SKIP_MOST_POINTS = 4096 };

/* p(size) as defined at the top of this file; 1 for interval 0. Never 0, never NaN. */
double ag_skip_probability(uint64_t size_bytes, uint64_t interval_bytes);

/* Whether a point falls into a block of this size; the sequence continues after the block. Budget:
 * a load, a subtraction, a branch and a store. */
AG_FAST bool ag_skip_take_fast(struct ag_skip *skip, uint64_t size_bytes) {
    if (AG_LIKELY(size_bytes < skip->left_bytes)) {
        skip->left_bytes -= size_bytes + 1;
        return false;
    }
    ag_skip_draw_slow(skip);
    return true;
}

/* Spreads differing bits over the whole word (the finalizer of splitmix64). */
AG_FAST uint64_t ag_mix_bits(uint64_t value) {
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* The next number of a splitmix64 sequence (S. Vigna's public domain description): 64 good bits. */
AG_FAST uint64_t ag_random_next(uint64_t *state) {
    return ag_mix_bits(*state += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
