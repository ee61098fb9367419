/* csv_format.c: exports CSV for spreadsheets and databases. Each pair of a stack and an allocation
 * function is a row. The columns are: the metrics; function, file, image and line of the innermost
 * frame, which allocates; the type; the allocation function that was called (via); the heap; the
 * state; the stack from the innermost frame outward; the label.
 *
 * In a sampled trace each metric has two more columns: the bounds of its 95 % interval. Values that
 * cannot be estimated from samples are empty.
 *
 * As RFC 4180 specifies, text fields are in quotes, a quote inside a field is doubled, and lines
 * end in CR LF. The first line has the names of the columns. A spreadsheet evaluates a field that
 * begins with = + - @ as a formula (OWASP calls this CSV injection), so an apostrophe is written
 * before such a text, which prevents the evaluation. */
#include <string.h>

#include "export/format_writer.h"
#include "model/answers/types.h"
#include "model/interval.h"
#include "text/number.h"

static bool is_formula(const char *text) {
    return text && *text && strchr("=+-@", *text);
}

static void put_field(FILE *out, const char *text) {
    putc_unlocked('"', out);
    if (is_formula(text)) {
        putc_unlocked('\'', out);
    }
    /* Each part ends before a quote, or after at most 511 bytes. */
    for (const char *at = text ? text : ""; *at;) {
        char part[512];
        const size_t quote = strcspn(at, "\"");
        size_t length = quote < sizeof(part) - 1 ? quote : sizeof(part) - 1;
        while (length > 0 && length < quote && ((unsigned char)at[length] & 0xc0) == 0x80) {
            length--; /* do not split a UTF-8 character */
        }
        length = length == 0 && quote > 0 ? 1 : length;
        memcpy(part, at, length);
        part[length] = '\0';
        ag_put_plain(out, part, 0, 0);
        at += length;
        if (*at == '"') {
            fputs_unlocked("\"\"", out);
            at++;
        }
    }
    putc_unlocked('"', out);
}

static void put_stack(struct ag_export *export, const struct ag_stack_frame *frames, size_t n) {
    fputs_unlocked(",\"", export->out);
    if (n > 0 && is_formula(ag_export_frame(export, frames[0].frame)->label)) {
        putc_unlocked('\'', export->out);
    }
    for (size_t i = 0; i < n; i++) {
        fputs_unlocked(i > 0 ? " < " : "", export->out);
        ag_put_function(export->out, ag_export_frame(export, frames[i].frame), '"', '\'');
    }
    putc_unlocked('"', export->out);
}

static void put_metric(struct ag_export *export, const struct ag_metrics *metrics,
                       enum ag_metric metric) {
    FILE *out = export->out;
    if (!ag_export_is_estimate(export)) {
        ag_put_number(out, ag_metric_of(metrics, metric));
    } else if (metric == AG_METRIC_TEMPORARY_BLOCKS) {
        fputs_unlocked(",,", out);
    } else {
        const struct ag_interval interval = ag_interval_of_metric(metrics, metric);
        ag_put_number(out, ag_metric_of(metrics, metric));
        putc_unlocked(',', out);
        ag_put_number(out, interval.low);
        putc_unlocked(',', out);
        ag_put_number(out, interval.high);
    }
    putc_unlocked(',', out);
}

static void put_row(struct ag_export *export, uint32_t row) {
    const struct ag_stack_row *stack = &export->rows[row];
    const struct ag_stack_frame *frames;
    const size_t n = ag_export_stack(export, row, &frames);
    const struct ag_frame *first =
        ag_export_frame(export, n > 0 ? frames[0].frame : AG_FRAME_NO_STACK);
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        put_metric(export, &stack->metrics, metric);
    }
    const char *const fields[] = {first->function, first->file, first->image};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        put_field(export->out, fields[i]);
        putc_unlocked(',', export->out);
    }
    ag_put_number(export->out, first->line);
    const char *const more[] = {ag_profile_stack_type(export->profile, stack->stack),
                                stack->via_name, stack->heap_name,
                                ag_stack_state_name(stack->state)};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        putc_unlocked(',', export->out);
        put_field(export->out, more[i]);
    }
    put_stack(export, frames, n);
    putc_unlocked(',', export->out);
    put_field(export->out, ag_profile_stack_label(export->profile, stack->stack));
    fputs_unlocked("\r\n", export->out);
}

int ag_csv_format(struct ag_export *export) {
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        const char *name = ag_metric_name(metric);
        fprintf(export->out, "%s,", name);
        if (ag_export_is_estimate(export)) {
            fprintf(export->out, "%s_ci95_low,%s_ci95_high,", name, name);
        }
    }
    fputs("function,file,image,line,type,via,heap,state,stack,label\r\n", export->out);
    for (uint32_t row = 0; row < export->n_rows; row++) {
        put_row(export, row);
    }
    return 0;
}
