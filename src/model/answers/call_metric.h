/* call_metric.h: the metrics of function counters by name: what --sort takes, what the JSON calls
 * them, and their values. */
#ifndef AG_CALL_METRIC_H
#define AG_CALL_METRIC_H

#include <stdbool.h>
#include <stdint.h>

/* In the order in which reports print them. */
#define AG_CALL_METRIC_TABLE(X) \
    X(CALLS, calls)             \
    X(OWN_WORDS, own_words)     \
    X(OWN_BYTES, own_bytes)     \
    X(OWN_NS, own_ns)           \
    X(ACC_WORDS, acc_words)     \
    X(ACC_BYTES, acc_bytes)     \
    X(ACC_NS, acc_ns)

enum ag_call_metric {
    AG_CALL_METRIC_DEFAULT, /* own words */
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
/* calls and own_*, or acc_*, added up. */
void ag_call_counts_add_own(struct ag_call_counts *sum, const struct ag_call_counts *more);
void ag_call_counts_add_acc(struct ag_call_counts *sum, const struct ag_call_counts *more);

#endif
