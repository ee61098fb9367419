/* interval.c: 95 % intervals of sums of weighted samples, also for few samples.
 *
 * 1. A sum Y of samples that weigh the same, w, is w times a number of samples, and that number has
 * a Poisson distribution (nearly: the probability of one block is small). For numbers of blocks, Y
 * with the estimated variance V is treated as w = V / Y times n = Y^2 / V; with equal small
 * probabilities this is exactly the weight and the count, with unequal ones the Poisson variable
 * with the same two moments.
 *
 * 2. For bytes w is known beforehand: whatever their sizes, small blocks weigh an interval each,
 * the portion. A block much larger than the interval is certain to be a sample: it adds to Y and
 * nothing to V, and gives no information about the small ones. So Y is split: V / w of it are n = V
 * / w^2 samples of weight w, the rest is certain. Without a certain part that is the same as 1.
 * With only a certain part n is 0, and the amount that may have been missed is still at most 3.69
 * w.
 *
 * 3. For n of 20 and more the bounds are those of Jeffreys, chi-square quantiles with 2n + 1
 * degrees of freedom: they cover 95 % on the average. Below 20 they are Garwood's, with 2n degrees
 * and 2n + 2: these cover at least 95 %.
 *
 * 4. A site without a sample is not in the report. So a row is read under the condition that there
 * was a sample, which is rarely met for a site with few expected samples: its lower bound is that
 * of a Poisson variable that is not zero. The difference matters below 6 samples; for one sample
 * the bound is 0.
 *
 * 5. If sizes differ, so do the numbers of blocks that samples stand for: one of 152 bytes for
 * seven times as many as one of 1048. And the small blocks, which weigh most, are the ones that may
 * not have been seen at all. So the upper bound allows for one sample more (half of one, with
 * Jeffreys) of twice the heaviest weight seen; of four times, with few samples (the form is Fay and
 * Feuer's, 1997; with equal weights and no factor it is Garwood's). The factors were chosen by
 * simulation: tests/unit/test_estimates.c. If only blocks were seen that could hardly be missed, no
 * weight is known for the missed ones: then the bound is that of blocks of size 0, of which a
 * sample stands for as many as the interval has bytes.
 *
 * 6. Quantiles by Wilson and Hilferty's cube (1931), within 1 % here. Why not 1.96 deviations: for
 * three samples that is 0 to 6.4, and it covers 79 % instead of 95. */
#include "model/interval.h"

#include <math.h>

#include "model/profile.h"

#define NORMAL_QUANTILE 1.959963985 /* of 97.5 % */
#define NOTHING_SEEN 3.688879454    /* ln 40: above it a count of 0 has a chance below 2.5 % */
enum { ENOUGH_SAMPLES = 20, UNSEEN_OF_MANY = 2, UNSEEN_OF_FEW = 4 };

#define MOST_WHOLE 0x1p62 /* beyond it sums of two would not fit */

uint64_t ag_estimate_whole(double estimate) {
    return estimate >= MOST_WHOLE ? UINT64_C(1) << 62
           : estimate > 0         ? (uint64_t)(estimate + 0.5)
                                  : 0; /* also what is no number */
}

float ag_estimate_variance(double variance) {
    const double most = 1e38; /* FLT_MAX is 3.4 times it */
    return variance >= most ? (float)most : variance > 0 ? (float)variance : 0;
}

/* Half of the chi-square quantile with 2 x shape degrees of freedom. */
static double gamma_quantile(double shape, double normal_quantile) {
    const double part = 1 / (9 * shape);
    const double root = 1 - part + normal_quantile * sqrt(part);
    return root > 0 ? shape * root * root * root : 0;
}

/* The mean at which a Poisson variable that is not 0 reaches n with a chance of 2.5 %, solved
 * numerically for n = 1 ... 8; between them in straight lines. */
static double lowest_mean(double n) {
    static const double solved[] = {0, 0, 0.0504, 0.4083, 0.9333, 1.5200, 2.1375, 2.7759, 3.4316};
    enum { LAST = sizeof(solved) / sizeof(solved[0]) - 1 };
    if (n >= LAST) {
        return gamma_quantile(n, -NORMAL_QUANTILE);
    }
    const int whole = (int)n;
    return solved[whole] + (n - whole) * (solved[whole + 1] - solved[whole]);
}

/* Samples whose blocks are not small compared with the interval count for a little less than
 * one. */
static bool is_enough(double n) {
    return n >= ENOUGH_SAMPLES - 0.5;
}

/* The upper bound with one more sample, or part of one, of weight WEIGHT added to mean and
 * variance. */
static double upper_bound(double value, double variance, double weight, double part) {
    const double mean = value + part * weight, spread = variance + part * weight * weight;
    return gamma_quantile(mean * mean / spread, NORMAL_QUANTILE) * spread / mean;
}

/* The lower bound of a sum of N samples of weight SCALE. */
static double lower_bound(double n, double scale) {
    return scale * (is_enough(n) ? gamma_quantile(n + 0.5, -NORMAL_QUANTILE) : lowest_mean(n));
}

static struct ag_interval around(uint64_t estimate, double low, double high) {
    const uint64_t from = ag_estimate_whole(floor(low)), to = ag_estimate_whole(ceil(high));
    return (struct ag_interval){from < estimate ? from : estimate, to > estimate ? to : estimate};
}

struct ag_interval ag_interval_of_bytes(uint64_t estimate, double variance, double portion) {
    const double value = (double)estimate, n = variance / portion / portion;
    if (!(portion > 0) || !(n >= 0) || !isfinite(n)) {
        return (struct ag_interval){estimate, estimate};
    }
    const double open = variance / portion < value ? variance / portion : value;
    const double certain = value - open;
    const double high = n > 0 ? upper_bound(open, variance, portion, is_enough(n) ? 0.5 : 1)
                              : NOTHING_SEEN * portion;
    return around(estimate, certain + lower_bound(n, portion), certain + high);
}

struct ag_interval ag_interval_of_blocks(uint64_t estimate, double variance, double heaviest) {
    const double value = (double)estimate, scale = variance / value, n = value / scale;
    if (!(heaviest > 0) || estimate == 0 || !(variance >= 0) || !isfinite(scale)) {
        return (struct ag_interval){estimate, estimate};
    }
    const bool is_certain = !(variance > 0) || !isfinite(n);
    const bool is_many = is_certain || is_enough(n);
    const double unseen =
        (heaviest > scale ? heaviest : scale) * (is_many ? UNSEEN_OF_MANY : UNSEEN_OF_FEW);
    return around(estimate, is_certain ? value : lower_bound(n, scale),
                  upper_bound(value, variance, unseen, is_many ? 0.5 : 1));
}

struct ag_interval ag_interval_of_nothing(double scale) {
    return (struct ag_interval){0, ag_estimate_whole(ceil(NOTHING_SEEN * scale))};
}

/* Whether one of the samples was more likely missed than not, or all together were with a chance of
 * one half: then their weight is a hint at what else may have been missed. */
static bool is_hint(double heaviest, double variance) {
    return heaviest > 0 && (heaviest >= 2 || variance >= heaviest * heaviest / 2);
}

static struct ag_interval of_blocks(const struct ag_metrics *metrics, enum ag_metric metric) {
    const uint64_t value = ag_metric_of(metrics, metric);
    const double heaviest = (double)metrics->heaviest,
                 variance = ag_metric_variance(metrics, metric),
                 of_all = ag_metric_variance(metrics, AG_METRIC_ALLOCATED_BLOCKS);
    if (!is_hint(heaviest, variance > of_all ? variance : of_all)) {
        const struct ag_interval seen = ag_interval_of_blocks(value, variance, heaviest);
        const uint64_t unseen = ag_interval_of_nothing((double)metrics->portion_bytes).high;
        return (struct ag_interval){seen.low, value + unseen};
    }
    return value == 0 ? ag_interval_of_nothing(heaviest)
                      : ag_interval_of_blocks(value, variance, heaviest);
}

struct ag_interval ag_interval_of_metric(const struct ag_metrics *metrics, enum ag_metric metric) {
    const uint64_t value = ag_metric_of(metrics, metric);
    if (!(metrics->portion_bytes > 0)) {
        return (struct ag_interval){value, value};
    }
    return ag_metric_is_bytes(metric)
               ? ag_interval_of_bytes(value, ag_metric_variance(metrics, metric),
                                      (double)metrics->portion_bytes)
               : of_blocks(metrics, metric);
}

static int64_t whole_change(double change) {
    return change < 0 ? -(int64_t)ag_estimate_whole(-change) : (int64_t)ag_estimate_whole(change);
}

/* The bounds of the two are combined by squares (Zou and Donner 2008), because they may be
 * asymmetric. */
struct ag_interval_of_change ag_interval_of_change(const struct ag_metrics *before,
                                                   const struct ag_metrics *after,
                                                   enum ag_metric metric) {
    const struct ag_interval b = ag_interval_of_metric(before, metric),
                             a = ag_interval_of_metric(after, metric);
    const double was = (double)ag_metric_of(before, metric),
                 is = (double)ag_metric_of(after, metric);
    const double down = hypot(is - (double)a.low, (double)b.high - was),
                 up = hypot((double)a.high - is, was - (double)b.low);
    return (struct ag_interval_of_change){whole_change(floor(is - was - down)),
                                          whole_change(ceil(is - was + up))};
}
