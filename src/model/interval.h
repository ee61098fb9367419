/* interval.h: between what bounds the truth lies, in 95 of 100 recordings, where a number is an
 * estimate from samples. docs/sampling.md derives the bounds. */
#ifndef AG_INTERVAL_H
#define AG_INTERVAL_H

#include <stdint.h>

#include "model/metric.h"

/* An estimate, and the variance of one, as the reports have them: numbers of a trace are hostile,
 * so what is out of range or no number is brought into it. */
uint64_t ag_estimate_whole(double estimate);
float ag_estimate_variance(double variance);

struct ag_interval {
    uint64_t low, high; /* low <= estimate <= high; both are it where it is exact */
};
/* By the estimate, the estimate of its variance, and the bytes that a sample of small blocks stands
 * for (0: it is exact). */
struct ag_interval ag_interval_of_bytes(uint64_t estimate, double variance, double portion);
/* The same of a number of blocks, and what the heaviest sample stands for. */
struct ag_interval ag_interval_of_blocks(uint64_t estimate, double variance, double heaviest);
/* Of an estimate that no sample contributed to, where a sample of its kind stands for SCALE. */
struct ag_interval ag_interval_of_nothing(double scale);
/* Exact where the metrics have no portion. */
struct ag_interval ag_interval_of_metric(const struct ag_metrics *metrics, enum ag_metric metric);
/* Of AFTER minus BEFORE, which were sampled independently. */
struct ag_interval_of_change {
    int64_t low, high;
};
struct ag_interval_of_change ag_interval_of_change(const struct ag_metrics *before,
                                                   const struct ag_metrics *after,
                                                   enum ag_metric metric);

#endif
