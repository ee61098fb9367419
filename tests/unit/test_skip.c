/* test_skip.c: the random numbers of the sampler. A skip is the number of bytes until the next
 * sample. By the Anderson-Darling test, skips must be exponentially distributed, over many seeds
 * and over many streams (threads) of one seed. Each block must be sampled with the probability that
 * its size requires, whatever blocks come before it. The sampler's own logarithm and exponential
 * agree with libm's.
 *
 * The seeds are fixed, so each run has the same result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/skip.h"

enum { N_SEEDS = 400, N_SKIPS = 2000, INTERVAL = 512 * 1024 };

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The Anderson-Darling statistic of skips against the exponential distribution with a given mean,
 * with no parameter estimated from the skips: above 2.492 in 5 % of all cases, above 3.857 in 1 %
 * (Anderson and Darling 1954). */
static double anderson_darling(const uint64_t *skips, int n, double mean) {
    double *const sorted = calloc((size_t)n, sizeof *sorted), sum = 0;
    for (int i = 0; i < n; i++) {
        sorted[i] = ((double)skips[i] + 0.5) / mean;
    }
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    for (int i = 0; i < n; i++) { /* ln F(x) and, from the other end, ln(1 - F(x)) = -x */
        sum += (2 * i + 1) * (log(-expm1(-sorted[i])) - sorted[n - 1 - i]);
    }
    free(sorted);
    return -n - sum / n;
}

static void draw_many(uint64_t seed, uint64_t interval_bytes, uint64_t *ret_skips) {
    struct ag_skip skip;
    ag_skip_begin(&skip, seed, 0, interval_bytes);
    for (int i = 0; i < N_SKIPS; i++) {
        ret_skips[i] = skip.left_bytes;
        ag_skip_draw_slow(&skip);
    }
}

static void skips_of_each_seed_are_exponential(void **state) {
    (void)state;
    static uint64_t skips[N_SKIPS];
    int n_above_5_percent = 0, n_above_1_percent = 0, n_wrong_mean_seen = 0;

    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        draw_many(seed, INTERVAL, skips);
        const double statistic = anderson_darling(skips, N_SKIPS, INTERVAL);
        n_above_5_percent += statistic > 2.492;
        n_above_1_percent += statistic > 3.857;
        n_wrong_mean_seen += anderson_darling(skips, N_SKIPS, INTERVAL * 1.2) > 3.857;
    }
    /* The numbers are binomial, 20 +- 4.4 and 4 +- 2. The limits are three and a half standard
     * deviations away. */
    assert_in_range(n_above_5_percent, 5, 35);
    assert_in_range(n_above_1_percent, 0, 11);
    /* the test can detect a wrong mean: it nearly always rejects a mean that is a fifth off */
    assert_true(n_wrong_mean_seen > N_SEEDS * 9 / 10);
}

static void first_skips_of_many_streams_are_exponential(void **state) {
    (void)state;
    static uint64_t by_stream[N_SKIPS], by_seed[N_SKIPS];
    for (uint64_t i = 0; i < N_SKIPS; i++) {
        struct ag_skip skip;
        ag_skip_begin(&skip, /* seed= */ 1, i, INTERVAL);
        by_stream[i] = skip.left_bytes;
        ag_skip_begin(&skip, i, /* stream= */ 1, INTERVAL);
        by_seed[i] = skip.left_bytes;
    }
    assert_true(anderson_darling(by_stream, N_SKIPS, INTERVAL) < 3.857);
    assert_true(anderson_darling(by_seed, N_SKIPS, INTERVAL) < 3.857);
}

/* The rest of a skip after a block that was not sampled has the distribution of a new skip. */
static void the_rest_of_a_skip_is_exponential(void **state) {
    (void)state;
    static uint64_t left[N_SKIPS];
    struct ag_skip skip;
    ag_skip_begin(&skip, 7, 0, INTERVAL);
    for (int n = 0; n < N_SKIPS;) {
        if (ag_skip_take_fast(&skip, INTERVAL / 3)) {
            continue;
        }
        left[n++] = skip.left_bytes;
        ag_skip_draw_slow(&skip);
    }
    assert_true(anderson_darling(left, N_SKIPS, INTERVAL) < 3.857);
}

static void logarithm_and_exponential_agree_with_libm(void **state) {
    (void)state;
    for (double x = 1e-6; x < 1e3; x *= 1.01) {
        const uint64_t interval = UINT64_C(1) << 40;
        const uint64_t size = (uint64_t)(x * (double)interval);
        const double expected = -expm1(-((double)size + 1) / (double)interval);
        const double p = ag_skip_probability(size, interval);
        assert_true(fabs(p - expected) <= 4e-16 * expected);
    }
    for (uint64_t seed = 0; seed < 100000; seed++) {
        struct ag_skip skip = {.random_state = seed, .interval_bytes = AG_INTERVAL_MAX_BYTES};
        uint64_t same = seed;
        const double u = ((double)ag_random_next(&same) + 0.5) * 0x1p-64;
        ag_skip_draw_slow(&skip);
        const double expected = -log(u) * (double)AG_INTERVAL_MAX_BYTES;
        assert_true(fabs((double)skip.left_bytes - expected) <= 1 + expected * 1e-15);
    }
}

static void the_probability_is_right_for_the_smallest_and_largest_sizes(void **state) {
    (void)state;
    assert_true(ag_skip_probability(0, 0) == 1);
    assert_true(ag_skip_probability(UINT64_MAX, 0) == 1);
    assert_true(ag_skip_probability(UINT64_MAX, 1) == 1);
    assert_true(ag_skip_probability(0, AG_INTERVAL_MAX_BYTES) > 0);
    const double smallest = ag_skip_probability(0, UINT64_MAX);
    assert_true(smallest > 0 && smallest < 1e-18);
}

/* Allocates blocks of the given sizes in turn, and checks that each size is sampled as often as it
 * requires. (With two sizes, a sampler that skips a fixed number of bytes would sample only one of
 * them.) by_points: calls the function that counts all samples within a block. */
static void check_mix(uint64_t interval_bytes, const uint64_t *sizes, int n_sizes, bool by_points) {
    enum { ROUNDS = 100000 };
    double n_taken[8] = {0};
    struct ag_skip skip;
    ag_skip_begin(&skip, 42, interval_bytes, interval_bytes);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n_sizes; i++) {
            n_taken[i] += by_points ? ag_skip_points(&skip, sizes[i]) > 0
                                    : ag_skip_take_fast(&skip, sizes[i]);
        }
    }
    for (int i = 0; i < n_sizes; i++) {
        const double p = -expm1(-((double)sizes[i] + 1) / (double)interval_bytes);
        const double deviation = sqrt(ROUNDS * p * (1 - p)) + 1e-9;
        assert_true(fabs(n_taken[i] - ROUNDS * p) < 4 * deviation);
    }
}

static void sizes_in_a_period_are_taken_by_their_chance(void **state) {
    (void)state;
    static const uint64_t two[] = {152, 1048}, powers[] = {0, 1, 2, 4, 8, 16, 32, 64},
                          wide[] = {0, 100, 10000, 1000000, 100000000};
    for (int by_points = 0; by_points < 2; by_points++) {
        check_mix(4096, two, 2, by_points);
        check_mix(1200, two, 2, by_points); /* the interval is the sum of the two sizes */
        check_mix(1, powers, 8, by_points);
        check_mix(64, powers, 8, by_points);
        check_mix(100000, wide, 5, by_points);
    }
}

/* The mean number of points (samples; a block may have several) is one per interval, also for large
 * blocks, whose points are not drawn one by one.
 */
static void points_have_their_mean(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 10, 1000, 1000000, 3000000};
    const uint64_t interval_bytes = 100;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ag_skip skip;
        double sum = 0, mean = ((double)sizes[i] + 1) * -expm1(-1.0 / interval_bytes);
        enum { ROUNDS = 300 };
        ag_skip_begin(&skip, 5, i, interval_bytes);
        for (int round = 0; round < ROUNDS; round++) {
            sum += (double)ag_skip_points(&skip, sizes[i]);
        }
        assert_true(fabs(sum - ROUNDS * mean) < 4 * sqrt(ROUNDS * mean));
    }
}

static void interval_0_takes_every_block(void **state) {
    (void)state;
    struct ag_skip skip;
    ag_skip_begin(&skip, 1, 1, 0);
    for (uint64_t size = 0; size < 1000; size++) {
        assert_true(ag_skip_take_fast(&skip, size));
        assert_int_equal(ag_skip_points(&skip, size), 1);
    }
}

/* The interval changes all the time. If each sample is weighted by the interval at its time, the
 * estimates must have no bias. */
static void a_changing_interval_stays_unbiased(void **state) {
    (void)state;
    enum { ROUNDS = 2000000, SIZE = 152 };
    double estimate = 0, variance = 0;
    struct ag_skip skip;
    ag_skip_begin(&skip, 3, 0, 1024);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (round % 77 == 0) {
            ag_skip_set_interval(&skip, 512 + round % 9000);
        }
        const double p = ag_skip_probability(SIZE, skip.interval_bytes);
        if (ag_skip_take_fast(&skip, SIZE)) {
            estimate += 1 / p;
            variance += (1 - p) / (p * p);
        }
    }
    assert_true(fabs(estimate - ROUNDS) < 4 * sqrt(variance));
    assert_true(fabs(estimate - ROUNDS) < 0.005 * ROUNDS);
}

static void extreme_sizes_and_intervals_do_not_overflow(void **state) {
    (void)state;
    struct ag_skip skip;
    ag_skip_begin(&skip, 1, 1, UINT64_MAX);
    assert_int_equal(skip.interval_bytes, AG_INTERVAL_MAX_BYTES);
    ag_skip_set_interval(&skip, 1);
    assert_true(ag_skip_points(&skip, UINT64_MAX) > UINT64_C(1) << 61);
    assert_true(ag_skip_take_fast(&skip, UINT64_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skips_of_each_seed_are_exponential),
        cmocka_unit_test(first_skips_of_many_streams_are_exponential),
        cmocka_unit_test(the_rest_of_a_skip_is_exponential),
        cmocka_unit_test(logarithm_and_exponential_agree_with_libm),
        cmocka_unit_test(the_probability_is_right_for_the_smallest_and_largest_sizes),
        cmocka_unit_test(sizes_in_a_period_are_taken_by_their_chance),
        cmocka_unit_test(points_have_their_mean),
        cmocka_unit_test(interval_0_takes_every_block),
        cmocka_unit_test(a_changing_interval_stays_unbiased),
        cmocka_unit_test(extreme_sizes_and_intervals_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
