/* format_writer.h: the input of a format's writer, and functions that writers share. */
#ifndef AG_FORMAT_WRITER_H
#define AG_FORMAT_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/answers/places.h"
#include "model/metric.h"
#include "model/profile.h"
#include "text/json_writer.h"

struct ag_export {
    FILE *out;
    struct ag_profile *profile;
    const struct ag_stack_row *rows;
    size_t n_rows;
    enum ag_metric metric; /* allocated_bytes unless another was asked for */
    bool has_metric;       /* it was asked for */
    const char *version;
    uint32_t *places; /* room for one stack, see ag_export_stack */
    struct ag_stack_frame *frames;
    size_t frame_capacity;
};
/* Returns 0 or a negative errno; -ENODATA: the trace has no data for the format. */
typedef int ag_export_writer(struct ag_export *export);

ag_export_writer ag_callgrind_format, ag_csv_format, ag_dhat_format, ag_firefox_format,
    ag_folded_format, ag_heapprofile_format, ag_heaptrack_format, ag_json_format, ag_massif_format,
    ag_perf_map_format, ag_pprof_format, ag_speedscope_format;

/* ---- stacks ---- */
/* Frames that the profile does not have: the only frame of an empty stack, and the one in place of
 * callers that were not recorded. */
enum {
    AG_FRAME_NO_STACK = -1,   /* "[no stack]" */
    AG_FRAME_CUT = -2,        /* "[cut]": deeper than --depth */
    AG_FRAME_INCOMPLETE = -3, /* "[incomplete]": the walk ended early */
};
#define AG_NO_PLACE UINT32_MAX

struct ag_stack_frame {
    int64_t frame;  /* of the profile, or one of the above */
    uint32_t place; /* that it stands at, AG_NO_PLACE for those above */
    bool is_last;   /* of its place: what the others of the place were inlined into */
};
/* The frames of a row, innermost first, at least 1; valid until the next call. 0: no memory. */
size_t ag_export_stack(struct ag_export *export, uint32_t row,
                       const struct ag_stack_frame **ret_frames);
const struct ag_frame *ag_export_frame(const struct ag_export *export, int64_t frame);

/* ---- sampled traces ---- */
bool ag_export_is_estimate(const struct ag_export *export);
enum { AG_EXPORT_NOTE_BYTES = 320 };
/* For a format's free text: that its numbers are estimates, and the uncertainty of the sums, in
 * TEXT, which is returned; "" for an exact trace. */
const char *ag_export_note(const struct ag_export *export, char text[AG_EXPORT_NOTE_BYTES]);
/* A metric by its name, and of a sampled trace its 95 % interval as NAME_ci95; null where samples
 * do not show it. */
void ag_export_json_metric(const struct ag_export *export, struct ag_json *json,
                           const struct ag_metrics *metrics, enum ag_metric metric);

/* ---- names in formats that are lines of text ---- */
/* Writes TEXT for use in a line: control characters as \x1b, invalid UTF-8 as U+FFFD, and the
 * character FROM (0: none), which the format reserves, as TO. */
void ag_put_plain(FILE *out, const char *text, char from, char to);
/* "[runtime] " in front of the function where it is no native one. */
void ag_put_function(FILE *out, const struct ag_frame *frame, char from, char to);
/* The words of the recorded command, separated by blanks. */
void ag_put_command(struct ag_export *export);

#endif
