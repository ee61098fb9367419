/* json_format.c: exports all data as one JSON object for scripts; docs/reference/report-schema.md
 * describes its keys. Frames are in a table, and a stack contains indices into this table. So the
 * file is about ten times smaller than the stacks in the output of `report --json`. No other tool
 * reads this format. */
#include <errno.h>

#include "export/format_writer.h"
#include "export/numbering.h"
#include "model/answers/types.h"
#include "text/json_writer.h"

static void write_trace(struct ag_export *export, struct ag_json *json) {
    const struct ag_profile_identity *identity = ag_profile_identity(export->profile);
    ag_json_open(json, "trace", '{');
    ag_json_string(json, "file", identity->file);
    ag_json_integer(json, "pid", identity->pid);
    ag_json_strings(json, "command", identity->arguments, identity->n_arguments);
    ag_json_string(json, "exe", identity->exe);
    ag_json_string(json, "mode", identity->mode);
    if (identity->is_sampled) {
        ag_json_integer(json, "interval_bytes", identity->interval_bytes);
    }
    ag_json_integer(json, "duration_ns", ag_profile_recording_ns(export->profile));
    ag_json_string(json, "end", identity->end);
    ag_json_close(json, '}');
}

static void write_stack(struct ag_export *export, struct ag_json *json, uint32_t row,
                        struct ag_numbering *numbers) {
    const struct ag_stack_row *stack = &export->rows[row];
    const struct ag_stack_frame *frames;
    const size_t n = ag_export_stack(export, row, &frames);
    ag_json_open(json, NULL, '{');
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        ag_export_json_metric(export, json, &stack->metrics, metric);
    }
    ag_json_string(json, "type", ag_profile_stack_type(export->profile, stack->stack));
    ag_json_string(json, "label", ag_profile_stack_label(export->profile, stack->stack));
    ag_json_string(json, "via", stack->via_name);
    ag_json_string(json, "heap", stack->heap_name);
    ag_json_string(json, "state", ag_stack_state_name(stack->state));
    ag_json_open(json, "frames", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_integer(json, NULL, ag_numbering_of(numbers, (uint64_t)frames[i].frame, 0, NULL));
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

static void write_frames(struct ag_export *export, struct ag_json *json,
                         const struct ag_numbering *numbers) {
    ag_json_open(json, "frames", '[');
    for (size_t i = 0; i < numbers->count; i++) {
        const struct ag_frame *frame = ag_export_frame(export, (int64_t)numbers->things[i].a);
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", frame->function);
        ag_json_string(json, "file", frame->file);
        ag_json_nonzero(json, "line", frame->line);
        if (frame->end_column != 0) {
            ag_json_integer(json, "column", frame->column);
            ag_json_integer(json, "end_column", frame->end_column);
        }
        ag_json_string(json, "image", frame->image);
        ag_json_string(json, "runtime", frame->runtime);
        ag_json_bool(json, "inlined", frame->is_inlined);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

static void write_timeline(struct ag_export *export, struct ag_json *json) {
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(export->profile, &points);
    ag_json_open(json, "timeline", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_integer(json, "time_ns", points[i].time_ns);
        const struct ag_metrics metrics = ag_profile_point_metrics(export->profile, i);
        ag_export_json_metric(export, json, &metrics, AG_METRIC_IN_USE_BYTES);
        ag_export_json_metric(export, json, &metrics, AG_METRIC_IN_USE_BLOCKS);
        ag_export_json_metric(export, json, &metrics, AG_METRIC_ALLOCATED_BYTES);
        ag_json_integer(json, "rss_bytes", points[i].rss_bytes);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

int ag_json_format(struct ag_export *export) {
    struct ag_json json = {.out = export->out, .line_depth = 2};
    struct ag_numbering numbers = {0};
    ag_json_open(&json, NULL, '{');
    ag_json_string(&json, "schema", "allogram-export/1");
    write_trace(export, &json);
    ag_json_open(&json, "stacks", '[');
    for (uint32_t row = 0; row < export->n_rows; row++) {
        write_stack(export, &json, row, &numbers);
    }
    ag_json_close(&json, ']');
    write_frames(export, &json, &numbers);
    write_timeline(export, &json);
    ag_json_close(&json, '}');
    const int r = numbers.has_failed ? -ENOMEM : 0;
    ag_numbering_done(&numbers);
    return r;
}
