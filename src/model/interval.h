/* interval.h: computes the interval of an estimate that was made from samples, for reports. In 95
 * of 100 recordings the interval contains the true value. docs/explanation/sampling.md derives the
 * formulas. */
#ifndef AG_INTERVAL_H
#define AG_INTERVAL_H

#include <stdint.h>

#include "model/metric.h"
#include "model/profile.h"

/* Convert an estimate and its variance to the types of struct ag_metrics. Both are computed from
 * the numbers in a trace, which are not trusted: a value that is out of range is clamped, and a NaN
 * becomes 0. */
uint64_t ag_estimate_whole(double estimate);
float ag_estimate_variance(double variance);

struct ag_interval {
    uint64_t low, high; /* low <= estimate <= high; all three are equal if the value is exact */
};
/* The interval of a metric. If portion_bytes of METRICS is 0, the metric is exact, and the interval
 * is its value. */
struct ag_interval ag_interval_of_metric(const struct ag_metrics *metrics, enum ag_metric metric);
/* The interval of a metric of a row of PROFILE. If all METRICS are 0, the upper end of the
 * interval may be above 0, because blocks may exist although none was sampled. */
static inline struct ag_interval ag_interval_in_profile(const struct ag_profile *profile,
                                                        const struct ag_metrics *metrics,
                                                        enum ag_metric metric) {
    const struct ag_metrics nothing = ag_profile_nothing(profile);
    return ag_interval_of_metric(ag_metrics_are_nothing(metrics) ? &nothing : metrics, metric);
}
/* The interval of the change from BEFORE to AFTER, which are metrics from independent samples. */
struct ag_interval_of_change {
    int64_t low, high;
};
struct ag_interval_of_change ag_interval_of_change(const struct ag_metrics *before,
                                                   const struct ag_metrics *after,
                                                   enum ag_metric metric);

#endif
