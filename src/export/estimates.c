/* estimates.c: in a sampled trace every number is an estimate. Formats that can store intervals
 * have the 95 % interval of each number; the others have a line of text, if they have a field for
 * it. */
#include <inttypes.h>
#include <string.h>

#include "export/format_writer.h"
#include "model/interval.h"

bool ag_export_is_estimate(const struct ag_export *export) {
    return ag_profile_identity(export->profile)->is_sampled;
}

static size_t add_interval(char *text, size_t capacity, const char *name,
                           const struct ag_metrics *metrics, enum ag_metric metric) {
    const struct ag_interval interval = ag_interval_of_metric(metrics, metric);
    const int length =
        snprintf(text, capacity, "%s %" PRIu64 " to %" PRIu64, name, interval.low, interval.high);
    return length > 0 && (size_t)length < capacity ? (size_t)length : 0;
}

const char *ag_export_note(const struct ag_export *export, char text[AG_EXPORT_NOTE_BYTES]) {
    const struct ag_profile_identity *identity = ag_profile_identity(export->profile);
    text[0] = '\0';
    if (!identity->is_sampled) {
        return text;
    }
    struct ag_metrics total = ag_profile_nothing(export->profile);
    for (size_t row = 0; row < export->n_rows; row++) {
        ag_metrics_add(&total, &export->rows[row].metrics);
    }
    size_t used = (size_t)snprintf(text, AG_EXPORT_NOTE_BYTES,
                                   "estimates from samples, one in %" PRIu64
                                   " bytes on average; bytes with 95 %% certainty: ",
                                   identity->interval_bytes);
    used += add_interval(text + used, AG_EXPORT_NOTE_BYTES - used, "allocated", &total,
                         AG_METRIC_ALLOCATED_BYTES);
    used += add_interval(text + used, AG_EXPORT_NOTE_BYTES - used, ", at the peak", &total,
                         AG_METRIC_PEAK_BYTES);
    (void)add_interval(text + used, AG_EXPORT_NOTE_BYTES - used, ", in use at the end", &total,
                       AG_METRIC_IN_USE_BYTES);
    return text;
}

void ag_export_json_metric(const struct ag_export *export, struct ag_json *json,
                           const struct ag_metrics *metrics, enum ag_metric metric) {
    const struct ag_metrics nothing = ag_profile_nothing(export->profile);
    const char *name = ag_metric_name(metric);
    char sibling[64];
    snprintf(sibling, sizeof sibling, "%s_ci95", name);
    if (!ag_export_is_estimate(export)) {
        ag_json_integer(json, name, ag_metric_of(metrics, metric));
        return;
    }
    if (metric == AG_METRIC_TEMPORARY_BLOCKS) { /* what came between two samples passed by unseen */
        ag_json_null(json, name);
        ag_json_null(json, sibling);
        return;
    }
    const struct ag_interval interval =
        ag_interval_of_metric(ag_metrics_are_nothing(metrics) ? &nothing : metrics, metric);
    ag_json_integer(json, name, ag_metric_of(metrics, metric));
    ag_json_open(json, sibling, '[');
    ag_json_integer(json, NULL, interval.low);
    ag_json_integer(json, NULL, interval.high);
    ag_json_close(json, ']');
}
