/* timeline_view.c: `report --view=timeline`: bytes in use, resident bytes and the rate of
 * allocation over time. */
#include "report/quantity.h"
#include "report/view.h"

enum { HEAD_COLUMNS = 14, CHART_ROWS = 8, FLAT_ROWS = 2 };

int ag_timeline_view_json(struct ag_view *view) {
    ag_heading_whole_process(view);
    const struct ag_timeline_point *points;
    size_t n_points = ag_profile_timeline(view->profile, &points);
    ag_json_open(view->json, "points", '[');
    for (size_t i = 0; i < n_points && i < view->limit; i++) {
        const struct ag_metrics metrics = ag_profile_point_metrics(view->profile, i);
        ag_json_open(view->json, NULL, '{');
        ag_json_integer(view->json, "time_ns", points[i].time_ns);
        ag_json_metric(view, "in_use_bytes", &metrics, AG_METRIC_IN_USE_BYTES);
        ag_json_metric(view, "in_use_blocks", &metrics, AG_METRIC_IN_USE_BLOCKS);
        ag_json_metric(view, "allocated_bytes", &metrics, AG_METRIC_ALLOCATED_BYTES);
        ag_json_integer(view->json, "rss_bytes", points[i].rss_bytes);
        ag_json_close(view->json, '}');
    }
    ag_json_close(view->json, ']');
    return 0;
}

static void write_chart(struct ag_view *view, enum ag_course course, const char *name,
                        unsigned n_rows) {
    struct ag_page *page = view->page;
    const struct ag_timeline_point *points;
    size_t n_points = ag_profile_timeline(view->profile, &points);
    const struct ag_span span = ag_view_span(view);
    uint64_t values[AG_PAGE_MOST_COLUMNS];
    size_t count = page->columns - HEAD_COLUMNS;
    ag_course_sample(points, n_points, span, course, values, count);
    uint64_t largest = ag_course_largest(values, count);
    struct ag_quantity number;
    if (course == AG_COURSE_ALLOCATED) { /* the values are bytes per column of the chart; the head
                                          * shows bytes per second */
        double step_s = (double)(span.to_ns - span.from_ns) / 1e9 / (double)count;
        ag_quantity_bytes(&number, step_s > 0 ? (uint64_t)((double)largest / step_s) : 0);
    } else {
        ag_quantity_bytes(&number, largest);
    }
    for (unsigned row = 0; row < n_rows; row++) {
        const char *head = row == 0 ? name : row == 1 ? number.text : "";
        ag_page_print(page, row == 1 ? AG_STYLE_BRIGHT : AG_STYLE_PLAIN, "  %-*s", HEAD_COLUMNS - 2,
                      head);
        (void)ag_sparkline_write(page, values, count, largest, row, n_rows);
        ag_page_end_line(page);
    }
}

int ag_timeline_view_text(struct ag_view *view) {
    ag_heading_whole_process(view);
    const struct ag_timeline_point *points;
    if (ag_profile_timeline(view->profile, &points) == 0) {
        ag_page_text(view->page, AG_STYLE_PLAIN, "no point in time was recorded\n");
        return 0;
    }
    write_chart(view, AG_COURSE_IN_USE, "in use", CHART_ROWS);
    write_chart(view, AG_COURSE_RESIDENT, "resident", FLAT_ROWS);
    write_chart(view, AG_COURSE_ALLOCATED, "alloc/s", FLAT_ROWS);
    ag_sparkline_axis(view->page, HEAD_COLUMNS, view->page->columns - HEAD_COLUMNS,
                      ag_view_span(view));
    return 0;
}
