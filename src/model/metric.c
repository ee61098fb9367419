/* metric.c: names, parses, reads and adds metrics, for the views and exporters. The tables of
 * metric.h generate most of the code. */
#include "model/metric.h"

#include <string.h>

#include "model/profile.h"

static const char *const names[AG_METRIC_END] = {
#define AG_METRIC_NAME(NAME, name) [AG_METRIC_##NAME] = #name,
    AG_METRIC_TABLE(AG_METRIC_NAME)
#undef AG_METRIC_NAME
};

const char *ag_metric_name(enum ag_metric metric) {
    return names[metric];
}

/* The index of NAME in LIST, whose first element is unused; 0: LIST does not contain NAME. */
static int index_of(const char *const *list, int count, const char *name) {
    int at = count - 1;
    while (at > 0 && strcmp(list[at], name) != 0) {
        at--;
    }
    return at;
}

bool ag_metric_parse(const char *name, enum ag_metric *ret_metric) {
    const int at = index_of(names, AG_METRIC_END, name);
    *ret_metric = at > 0 ? (enum ag_metric)at : *ret_metric;
    return at > 0;
}

bool ag_metric_is_bytes(enum ag_metric metric) {
    return ag_metric_blocks_of(metric) != metric;
}

enum ag_metric ag_metric_blocks_of(enum ag_metric metric) {
    switch (metric) {
    case AG_METRIC_ALLOCATED_BYTES:
        return AG_METRIC_ALLOCATED_BLOCKS;
    case AG_METRIC_IN_USE_BYTES:
        return AG_METRIC_IN_USE_BLOCKS;
    case AG_METRIC_PEAK_BYTES:
        return AG_METRIC_PEAK_BLOCKS;
    case AG_METRIC_FREED_BYTES:
        return AG_METRIC_FREED_BLOCKS;
    case AG_METRIC_DEFAULT:
    case AG_METRIC_ALLOCATED_BLOCKS:
    case AG_METRIC_IN_USE_BLOCKS:
    case AG_METRIC_PEAK_BLOCKS:
    case AG_METRIC_TEMPORARY_BLOCKS:
    case AG_METRIC_FREED_BLOCKS:
    case AG_METRIC_END:
        break;
    }
    return metric;
}

uint64_t ag_metric_of(const struct ag_metrics *metrics, enum ag_metric metric) {
    switch (metric) {
#define AG_METRIC_VALUE(NAME, name) \
    case AG_METRIC_##NAME:          \
        return metrics->name;
        AG_METRIC_TABLE(AG_METRIC_VALUE)
#undef AG_METRIC_VALUE
    case AG_METRIC_DEFAULT:
    case AG_METRIC_END:
        break;
    }
    return 0;
}

void ag_metrics_add(struct ag_metrics *sum, const struct ag_metrics *more) {
#define AG_METRIC_ADD(NAME, name) sum->name += more->name;
    AG_METRIC_TABLE(AG_METRIC_ADD)
#undef AG_METRIC_ADD
    for (int i = 0; i < AG_METRICS; i++) {
        sum->variance[i] += more->variance[i];
    }
    sum->heaviest = more->heaviest > sum->heaviest ? more->heaviest : sum->heaviest;
    sum->portion_bytes =
        more->portion_bytes > sum->portion_bytes ? more->portion_bytes : sum->portion_bytes;
    sum->half_way_bytes += more->half_way_bytes;
    sum->resident_bytes += more->resident_bytes;
    sum->untouched_bytes += more->untouched_bytes;
}

bool ag_metrics_are_nothing(const struct ag_metrics *metrics) {
    uint64_t any = 0;
#define AG_METRIC_ANY(NAME, name) any |= metrics->name;
    AG_METRIC_TABLE(AG_METRIC_ANY)
#undef AG_METRIC_ANY
    return any == 0;
}

bool ag_metrics_are_empty(const struct ag_metrics *metrics) {
    static const struct ag_metrics nothing;
    return memcmp(metrics, &nothing, sizeof(nothing)) == 0;
}

_Static_assert(AG_METRICS == AG_METRIC_END - AG_METRIC_FIRST,
               "there is a variance for each metric");

double ag_metric_variance(const struct ag_metrics *metrics, enum ag_metric metric) {
    return metric < AG_METRIC_FIRST || metric >= AG_METRIC_END
               ? 0
               : (double)metrics->variance[metric - AG_METRIC_FIRST];
}

/* ---- function counters ---- */

static const char *const call_names[AG_CALL_METRIC_END] = {
#define AG_CALL_METRIC_NAME(NAME, name) [AG_CALL_METRIC_##NAME] = #name,
    AG_CALL_METRIC_TABLE(AG_CALL_METRIC_NAME)
#undef AG_CALL_METRIC_NAME
};

const char *ag_call_metric_name(enum ag_call_metric metric) {
    return call_names[metric];
}

bool ag_call_metric_parse(const char *name, enum ag_call_metric *ret_metric) {
    const int at = index_of(call_names, AG_CALL_METRIC_END, name);
    *ret_metric = at > 0 ? (enum ag_call_metric)at : *ret_metric;
    return at > 0;
}

uint64_t ag_call_metric_of(const struct ag_call_counts *counts, enum ag_call_metric metric) {
    switch (metric) {
#define AG_CALL_METRIC_VALUE(NAME, name) \
    case AG_CALL_METRIC_##NAME:          \
        return counts->name;
        AG_CALL_METRIC_TABLE(AG_CALL_METRIC_VALUE)
#undef AG_CALL_METRIC_VALUE
    case AG_CALL_METRIC_DEFAULT:
    case AG_CALL_METRIC_END:
        break;
    }
    return counts->own_words;
}

void ag_call_counts_add_acc(struct ag_call_counts *sum, const struct ag_call_counts *more) {
    sum->acc_words += more->acc_words;
    sum->acc_bytes += more->acc_bytes;
    sum->acc_ns += more->acc_ns;
}

void ag_call_counts_add_own(struct ag_call_counts *sum, const struct ag_call_counts *more) {
    sum->calls += more->calls;
    sum->own_words += more->own_words;
    sum->own_bytes += more->own_bytes;
    sum->own_ns += more->own_ns;
}
