/* interval.c: computes 95 % intervals for the estimates of a sampled trace, which are sums of
 * weighted samples. The reports show these intervals. They are valid for small numbers of samples,
 * too.
 *
 * 1. If all samples of a sum Y have the same weight w, then Y is w times the number of samples. The
 * number of samples has nearly a Poisson distribution, because the probability that a block is
 * sampled is small. For numbers of blocks, Y and its estimated variance V are converted to a weight
 * w = V / Y and a number of samples n = Y^2 / V. If all blocks have the same small probability, w
 * and n are exactly the weight and the number of samples. If the probabilities differ, w times a
 * Poisson variable of mean n has the same mean and variance as Y.
 *
 * 2. For numbers of bytes, w is known: a sample of a small block represents as many bytes as the
 * sampling interval has, whatever the size of the block. This number of bytes is called the
 * portion. A block much larger than the interval is always a sample: it adds its size to Y and
 * nothing to V, and gives no information about the small blocks. So Y is split into two parts: V /
 * w bytes come from n = V / w^2 samples of weight w, and the rest of Y is certain. Without large
 * blocks, this gives the w and n of section 1. With only large blocks, n is 0, and the small blocks
 * that may have been missed have at most 3.69 w bytes.
 *
 * 3. For n of 20 and more, the bounds are those of Jeffreys: chi-square quantiles with 2n + 1
 * degrees of freedom. The true value is between these bounds in 95 % of all cases on average. For
 * smaller n, the bounds are those of Garwood, with 2n and 2n + 2 degrees of freedom. The true value
 * is between them in at least 95 % of all cases.
 *
 * 4. A report has no row for a site without a sample. So every row that a reader sees has at least
 * one sample, even if the expected number of samples of the site is far below one. The lower bound
 * of a row is therefore computed with the distribution of a Poisson variable that is not zero. This
 * changes the bound noticeably for fewer than 6 samples; for one sample the bound is 0.
 *
 * 5. If the sizes of blocks differ, the numbers of blocks that samples represent differ, too: a
 * sample of 152 bytes represents seven times as many blocks as one of 1048 bytes. Small blocks have
 * the largest weights, and it is the small blocks that may have no sample at all. So the upper
 * bound is computed as if there were one more sample (half a sample for Jeffreys' bounds). The
 * weight of this sample is twice the largest weight among the samples, or four times if there are
 * fewer than 20 samples. The formula is that of Fay and Feuer (1997); with equal weights and
 * without the factors 2 and 4 it is Garwood's. The factors were chosen by simulation, see
 * tests/unit/test_estimates.c. If all samples are of large blocks, which are nearly always sampled,
 * they do not show the weight of missed blocks. Then the missed blocks are assumed to have the size
 * 0: one sample would represent as many of them as the interval has bytes.
 *
 * 6. Chi-square quantiles are approximated by the cube of Wilson and Hilferty (1931), whose error
 * is below 1 % here. The usual estimate +- 1.96 standard deviations is not used: for three samples
 * it is 0 to 6.4 and contains the true value in 79 % of all cases instead of 95 %. */
#include "model/interval.h"

#include <math.h>

#include "model/profile.h"

#define NORMAL_QUANTILE 1.959963985 /* the quantile of 97.5 % of a normal distribution */
/* ln 40: if a Poisson variable has a mean above this number, its value is 0 with a probability
 * below 2.5 % */
#define NOTHING_SEEN 3.688879454
enum { ENOUGH_SAMPLES = 20, UNSEEN_OF_MANY = 2, UNSEEN_OF_FEW = 4 };

#define MOST_WHOLE 0x1p62 /* the sum of two values of this size still fits in 64 bits */

uint64_t ag_estimate_whole(double estimate) {
    return estimate >= MOST_WHOLE ? UINT64_C(1) << 62
           : estimate > 0         ? (uint64_t)(estimate + 0.5)
                                  : 0; /* the result is 0 also if the estimate is a NaN */
}

float ag_estimate_variance(double variance) {
    const double most = 1e38; /* FLT_MAX is 3.4e38 */
    return variance >= most ? (float)most : variance > 0 ? (float)variance : 0;
}

/* Half of the chi-square quantile with 2 * SHAPE degrees of freedom. NORMAL_QUANTILE: the quantile
 * of the normal distribution for the same probability. */
static double gamma_quantile(double shape, double normal_quantile) {
    const double part = 1 / (9 * shape);
    const double root = 1 - part + normal_quantile * sqrt(part);
    return root > 0 ? shape * root * root * root : 0;
}

/* The mean at which a Poisson variable that is not 0 is at least n with a probability of 2.5 %. The
 * table was solved numerically for n up to 8; the values between are interpolated linearly. */
static double lowest_mean(double n) {
    static const double solved[] = {0, 0, 0.0504, 0.4083, 0.9333, 1.5200, 2.1375, 2.7759, 3.4316};
    enum { LAST = sizeof(solved) / sizeof(solved[0]) - 1 };
    if (n >= LAST) {
        return gamma_quantile(n, -NORMAL_QUANTILE);
    }
    const int whole = (int)n;
    return solved[whole] + (n - whole) * (solved[whole + 1] - solved[whole]);
}

/* The limit is ENOUGH_SAMPLES less 0.5, because a sample whose block is not small compared with the
 * interval adds a little less than 1 to n. */
static bool is_enough(double n) {
    return n >= ENOUGH_SAMPLES - 0.5;
}

/* The upper bound of a sum with mean VALUE and variance VARIANCE, to which PART (1 or 0.5) of a
 * sample of weight WEIGHT is added first. */
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

/* The interval of a number of bytes. PORTION: the number of bytes that one sample of a small block
 * represents; 0: the estimate is exact. */
static struct ag_interval interval_of_bytes(uint64_t estimate, double variance, double portion) {
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

/* The interval of a number of blocks. HEAVIEST: the largest number of blocks that one sample
 * represents. */
static struct ag_interval interval_of_blocks(uint64_t estimate, double variance, double heaviest) {
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

/* The interval of an estimate of 0, without any sample, if one sample would represent SCALE blocks
 * or bytes. */
static struct ag_interval interval_of_nothing(double scale) {
    return (struct ag_interval){0, ag_estimate_whole(ceil(NOTHING_SEEN * scale))};
}

/* Whether the samples show what weight missed blocks may have. The samples show this weight if one
 * sample was more likely to be missed than to be taken, or if the expected number of missed blocks
 * is at least about one half. */
static bool is_hint(double heaviest, double variance) {
    return heaviest > 0 && (heaviest >= 2 || variance >= heaviest * heaviest / 2);
}

static struct ag_interval of_blocks(const struct ag_metrics *metrics, enum ag_metric metric) {
    const uint64_t value = ag_metric_of(metrics, metric);
    const double heaviest = (double)metrics->heaviest,
                 variance = ag_metric_variance(metrics, metric),
                 of_all = ag_metric_variance(metrics, AG_METRIC_ALLOCATED_BLOCKS);
    if (!is_hint(heaviest, variance > of_all ? variance : of_all)) {
        const struct ag_interval seen = interval_of_blocks(value, variance, heaviest);
        const uint64_t unseen = interval_of_nothing((double)metrics->portion_bytes).high;
        return (struct ag_interval){seen.low, value + unseen};
    }
    return value == 0 ? interval_of_nothing(heaviest)
                      : interval_of_blocks(value, variance, heaviest);
}

struct ag_interval ag_interval_of_metric(const struct ag_metrics *metrics, enum ag_metric metric) {
    const uint64_t value = ag_metric_of(metrics, metric);
    if (!(metrics->portion_bytes > 0)) {
        return (struct ag_interval){value, value};
    }
    return ag_metric_is_bytes(metric)
               ? interval_of_bytes(value, ag_metric_variance(metrics, metric),
                                   (double)metrics->portion_bytes)
               : of_blocks(metrics, metric);
}

static int64_t whole_change(double change) {
    return change < 0 ? -(int64_t)ag_estimate_whole(-change) : (int64_t)ag_estimate_whole(change);
}

/* The distance of a bound of the change from its estimate is the root of the sum of the squares of
 * the distances in BEFORE and AFTER (Zou and Donner 2008). The lower and the upper bound are
 * computed separately, because intervals may be asymmetric. */
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
