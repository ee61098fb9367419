/* skip.c: draws skips (the bytes before a sampler's next sample) and computes the probability that
 * a block is sampled. It has its own logarithm and exponential function, because the agent (the
 * library inside the profiled process) does not link libm.
 *
 * A skip is the integer part of an exponentially distributed variable with mean interval_bytes.
 * This distribution is exact, not an approximation: P(skip >= n) = exp(-n / interval) for every
 * integer n. So a block of n bytes is skipped with exactly this probability, and the rest of a skip
 * after n bytes is distributed like a new one.
 *
 * The functions of this file that the agent may call in an allocation of the program do not change
 * the program's vector registers, rounding mode and floating-point exceptions (vector_state.h). */
#include "base/skip.h"

#include <string.h>

#include "base/vector_state.h"

#define LN_2 0.693147180559945309417232121458
#define SQRT_2 1.41421356237309504880168872421

static double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The natural logarithm of a positive normal number, to a few units in the last place: splits
 * exponent and mantissa, and computes the logarithm of the mantissa, scaled to [sqrt(1/2),
 * sqrt(2)), by the series of 2 artanh(s). */
static double natural_logarithm(double x) {
    const uint64_t bits = bits_of_double(x);
    int exponent = (int)(bits >> 52) - 1023;
    double mantissa = double_of_bits((bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52);

    if (mantissa > SQRT_2) {
        mantissa *= 0.5;
        exponent++;
    }
    const double s = (mantissa - 1) / (mantissa + 1), square = s * s; /* |s| < 0.1716 */
    double sum = 0;
    for (int odd = 17; odd >= 1; odd -= 2) { /* further terms are below 2^-53 of the first */
        sum = sum * square + 1.0 / odd;
    }
    return exponent * LN_2 + 2 * s * sum;
}

/* 1 - exp(-x) for x >= 0. The relative error is small even if the result is tiny. */
static double one_minus_exp_of_minus(double x) {
    if (x > 64) {
        return 1; /* exp(-x) is below half a unit in the last place of 1 */
    }
    const int halvings = (int)(x / LN_2 + 0.5);
    const double rest = x - halvings * LN_2; /* |rest| < 0.35 */
    double series = 0;                       /* 1 - exp(-rest) */
    for (int n = 14; n >= 1; n--) {
        series = rest / n * (1 - series);
    }
    const double power = double_of_bits((uint64_t)(1023 - halvings) << 52); /* 2^-halvings */
    return (1 - power) + power * series;
}

/* Draws -ln(u) for a uniform random number u = (n + 0.5) / 2^64 with an integer n from 0 to 2^64 -
 * 1. The 0.5 avoids ln(0). */
static double exponential(uint64_t *random_state) {
    const double numerator = (double)ag_random_next(random_state) + 0.5;
    const double drawn = 64 * LN_2 - natural_logarithm(numerator);
    return drawn > 0 ? drawn : 0;
}

static void draw(struct ag_skip *skip) {
    skip->left_bytes = (uint64_t)(exponential(&skip->random_state) * (double)skip->interval_bytes);
}

static void draw_kept(void *context) {
    draw(context);
}

AG_COLD void ag_skip_draw_slow(struct ag_skip *skip) {
    ag_call_keeping_sse(draw_kept, skip);
}

void ag_skip_begin(struct ag_skip *skip, uint64_t seed, uint64_t stream, uint64_t interval_bytes) {
    uint64_t state = seed;
    state = ag_random_next(&state) ^ stream;
    skip->random_state = ag_random_next(&state);
    ag_skip_set_interval(skip, interval_bytes);
}

void ag_skip_set_interval(struct ag_skip *skip, uint64_t interval_bytes) {
    skip->interval_bytes =
        interval_bytes < AG_INTERVAL_MAX_BYTES ? interval_bytes : AG_INTERVAL_MAX_BYTES;
    ag_skip_draw_slow(skip);
}

/* The expected number of points in the rest of a block. It is rounded up or down at random, so that
 * the mean of the results is exact. */
static uint64_t expected_points(struct ag_skip *skip, uint64_t size_bytes) {
    const double most = (double)(UINT64_C(1) << 62), chance = 0x1p-53;
    const double mean = ((double)size_bytes + 1) * ag_skip_probability(0, skip->interval_bytes);
    const double rounding = (double)(ag_random_next(&skip->random_state) >> 11) * chance;
    return (uint64_t)((mean < most ? mean : most) + rounding);
}

struct points {
    struct ag_skip *skip;
    uint64_t size_bytes, n_points;
};

static void count_points(void *context) {
    struct points *points = context;
    struct ag_skip *skip = points->skip;
    uint64_t size_bytes = points->size_bytes;
    while (size_bytes >= skip->left_bytes) {
        if (points->n_points == AG_SKIP_MOST_POINTS) {
            points->n_points += expected_points(skip, size_bytes);
            draw(skip);
            return;
        }
        points->n_points++;
        /* the point is in the byte that is added to the size of each block (see skip.h) */
        if (size_bytes == skip->left_bytes) {
            draw(skip);
            return;
        }
        size_bytes -= skip->left_bytes + 1;
        draw(skip);
    }
    skip->left_bytes -= size_bytes + 1;
}

uint64_t ag_skip_points(struct ag_skip *skip, uint64_t size_bytes) {
    struct points points = {.skip = skip, .size_bytes = size_bytes};
    if (skip->interval_bytes == 0) {
        return 1;
    }
    if (AG_LIKELY(size_bytes < skip->left_bytes)) {
        skip->left_bytes -= size_bytes + 1;
        return 0;
    }
    ag_call_keeping_sse(count_points, &points);
    return points.n_points;
}

double ag_skip_probability(uint64_t size_bytes, uint64_t interval_bytes) {
    if (interval_bytes == 0) {
        return 1;
    }
    return one_minus_exp_of_minus(((double)size_bytes + 1) / (double)interval_bytes);
}
