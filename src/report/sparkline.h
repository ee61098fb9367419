/* sparkline.h: draws a quantity over time (a "course") in one or several rows of text. */
#ifndef AG_SPARKLINE_H
#define AG_SPARKLINE_H

#include <stddef.h>
#include <stdint.h>

struct ag_page;
struct ag_timeline_point;

struct ag_span { /* from_ns <= to_ns */
    uint64_t from_ns, to_ns;
};

enum ag_course { AG_COURSE_IN_USE, AG_COURSE_RESIDENT, AG_COURSE_ALLOCATED };

/* Divides SPAN into COUNT steps of equal time, and stores one value for each step: the highest
 * value in the step. The value at the start of a step is that of the last point before it. For
 * AG_COURSE_ALLOCATED the values are the bytes allocated within each step, assuming a constant rate
 * between two points. */
void ag_course_sample(const struct ag_timeline_point *points, size_t n_points, struct ag_span span,
                      enum ag_course course, uint64_t *ret_values, size_t count);
uint64_t ag_course_largest(const uint64_t *values, size_t count);
/* Writes row ROW (0 is the top) of a chart with N_ROWS rows; a bar for LARGEST reaches the top.
 * Returns the columns written: the caller adds trailing blanks if it needs them. */
size_t ag_sparkline_write(struct ag_page *page, const uint64_t *values, size_t count,
                          uint64_t largest, unsigned row, unsigned n_rows);
/* Writes a time axis such as "0        0.8        1.6 s" under a chart of COLUMNS columns, and ends
 * the line. */
void ag_sparkline_axis(struct ag_page *page, size_t indent, size_t columns, struct ag_span span);

#endif
