/* metric.h: lists the metrics (allocated_bytes, peak_blocks ...) and gives their names and values.
 * --sort accepts these names, and the JSON of reports uses them. */
#ifndef AG_METRIC_H
#define AG_METRIC_H

#include <stdbool.h>
#include <stdint.h>

struct ag_metrics;

/* The metrics, in the order in which reports print them. */
#define AG_METRIC_TABLE(X)                \
    X(ALLOCATED_BYTES, allocated_bytes)   \
    X(ALLOCATED_BLOCKS, allocated_blocks) \
    X(IN_USE_BYTES, in_use_bytes)         \
    X(IN_USE_BLOCKS, in_use_blocks)       \
    X(PEAK_BYTES, peak_bytes)             \
    X(PEAK_BLOCKS, peak_blocks)           \
    X(TEMPORARY_BLOCKS, temporary_blocks) \
    X(FREED_BYTES, freed_bytes)           \
    X(FREED_BLOCKS, freed_blocks)

enum ag_metric {
    AG_METRIC_DEFAULT, /* each view has its own default */
#define AG_METRIC_MEMBER(NAME, name) AG_METRIC_##NAME,
    AG_METRIC_TABLE(AG_METRIC_MEMBER) AG_METRIC_END,
#undef AG_METRIC_MEMBER
    AG_METRIC_FIRST = AG_METRIC_ALLOCATED_BYTES,
};

const char *ag_metric_name(enum ag_metric metric); /* "allocated_bytes" */
bool ag_metric_parse(const char *name, enum ag_metric *ret_metric);
bool ag_metric_is_bytes(enum ag_metric metric);
enum ag_metric ag_metric_blocks_of(enum ag_metric metric); /* in_use_bytes -> in_use_blocks */
uint64_t ag_metric_of(const struct ag_metrics *metrics, enum ag_metric metric);
/* The variance of a metric; 0: the metric is exact. */
double ag_metric_variance(const struct ag_metrics *metrics, enum ag_metric metric);
void ag_metrics_add(struct ag_metrics *sum, const struct ag_metrics *more);
/* Whether all metrics are 0, whatever the variances are. */
bool ag_metrics_are_nothing(const struct ag_metrics *metrics);
/* Whether all members are 0, including the variances. */
bool ag_metrics_are_empty(const struct ag_metrics *metrics);

/* The metrics of function counters (how often functions were called, what they allocated, how long
 * they took), in the order in which reports print them. */
#define AG_CALL_METRIC_TABLE(X) \
    X(CALLS, calls)             \
    X(OWN_WORDS, own_words)     \
    X(OWN_BYTES, own_bytes)     \
    X(OWN_NS, own_ns)           \
    X(ACC_WORDS, acc_words)     \
    X(ACC_BYTES, acc_bytes)     \
    X(ACC_NS, acc_ns)

enum ag_call_metric {
    AG_CALL_METRIC_DEFAULT, /* equal to AG_CALL_METRIC_OWN_WORDS */
#define AG_CALL_METRIC_MEMBER(NAME, name) AG_CALL_METRIC_##NAME,
    AG_CALL_METRIC_TABLE(AG_CALL_METRIC_MEMBER) AG_CALL_METRIC_END,
#undef AG_CALL_METRIC_MEMBER
};
struct ag_call_counts {
#define AG_CALL_METRIC_FIELD(NAME, name) uint64_t name;
    AG_CALL_METRIC_TABLE(AG_CALL_METRIC_FIELD)
#undef AG_CALL_METRIC_FIELD
};
const char *ag_call_metric_name(enum ag_call_metric metric); /* "own_words" */
bool ag_call_metric_parse(const char *name, enum ag_call_metric *ret_metric);
uint64_t ag_call_metric_of(const struct ag_call_counts *counts, enum ag_call_metric metric);
/* ag_call_counts_add_own adds `calls` and the own_ metrics to SUM. ag_call_counts_add_acc adds the
 * acc_ metrics, which include all functions that a function called. */
void ag_call_counts_add_own(struct ag_call_counts *sum, const struct ag_call_counts *more);
void ag_call_counts_add_acc(struct ag_call_counts *sum, const struct ag_call_counts *more);

#endif
