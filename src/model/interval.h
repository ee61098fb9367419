/* interval.h: the bounds that contain the true value, in 95 of 100 recordings, of a number that is
 * an estimate from samples. docs/explanation/sampling.md derives the bounds. */
#ifndef AG_INTERVAL_H
#define AG_INTERVAL_H

#include <stdint.h>

#include "model/metric.h"

/* An estimate, and its variance, as reports show them: numbers in a trace are not trusted, so a
 * value that is out of range or not a number is clamped. */
uint64_t ag_estimate_whole(double estimate);
float ag_estimate_variance(double variance);

struct ag_interval {
    uint64_t low, high; /* low <= estimate <= high; both are it where it is exact */
};
/* From the estimate, the estimate of its variance, and the bytes that a sample of small blocks
 * stands for (0: the estimate is exact). */
struct ag_interval ag_interval_of_bytes(uint64_t estimate, double variance, double portion);
/* The same of a number of blocks, and what the heaviest sample stands for. */
struct ag_interval ag_interval_of_blocks(uint64_t estimate, double variance, double heaviest);
/* For an estimate without any sample, if a sample of its kind stands for SCALE. */
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
