/* frame_text.c: frames and metrics as the views print them. */
#include <inttypes.h>
#include <string.h>

#include "report/view.h"

void ag_json_metrics(struct ag_json *json, const struct ag_metrics *metrics) {
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        ag_json_integer(json, ag_metric_name(metric), ag_metric_of(metrics, metric));
    }
}

void ag_json_frame(struct ag_json *json, const struct ag_frame *frame) {
    ag_json_string(json, "function", frame->function);
    ag_json_string(json, "file", frame->file);
    if (frame->line != 0) {
        ag_json_integer(json, "line", frame->line);
    } else {
        ag_json_null(json, "line");
    }
    ag_json_string(json, "image", frame->image);
    ag_json_string(json, "runtime", frame->runtime);
}

const char *ag_frame_function(struct ag_frame_text *buffer, const struct ag_frame *frame) {
    bool is_native = frame->runtime == NULL || strcmp(frame->runtime, "c") == 0;
    snprintf(buffer->text, sizeof buffer->text, "%s%s%s%s", is_native ? "" : "[",
             is_native ? "" : frame->runtime, is_native ? "" : "] ", frame->function);
    return buffer->text;
}

const char *ag_frame_where(struct ag_frame_text *buffer, const struct ag_frame *frame) {
    if (frame->file == NULL) {
        snprintf(buffer->text, sizeof buffer->text, "%s", frame->image != NULL ? frame->image : "");
        return buffer->text;
    }
    const char *slash = strrchr(frame->file, '/');
    const char *base = slash != NULL ? slash + 1 : frame->file;
    if (frame->line != 0) {
        snprintf(buffer->text, sizeof buffer->text, "%s:%" PRIu32, base, frame->line);
    } else {
        snprintf(buffer->text, sizeof buffer->text, "%s", base);
    }
    return buffer->text;
}

struct ag_metrics ag_view_total(const struct ag_view *view) {
    const struct ag_stack_row *rows;
    size_t n_rows = ag_profile_stacks(view->profile, &rows);
    struct ag_metrics total = {0};
    for (size_t i = 0; i < n_rows; i++) {
        ag_metrics_add(&total, &rows[i].metrics);
    }
    return total;
}
