/* call_metric.c: metrics of function counters by name, see call_metric.h. */
#include "model/answers/call_metric.h"

#include <string.h>

static const char *const names[AG_CALL_METRIC_END] = {
#define AG_CALL_METRIC_NAME(NAME, name) [AG_CALL_METRIC_##NAME] = #name,
    AG_CALL_METRIC_TABLE(AG_CALL_METRIC_NAME)
#undef AG_CALL_METRIC_NAME
};

const char *ag_call_metric_name(enum ag_call_metric metric) {
    return names[metric];
}

bool ag_call_metric_parse(const char *name, enum ag_call_metric *ret_metric) {
    for (enum ag_call_metric metric = AG_CALL_METRIC_CALLS; metric < AG_CALL_METRIC_END; metric++) {
        if (strcmp(names[metric], name) == 0) {
            *ret_metric = metric;
            return true;
        }
    }
    return false;
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
