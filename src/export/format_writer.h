/* format_writer.h: the input of the functions that write the formats, and functions that several
 * formats use. */
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
    enum ag_metric metric; /* the metric of --metric; without --metric, allocated_bytes */
    bool has_metric;       /* --metric was given */
    /* The function counters (counts of calls for each path of calls) whose paths are exported in
     * place of the stacks (`rows`), with their values of call_metric; NULL: the stacks are
     * exported. */
    const struct ag_functions *functions;
    enum ag_call_metric call_metric;
    const char *version;
    uint32_t *places; /* buffer for the places of one stack, used by ag_export_stack */
    struct ag_stack_frame *frames;
    size_t frame_capacity;
};
/* Returns 0 or a negative errno; -ENODATA: the trace has no data for the format. */
typedef int ag_export_writer(struct ag_export *export);

ag_export_writer ag_callgrind_format, ag_csv_format, ag_dhat_format, ag_firefox_format,
    ag_folded_format, ag_heapprofile_format, ag_heaptrack_format, ag_json_format, ag_massif_format,
    ag_perf_map_format, ag_pprof_format, ag_speedscope_format;

/* ---- stacks ---- */
/* Marks are frames that the profile does not contain. AG_FRAME_NO_STACK is the only frame of an
 * empty stack; the other marks replace callers that were not recorded. */
enum {
    AG_FRAME_NO_STACK = -1,   /* "[no stack]" */
    AG_FRAME_CUT = -2,        /* "[cut]": the stack is deeper than --depth */
    AG_FRAME_INCOMPLETE = -3, /* "[incomplete]": the unwinding of the stack ended early */
};
#define AG_NO_PLACE UINT32_MAX

struct ag_stack_frame {
    int64_t frame;  /* a frame of the profile, or a mark */
    uint32_t place; /* place of the frame, a code address with the frames inlined there
                     * (model/answers/places.h); AG_NO_PLACE: the frame is a mark */
    bool is_last;   /* the last frame of its place: the function into which the other frames of the
                     * place are inlined */
};
/* Gets the frames of the stack rows[ROW], innermost first. They are valid until the next call.
 * Returns their number, at least 1; 0: out of memory. */
size_t ag_export_stack(struct ag_export *export, uint32_t row,
                       const struct ag_stack_frame **ret_frames);
const struct ag_frame *ag_export_frame(const struct ag_export *export, int64_t frame);

/* ---- sampled traces ---- */
bool ag_export_is_estimate(const struct ag_export *export);
enum { AG_EXPORT_NOTE_BYTES = 320 };
/* Writes a sentence for a format's free text into TEXT, and returns TEXT. The sentence says that
 * the numbers are estimates, and contains the intervals of the sums. For an exact trace TEXT is
 * "". */
const char *ag_export_note(const struct ag_export *export, char text[AG_EXPORT_NOTE_BYTES]);
/* Writes a metric by its name, and for a sampled trace its 95 % interval as NAME_ci95. In JSON,
 * both are null if the metric cannot be estimated from samples. */
void ag_export_json_metric(const struct ag_export *export, struct ag_json *json,
                           const struct ag_metrics *metrics, enum ag_metric metric);

/* ---- names in formats that are lines of text ---- */
/* Writes TEXT as a part of a line: control characters in the form \x1b, invalid UTF-8 as U+FFFD,
 * and the character FROM, which has a meaning in the format, as TO. FROM 0: no character is
 * replaced. */
void ag_put_plain(FILE *out, const char *text, char from, char to);
/* Writes the name of a frame's function as ag_put_plain does, after "[runtime] " if the function is
 * not native. */
void ag_put_function(FILE *out, const struct ag_frame *frame, char from, char to);
/* Writes the words of the recorded command, separated by blanks. */
void ag_put_command(struct ag_export *export);

#endif
