/* sparkline.c: draws a quantity over time as text, see sparkline.h. Each column of a chart is a bar
 * whose height is a multiple of an eighth of a row. */
#include "report/sparkline.h"

#include <stdbool.h>
#include <string.h>

#include "model/profile.h"
#include "report/page.h"
#include "report/quantity.h"

/* Bytes allocated until TIME_NS, interpolated between two points. The search starts at index *at
 * and advances *at, so callers pass times in ascending order. */
static double allocated_until(const struct ag_timeline_point *points, size_t n_points,
                              double time_ns, size_t *at) {
    while (*at < n_points && (double)points[*at].time_ns < time_ns) {
        (*at)++;
    }
    if (*at == n_points) {
        return n_points > 0 ? (double)points[n_points - 1].allocated_bytes : 0;
    }
    double before_ns = *at > 0 ? (double)points[*at - 1].time_ns : 0;
    double before = *at > 0 ? (double)points[*at - 1].allocated_bytes : 0;
    double span_ns = (double)points[*at].time_ns - before_ns;
    double part = span_ns > 0 ? (time_ns - before_ns) / span_ns : 1;
    return before + ((double)points[*at].allocated_bytes - before) * part;
}

static double end_of_step(struct ag_span span, size_t step, size_t count) {
    const double length_ns = (double)(span.to_ns - span.from_ns);
    return (double)span.from_ns + length_ns * (double)(step + 1) / (double)count;
}

static void sample_allocated(const struct ag_timeline_point *points, size_t n_points,
                             struct ag_span span, uint64_t *ret_values, size_t count) {
    size_t at = 0;
    double before = allocated_until(points, n_points, (double)span.from_ns, &at);
    for (size_t step = 0; step < count; step++) {
        double until = allocated_until(points, n_points, end_of_step(span, step, count), &at);
        ret_values[step] = until > before ? (uint64_t)(until - before) : 0;
        before = until;
    }
}

static void sample_highest(const struct ag_timeline_point *points, size_t n_points,
                           struct ag_span span, bool is_resident, uint64_t *ret_values,
                           size_t count) {
    size_t at = 0;
    uint64_t last = 0;
    for (; at < n_points && points[at].time_ns < span.from_ns; at++) {
        last = is_resident ? points[at].rss_bytes : points[at].in_use_bytes;
    }
    for (size_t step = 0; step < count; step++) {
        double end_ns = end_of_step(span, step, count);
        uint64_t highest = last; /* the value at the start of the step */
        bool is_last_step = step + 1 == count;
        for (; at < n_points && (is_last_step || (double)points[at].time_ns < end_ns); at++) {
            last = is_resident ? points[at].rss_bytes : points[at].in_use_bytes;
            highest = last > highest ? last : highest;
        }
        ret_values[step] = highest;
    }
}

void ag_course_sample(const struct ag_timeline_point *points, size_t n_points, struct ag_span span,
                      enum ag_course course, uint64_t *ret_values, size_t count) {
    switch (course) {
    case AG_COURSE_IN_USE:
        sample_highest(points, n_points, span, /* is_resident= */ false, ret_values, count);
        break;
    case AG_COURSE_RESIDENT:
        sample_highest(points, n_points, span, /* is_resident= */ true, ret_values, count);
        break;
    case AG_COURSE_ALLOCATED:
        sample_allocated(points, n_points, span, ret_values, count);
        break;
    }
}

uint64_t ag_course_largest(const uint64_t *values, size_t count) {
    uint64_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = values[i] > largest ? values[i] : largest;
    }
    return largest;
}

size_t ag_sparkline_write(struct ag_page *page, const uint64_t *values, size_t count,
                          uint64_t largest, unsigned row, unsigned n_rows) {
    static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    char line[AG_PAGE_MOST_COLUMNS * 4 + 1];
    size_t used = 0, columns = 0, shown = 0; /* shown: bytes of the line without trailing blanks */
    for (size_t i = 0; i < count && i < AG_PAGE_MOST_COLUMNS; i++) {
        double filled = largest == 0 ? 0 : (double)values[i] / (double)largest * n_rows * 8;
        unsigned height = (unsigned)(filled + 0.5);
        height = height == 0 && values[i] != 0 ? 1 : height;
        unsigned below = (n_rows - 1 - row) * 8;
        unsigned level = height <= below ? 0 : height - below;
        const char *block = eighths[level < 8 ? level : 8];
        memcpy(line + used, block, strlen(block));
        used += strlen(block);
        if (level > 0) {
            shown = used;
            columns = i + 1;
        }
    }
    line[shown] = '\0';
    ag_page_text(page, AG_STYLE_PLAIN, line);
    return columns;
}

void ag_sparkline_axis(struct ag_page *page, size_t indent, size_t columns, struct ag_span span) {
    struct ag_quantity start, middle, end;
    struct ag_unit unit = ag_unit_of_time(span.to_ns);
    ag_quantity_in(&start, span.from_ns, unit);
    ag_quantity_in(&middle, span.from_ns + (span.to_ns - span.from_ns) / 2, unit);
    ag_quantity_in(&end, span.to_ns, unit);
    size_t start_columns = strlen(start.text);
    size_t end_columns = strlen(end.text) + 1 + strlen(unit.name);
    size_t middle_starts = columns / 2 - strlen(middle.text) / 2;
    ag_page_spaces(page, indent);
    ag_page_text(page, AG_STYLE_DIM, start.text);
    if (middle_starts > start_columns + 1 &&
        middle_starts + strlen(middle.text) + 2 + end_columns < columns) {
        ag_page_spaces(page, middle_starts - start_columns);
        ag_page_text(page, AG_STYLE_DIM, middle.text);
        ag_page_spaces(page, columns - middle_starts - strlen(middle.text) - end_columns);
    } else {
        const size_t both = end_columns + start_columns;
        ag_page_spaces(page, columns > both ? columns - both : 1);
    }
    ag_page_print(page, AG_STYLE_DIM, "%s %s\n", end.text, unit.name);
}
