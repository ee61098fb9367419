/* sparkline.h: a course over time in one line of text, or in several. */
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

/* The course of a timeline in COUNT steps of equal time: the highest value of each step, or, for a
 * step without a point, the last value before it. AG_COURSE_ALLOCATED: the bytes allocated within
 * each step, assuming an even rate between two points. */
void ag_course_sample(const struct ag_timeline_point *points, size_t n_points, struct ag_span span,
                      enum ag_course course, uint64_t *ret_values, size_t count);
uint64_t ag_course_largest(const uint64_t *values, size_t count);
/* Row ROW (0 is the top) of a chart N_ROWS high; LARGEST fills it to the top. Returns the columns
 * it took: blanks at the end are left to the caller. */
size_t ag_sparkline_write(struct ag_page *page, const uint64_t *values, size_t count,
                          uint64_t largest, unsigned row, unsigned n_rows);
/* "0 s        0.8        1.6 s" under a chart that is COLUMNS wide, with a line feed. */
void ag_sparkline_axis(struct ag_page *page, size_t indent, size_t columns, struct ag_span span);

#endif
