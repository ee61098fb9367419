/* frame_text.c: formats frames, metrics and lifetimes for all views, as text and as JSON. */
#include <inttypes.h>

#include "model/answers/lifetimes.h"
#include "model/interval.h"
#include "report/table.h"
#include "report/view.h"

const char *ag_metric_words(enum ag_metric metric) {
    switch (metric) {
    case AG_METRIC_ALLOCATED_BYTES:
    case AG_METRIC_ALLOCATED_BLOCKS:
        return "allocated";
    case AG_METRIC_IN_USE_BYTES:
    case AG_METRIC_IN_USE_BLOCKS:
        return "in use at the end";
    case AG_METRIC_PEAK_BYTES:
    case AG_METRIC_PEAK_BLOCKS:
        return "at the peak";
    case AG_METRIC_TEMPORARY_BLOCKS:
        return "temporary";
    case AG_METRIC_FREED_BYTES:
    case AG_METRIC_FREED_BLOCKS:
        return "freed";
    case AG_METRIC_DEFAULT:
    case AG_METRIC_END:
        break;
    }
    return "";
}

const char *ag_quantity_spread(struct ag_quantity *buffer, const struct ag_metrics *metrics,
                               enum ag_metric metric) {
    const struct ag_interval interval = ag_interval_of_metric(metrics, metric);
    const uint64_t value = ag_metric_of(metrics, metric);
    const uint64_t below = value - interval.low, above = interval.high - value;
    const double share =
        value == 0 ? 0 : 100 * (double)(below > above ? below : above) / (double)value;
    if (interval.low == interval.high) {
        buffer->text[0] = '\0';
    } else if (value == 0) {
        struct ag_quantity most;
        snprintf(buffer->text, sizeof buffer->text, "≤%s",
                 ag_metric_is_bytes(metric) ? ag_quantity_bytes(&most, interval.high)
                                            : ag_quantity_short(&most, interval.high));
    } else if (share < 1) {
        snprintf(buffer->text, sizeof buffer->text, "±%.1f %%", share);
    } else {
        snprintf(buffer->text, sizeof buffer->text, "±%.0f %%", share < 9999 ? share : 9999);
    }
    return buffer->text;
}

void ag_json_metric(const struct ag_view *view, const char *key, const struct ag_metrics *metrics,
                    enum ag_metric metric) {
    const uint64_t value = ag_metric_of(metrics, metric);
    if (!ag_profile_identity(view->profile)->is_sampled) {
        ag_json_integer(view->json, key, value);
        return;
    }
    const struct ag_interval interval = ag_interval_in_profile(view->profile, metrics, metric);
    /* Temporary blocks are unknown, because allocations between two samples are not recorded. */
    ag_json_estimate(view->json, key, value, metric != AG_METRIC_TEMPORARY_BLOCKS, interval.low,
                     interval.high);
}

void ag_json_metrics(const struct ag_view *view, const struct ag_metrics *metrics) {
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        ag_json_metric(view, ag_metric_name(metric), metrics, metric);
    }
}

static void write_place(struct ag_json *json, const struct ag_frame *frame) {
    ag_json_string(json, "file", frame->file);
    ag_json_nonzero(json, "line", frame->line);
    if (frame->end_column != 0) {
        ag_json_integer(json, "column", frame->column);
        ag_json_integer(json, "end_column", frame->end_column);
    }
}

void ag_json_function(struct ag_json *json, const struct ag_frame *frame) {
    ag_json_string(json, "function", frame->function);
    write_place(json, frame);
    ag_json_string(json, "runtime", frame->runtime);
}

void ag_json_frame(struct ag_json *json, const struct ag_frame *frame) {
    ag_json_string(json, "function", frame->function);
    write_place(json, frame);
    ag_json_string(json, "image", frame->image);
    ag_json_string(json, "runtime", frame->runtime);
}

void ag_json_frames(struct ag_json *json, const char *key, const struct ag_profile *profile,
                    const uint32_t *frames, size_t n_frames) {
    ag_json_open(json, key, '[');
    for (size_t i = 0; i < n_frames; i++) {
        const struct ag_frame *frame = ag_profile_frame(profile, frames[i]);
        ag_json_open(json, NULL, '{');
        ag_json_frame(json, frame);
        ag_json_bool(json, "inlined", frame->is_inlined);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

static void write_time(struct ag_json *json, const char *key, uint64_t time_ns, bool is_known) {
    ag_json_integer_if(json, key, time_ns, is_known && time_ns != AG_LIFETIME_UNKNOWN);
}

static void write_times(struct ag_json *json, const char *key, const uint64_t times_ns[2]) {
    ag_json_open(json, key, '[');
    write_time(json, NULL, times_ns[0], /* is_known= */ true);
    write_time(json, NULL, times_ns[1], /* is_known= */ true);
    ag_json_close(json, ']');
}

void ag_json_lifetime(struct ag_json *json, const struct ag_lifetime *lifetime, bool has_p90) {
    const bool is_known = lifetime->ended > 0;
    ag_json_open(json, "lifetime_ns", '{');
    write_time(json, "min", lifetime->min_ns, is_known);
    write_time(json, "mean", lifetime->mean_ns, is_known);
    write_time(json, "p50", lifetime->p50_ns, is_known);
    if (has_p90) {
        write_time(json, "p90", lifetime->p90_ns, is_known);
    }
    write_time(json, "p99", lifetime->p99_ns, is_known);
    write_time(json, "max", lifetime->max_ns, is_known);
    if (lifetime->has_intervals) {
        write_times(json, "p50_ci95", lifetime->p50_interval_ns);
        if (has_p90) {
            write_times(json, "p90_ci95", lifetime->p90_interval_ns);
        }
        write_times(json, "p99_ci95", lifetime->p99_interval_ns);
    }
    ag_json_close(json, '}');
}

const char *ag_frame_function(struct ag_frame_text *buffer, const struct ag_frame *frame) {
    bool is_native = !ag_frame_is_managed(frame);
    snprintf(buffer->text, sizeof buffer->text, "%s%s%s%s", is_native ? "" : "[",
             is_native ? "" : frame->runtime, is_native ? "" : "] ", frame->function);
    return buffer->text;
}

const char *ag_frame_where(struct ag_frame_text *buffer, const struct ag_frame *frame) {
    if (frame->file == NULL) { /* the image of a managed frame (a function of a virtual machine) is
                                * its runtime, which ag_frame_function writes */
        const bool has_image = frame->image != NULL && !ag_frame_is_managed(frame);
        snprintf(buffer->text, sizeof buffer->text, "%s", has_image ? frame->image : "");
        return buffer->text;
    }
    const char *base = ag_base_name(frame->file);
    if (frame->line != 0 && frame->end_column != 0) {
        snprintf(buffer->text, sizeof buffer->text, "%s:%" PRIu32 ":%" PRIu32 "-%" PRIu32, base,
                 frame->line, frame->column, frame->end_column);
    } else if (frame->line != 0) {
        snprintf(buffer->text, sizeof buffer->text, "%s:%" PRIu32, base, frame->line);
    } else {
        snprintf(buffer->text, sizeof buffer->text, "%s", base);
    }
    return buffer->text;
}

void ag_table_key_cells(struct ag_table *table, enum ag_site_key by, const char *label,
                        const struct ag_frame *frame) {
    struct ag_frame_text text;
    if (ag_site_key_is_named(by)) {
        ag_table_cell(table, label != NULL ? label : ag_report_no_name(by));
        ag_table_cell(table, "");
    } else if (by == AG_BY_IMAGE) {
        ag_table_cell(table, frame->image != NULL ? frame->image : "?");
        ag_table_cell(table, "");
    } else {
        ag_table_cell(table, ag_frame_function(&text, frame));
        ag_table_cell(table, ag_frame_where(&text, frame));
    }
}

struct ag_span ag_view_span(const struct ag_view *view) {
    const struct ag_profile_window *window = ag_profile_window(view->profile);
    const uint64_t end_ns = ag_profile_summary(view->profile)->duration_ns;
    const bool begins_inside = window != NULL && window->from_ns < end_ns;
    return (struct ag_span){.from_ns = begins_inside ? window->from_ns : 0, .to_ns = end_ns};
}
