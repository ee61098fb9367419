/* test_estimates.c: the estimates that are computed from samples. The test simulates recordings of
 * periodic and heavy-tailed mixes of sizes with the recorder's own skips (random numbers of bytes
 * between two samples, src/base/skip.c), and weights the samples as the model does. Over many seeds
 * the estimates must have no bias, and the 95 % confidence intervals must contain the truth in 95 %
 * of the recordings: with few samples and with many, and also if the sampling interval changes
 * during the recording.
 *
 * The seeds are fixed, so each run has the same result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/skip.h"
#include "model/interval.h"
#include "model/pass/weights.h"
#include "model/profile.h"

/* The weight of a sample is 1 / the probability that its block is sampled. A block with a weight
 * below this one is missed in less than one of 100 recordings. */
#define CERTAIN_WEIGHT 1.01
enum { SEEDS = 4000, ENOUGH = 20 };

typedef uint64_t size_of_block(uint64_t index);
struct mix {
    const char *name;
    size_of_block *size_of;
    uint64_t n_blocks, interval_bytes;
    bool changes; /* the sampling interval changes all the time */
};

static uint64_t small(uint64_t index) {
    (void)index;
    return 152;
}

static uint64_t periodic(uint64_t index) {
    return index % 2 ? 152 : 1048;
}

static uint64_t powers(uint64_t index) {
    return UINT64_C(64) << index % 8;
}

static uint64_t tail(uint64_t index) {
    uint64_t state = index;
    const double u = (double)(ag_random_next(&state) >> 11) * 0x1p-53;
    return (uint64_t)(64 / pow(1 - u, 2.0 / 3));
}

static uint64_t one_hundred(uint64_t index) {
    (void)index;
    return 100;
}

/* One block that is so large that it is always sampled, and small blocks that may all be missed. */
static uint64_t huge_and_small(uint64_t index) {
    return index == 0 ? 3000000 : 100;
}

static uint64_t many_huge_and_small(uint64_t index) {
    return index % 16 == 0 ? 3000000 : 100;
}

static uint64_t large(uint64_t index) {
    return 100000 + index % 100 * 1000;
}

struct recording {
    double blocks, bytes;
    struct ag_metrics metrics;
    uint64_t n_samples, n_certain; /* n_certain: samples with a weight below CERTAIN_WEIGHT */
};

static void record(const struct mix *mix, uint64_t seed, struct recording *ret) {
    struct ag_weights weights = {0};
    struct ag_skip skip;
    struct ag_metrics *metrics = &ret->metrics;
    double blocks_variance = 0, bytes_variance = 0;
    *ret = (struct recording){.n_samples = 0};
    ag_skip_begin(&skip, seed, 1, mix->interval_bytes);
    for (uint64_t i = 0; i < mix->n_blocks; i++) {
        const uint64_t size = mix->size_of(i), interval_bytes = skip.interval_bytes;
        if (!ag_skip_take_fast(&skip, size)) {
            continue;
        }
        const uint32_t group = ag_weights_group(&weights, 16, size, interval_bytes, 1);
        const struct ag_weight *weight = ag_weights_of(&weights, group);
        ret->n_samples++;
        ret->n_certain += weight->blocks < CERTAIN_WEIGHT;
        ret->blocks += weight->blocks;
        ret->bytes += weight->bytes;
        blocks_variance += weight->spread;
        bytes_variance += weight->spread * (double)size * (double)size;
        if (weight->blocks > (double)metrics->heaviest) {
            metrics->heaviest = (float)weight->blocks;
        }
        if (weight->portion_bytes > (double)metrics->portion_bytes) {
            metrics->portion_bytes = (float)weight->portion_bytes;
        }
        if (mix->changes) { /* the interval depends on the samples so far, as with --budget */
            ag_skip_set_interval(&skip, mix->interval_bytes / 4 +
                                            ret->n_samples * 7919 % mix->interval_bytes);
        }
    }
    ag_weights_done(&weights);
    metrics->allocated_blocks = ag_estimate_whole(ret->blocks);
    metrics->allocated_bytes = ag_estimate_whole(ret->bytes);
    metrics->variance[AG_METRIC_ALLOCATED_BLOCKS - AG_METRIC_FIRST] = (float)blocks_variance;
    metrics->variance[AG_METRIC_ALLOCATED_BYTES - AG_METRIC_FIRST] = (float)bytes_variance;
    if (ret->n_samples == 0) { /* as in a profile in which nothing was sampled */
        metrics->portion_bytes = (float)mix->interval_bytes;
    }
}

struct tally { /* of recordings; covered: the interval contains the truth */
    double sum, squares;
    uint64_t n, n_covered_enough, n_enough, n_covered_few, n_few, n_covered_none, n_none;
};

static void count(struct tally *tally, const struct recording *recording, enum ag_metric metric,
                  double truth) {
    const struct ag_interval interval = ag_interval_of_metric(&recording->metrics, metric);
    const double value = ag_metric_is_bytes(metric) ? recording->bytes : recording->blocks;
    const bool is_covered = (double)interval.low <= truth && truth <= (double)interval.high;
    tally->n++;
    tally->sum += value;
    tally->squares += value * value;
    if (recording->n_samples - recording->n_certain >= ENOUGH) {
        tally->n_enough++;
        tally->n_covered_enough += is_covered;
    } else if (recording->n_samples > 0) {
        tally->n_few++;
        tally->n_covered_few += is_covered;
    } else { /* there is no sample: a report shows a total in its summary, but no row */
        tally->n_none++;
        tally->n_covered_none += is_covered;
    }
}

/* Three standard deviations of a binomial variable, as a share of n. */
static double noise(uint64_t n) {
    return 3 * sqrt(0.95 * 0.05 / (double)n);
}

static void judge(const struct mix *mix, const char *what, const struct tally *tally,
                  double truth) {
    const double n = (double)tally->n, mean = tally->sum / n;
    const double deviation = sqrt((tally->squares / n - mean * mean) / n);
    const double covered = (double)tally->n_covered_enough / (double)tally->n_enough,
                 covered_few = (double)tally->n_covered_few / (double)tally->n_few,
                 covered_any = (double)(tally->n_covered_few + tally->n_covered_none) /
                               (double)(tally->n_few + tally->n_none);
    print_message("# %s %s: bias %+.3f %%, z %+.2f, covered %.1f %% of %llu, with few samples "
                  "%.1f %% of %llu, and with none %.1f %%\n",
                  mix->name, what, 100 * (mean / truth - 1), (mean - truth) / deviation,
                  100 * covered, (unsigned long long)tally->n_enough, 100 * covered_few,
                  (unsigned long long)tally->n_few, 100 * covered_any);
    assert_true(fabs(mean - truth) < 4 * deviation);
    assert_true(fabs(mean / truth - 1) < 0.005 || deviation > 0.00125 * truth);
    if (tally->n_enough > 500) {
        assert_true(covered > 0.93 - noise(tally->n_enough) &&
                    covered < 0.97 + noise(tally->n_enough));
    }
    if (tally->n_few > 500) {
        assert_true(covered_few > 0.95 - noise(tally->n_few));
    }
    if (tally->n_none > 0) {
        assert_true(covered_any > 0.95 - noise(tally->n_few + tally->n_none));
    }
}

static void run(const struct mix *mix) {
    struct tally blocks = {0}, bytes = {0};
    double n_bytes = 0;
    for (uint64_t i = 0; i < mix->n_blocks; i++) {
        n_bytes += (double)mix->size_of(i);
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct recording recording;
        record(mix, seed, &recording);
        count(&blocks, &recording, AG_METRIC_ALLOCATED_BLOCKS, (double)mix->n_blocks);
        count(&bytes, &recording, AG_METRIC_ALLOCATED_BYTES, n_bytes);
    }
    judge(mix, "blocks", &blocks, (double)mix->n_blocks);
    judge(mix, "bytes", &bytes, n_bytes);
}

static void estimates_are_unbiased_and_intervals_cover(void **state) {
    (void)state;
    static const struct mix mixes[] = {
        {"152 bytes, many", small, 4000, 8192, false},
        {"152 bytes, some", small, 1000, 8192, false},
        {"152 bytes, few", small, 300, 16384, false},
        {"152 bytes, hardly any", small, 60, 16384, false},
        {"152 and 1048", periodic, 2000, 16384, false},
        {"152 and 1048, few", periodic, 300, 16384, false},
        {"powers of two", powers, 4096, 65536, false},
        {"heavy tail", tail, 8000, 32768, false},
        {"larger than the interval", large, 300, 65536, false},
        {"100 bytes, mostly none", one_hundred, 50, 16384, false},
        {"a huge one and 20 of 100", huge_and_small, 21, 16384, false},
        {"a huge one and 150 of 100", huge_and_small, 151, 16384, false},
        {"a huge one and 1000 of 100", huge_and_small, 1001, 16384, false},
        {"a huge one and 6000 of 100", huge_and_small, 6001, 16384, false},
        {"huge ones and few of 100", many_huge_and_small, 320, 16384, false},
        {"huge ones and some of 100", many_huge_and_small, 2400, 16384, false},
        {"huge ones and many of 100", many_huge_and_small, 8000, 16384, false},
        {"152 and 1048, interval changes", periodic, 2000, 16384, true},
        {"heavy tail, interval changes", tail, 8000, 32768, true},
    };
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
        run(&mixes[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_unbiased_and_intervals_cover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
