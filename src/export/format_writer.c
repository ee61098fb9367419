/* format_writer.c: functions that the writers of several formats use: stacks as lists of frames,
 * numbers of sampled traces, and names in lines of text. */
#include "export/format_writer.h"

#include <inttypes.h>

#include "model/interval.h"
#include "table/array.h"
#include "text/utf8.h"

/* ---- stacks ---- */

/* Each row of the profile has a stack, which is exported as a list of frames. If callers are
 * missing from the stack, the outermost frame of the list is a mark, because a flame graph in which
 * a stack begins in the middle of the program would be misleading. */
static const struct ag_frame marks[] = {
    {.function = "[no stack]", .label = "[no stack]", .image = "", .runtime = "c"},
    {.function = "[cut]", .label = "[cut]", .image = "", .runtime = "c"},
    {.function = "[incomplete]", .label = "[incomplete]", .image = "", .runtime = "c"},
};

const struct ag_frame *ag_export_frame(const struct ag_export *export, int64_t frame) {
    return frame < 0 ? &marks[-frame - 1] : ag_profile_frame(export->profile, (uint32_t)frame);
}

size_t ag_export_stack(struct ag_export *export, uint32_t row,
                       const struct ag_stack_frame **ret_frames) {
    const size_t n_places = ag_profile_stack_places(export->profile, row, export->places);
    size_t n = 0;
    for (size_t i = 0; i < n_places; i++) {
        const struct ag_place place = ag_profile_place(export->profile, export->places[i]);
        if (AG_ARRAY_RESERVE(export->frames, export->frame_capacity, n + place.n_frames + 1) < 0) {
            return 0;
        }
        for (size_t k = 0; k < place.n_frames; k++) {
            export->frames[n++] = (struct ag_stack_frame){.frame = place.frames[k],
                                                          .place = export->places[i],
                                                          .is_last = k + 1 == place.n_frames};
        }
    }
    int64_t mark = 0;
    if (n == 0) {
        mark = AG_FRAME_NO_STACK;
    } else if (export->rows[row].state == AG_STACK_CUT) {
        mark = AG_FRAME_CUT;
    } else if (export->rows[row].state == AG_STACK_INCOMPLETE) {
        mark = AG_FRAME_INCOMPLETE;
    }
    if (AG_ARRAY_RESERVE(export->frames, export->frame_capacity, n + 1) < 0) {
        return 0;
    }
    if (mark != 0) {
        export->frames[n++] =
            (struct ag_stack_frame){.frame = mark, .place = AG_NO_PLACE, .is_last = true};
    }
    *ret_frames = export->frames;
    return n;
}

/* ---- sampled traces ---- */

/* In a sampled trace every number is an estimate. Formats that can store intervals contain the 95 %
 * interval of each number. Other formats contain a line of text with the intervals of the sums, if
 * they have a field for free text. */

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
    const struct ag_metrics *total = ag_profile_total(export->profile);
    size_t used = (size_t)snprintf(text, AG_EXPORT_NOTE_BYTES,
                                   "estimates from samples, one in %" PRIu64
                                   " bytes on average; bytes with 95 %% certainty: ",
                                   identity->interval_bytes);
    used += add_interval(text + used, AG_EXPORT_NOTE_BYTES - used, "allocated", total,
                         AG_METRIC_ALLOCATED_BYTES);
    used += add_interval(text + used, AG_EXPORT_NOTE_BYTES - used, ", at the peak", total,
                         AG_METRIC_PEAK_BYTES);
    (void)add_interval(text + used, AG_EXPORT_NOTE_BYTES - used, ", in use at the end", total,
                       AG_METRIC_IN_USE_BYTES);
    return text;
}

void ag_export_json_metric(const struct ag_export *export, struct ag_json *json,
                           const struct ag_metrics *metrics, enum ag_metric metric) {
    const char *name = ag_metric_name(metric);
    const uint64_t value = ag_metric_of(metrics, metric);
    if (!ag_export_is_estimate(export)) {
        ag_json_integer(json, name, value);
        return;
    }
    const struct ag_interval interval = ag_interval_in_profile(export->profile, metrics, metric);
    /* A block is temporary if it is freed before its thread has made more than a few allocations
     * (by default none). A sampled trace does not contain all allocations, so the number of
     * temporary blocks is unknown. */
    ag_json_estimate(json, name, value, metric != AG_METRIC_TEMPORARY_BLOCKS, interval.low,
                     interval.high);
}

/* ---- names in formats that are lines of text ---- */

/* Names come from untrusted files. A line feed in a name would end the line, and the rest of the
 * name would be a forged line. An escape sequence would control the terminal on which the file is
 * shown. So control characters are replaced by visible text. */

void ag_put_plain(FILE *out, const char *text, char from, char to) {
    const char *at = text ? text : "";
    for (uint32_t c; (c = ag_utf8_next(&at)) != 0;) {
        if (c < 0x80 && c >= 0x20 && c != 0x7f) {
            putc_unlocked(from != 0 && (char)c == from ? to : (char)c, out);
        } else if (ag_utf8_is_control(c)) {
            fprintf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
        } else {
            char bytes[AG_UTF8_BYTES];
            fwrite_unlocked(bytes, 1, ag_utf8_put(bytes, c), out);
        }
    }
}

void ag_put_function(FILE *out, const struct ag_frame *frame, char from, char to) {
    ag_put_plain(out, frame->label, from, to);
}

void ag_put_command(struct ag_export *export) {
    const struct ag_profile_identity *identity = ag_profile_identity(export->profile);
    for (uint32_t i = 0; i < identity->n_arguments; i++) {
        fputs_unlocked(i > 0 ? " " : "", export->out);
        ag_put_plain(export->out, identity->arguments[i], 0, 0);
    }
}
