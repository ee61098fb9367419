/* memory_table.c: the table of each runtime's memory, the second table of `report --view=heaps`:
 * the bytes reserved, committed, in use, lent to other runtimes, and lost to fragmentation. */
#include "report/memory_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/answers/memory_rows.h"
#include "report/table.h"

enum { SIZES = 6 };

struct cells { /* the numbers of a row, in bytes, in the order of the array words; is_known[i]:
                * bytes[i] is known */
    uint64_t bytes[SIZES];
    bool is_known[SIZES];
};
static const char *const words[SIZES] = {"reserved", "committed",     "in use",
                                         "lent",     "fragmentation", "of which free"};

static struct cells cells_of(const struct ag_memory_row *row) {
    return (struct cells){{row->reserved_bytes, row->committed_bytes, row->metrics.in_use_bytes,
                           row->lent_bytes, row->fragmentation_bytes, row->free_bytes},
                          {row->has_reserved, row->has_committed, true, row->lent_bytes > 0,
                           row->has_fragmentation, row->has_free}};
}

static uint64_t resident_bytes(const struct ag_view *view) {
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(view->profile, &points);
    return n > 0 ? points[n - 1].rss_bytes : 0;
}

static int make_rows(struct ag_view *view, struct ag_memory_row **ret_rows, size_t *ret_count,
                     struct ag_memory_total *ret_total) {
    const struct ag_heap_row *heaps;
    const size_t n_heaps = ag_profile_heaps(view->profile, &heaps);
    const int r = ag_memory_rows_make(heaps, n_heaps, ret_rows, ret_count, ret_total);
    if (r == 0 && ag_profile_window(view->profile) != NULL) {
        *ret_count = 0;
    }
    return r;
}

/* ---- JSON ---- */

static void put_row(struct ag_view *view, const struct ag_memory_row *row) {
    ag_json_open(view->json, NULL, '{');
    ag_json_string(view->json, "name", row->name);
    ag_json_integer_if(view->json, "time_ns", row->time_ns, row->time_ns != 0);
    ag_json_integer_if(view->json, "reserved_bytes", row->reserved_bytes, row->has_reserved);
    ag_json_integer_if(view->json, "committed_bytes", row->committed_bytes, row->has_committed);
    ag_json_metric(view, "in_use_bytes", &row->metrics, AG_METRIC_IN_USE_BYTES);
    ag_json_integer(view->json, "lent_bytes", row->lent_bytes);
    ag_json_integer_if(view->json, "fragmentation_bytes", row->fragmentation_bytes,
                       row->has_fragmentation);
    ag_json_integer_if(view->json, "free_bytes", row->free_bytes, row->has_free);
    ag_json_integer_if(view->json, "of_malloc_bytes", row->of_malloc_bytes, row->has_committed);
    ag_json_close(view->json, '}');
}

int ag_memory_table_json(struct ag_view *view) {
    struct ag_memory_row *rows = NULL;
    struct ag_memory_total total;
    size_t count = 0;
    const int r = make_rows(view, &rows, &count, &total);
    if (r < 0) {
        return r;
    }
    ag_json_open(view->json, "memory", '[');
    for (size_t i = 0; i < count; i++) {
        put_row(view, &rows[i]);
    }
    ag_json_close(view->json, ']');
    if (count > 0) {
        ag_json_open(view->json, "memory_total", '{');
        ag_json_integer(view->json, "reserved_bytes", total.reserved_bytes);
        ag_json_integer(view->json, "committed_bytes", total.committed_bytes);
        ag_json_metric(view, "in_use_bytes", &total.metrics, AG_METRIC_IN_USE_BYTES);
        ag_json_integer(view->json, "fragmentation_bytes", total.fragmentation_bytes);
        ag_json_integer_if(view->json, "resident_bytes", resident_bytes(view),
                           resident_bytes(view) != 0);
        ag_json_close(view->json, '}');
    } else {
        ag_json_null(view->json, "memory_total");
    }
    free(rows);
    return 0;
}

/* ---- text ---- */

/* Adds a row. Columns without a known number in any row are left out. */
static void write_cells(struct ag_table *table, const struct cells *cells,
                        const struct cells *largest, const struct ag_unit units[SIZES],
                        const char *name) {
    struct ag_quantity number;
    for (size_t i = 0; i < SIZES; i++) {
        if (largest->is_known[i]) {
            ag_table_cell(table, cells->is_known[i]
                                     ? ag_quantity_in(&number, cells->bytes[i], units[i])
                                     : "");
        }
    }
    const bool has_share = cells->is_known[1] && cells->is_known[4];
    ag_table_cell(table,
                  has_share ? ag_quantity_share(&number, cells->bytes[4], cells->bytes[1]) : "");
    ag_table_cell(table, name);
}

static struct ag_table *make_table(const struct cells *largest, struct ag_unit units[SIZES],
                                   char heads[SIZES][32]) {
    struct ag_column columns[SIZES + 2] = {{.head = ""}};
    size_t n = 0;
    for (size_t i = 0; i < SIZES; i++) {
        units[i] = ag_unit_of_bytes(largest->bytes[i]);
        snprintf(heads[i], 32, "%s %s", words[i], units[i].name);
        if (largest->is_known[i]) {
            columns[n++] = (struct ag_column){.head = heads[i],
                                              .style = i == 4 ? AG_STYLE_BRIGHT : AG_STYLE_PLAIN};
        }
    }
    columns[n++] = (struct ag_column){.head = "%"};
    columns[n++] = (struct ag_column){
        .head = "whose", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 8};
    return ag_table_new(columns, n);
}

int ag_memory_table_text(struct ag_view *view) {
    struct ag_memory_row *rows = NULL;
    struct ag_memory_total total;
    struct ag_unit units[SIZES];
    struct ag_quantity number;
    char heads[SIZES][32];
    size_t count = 0;
    int r = make_rows(view, &rows, &count, &total);
    if (r < 0 || count == 0) {
        free(rows);
        return r;
    }
    const struct cells sums = {{total.reserved_bytes, total.committed_bytes,
                                total.metrics.in_use_bytes, 0, total.fragmentation_bytes, 0},
                               {true, true, true, false, true, false}};
    struct cells largest = sums;
    for (size_t i = 0; i < count; i++) {
        const struct cells cells = cells_of(&rows[i]);
        for (size_t n = 0; n < SIZES; n++) {
            largest.bytes[n] =
                cells.bytes[n] > largest.bytes[n] ? cells.bytes[n] : largest.bytes[n];
            largest.is_known[n] |= cells.is_known[n];
        }
    }
    ag_page_end_line(view->page);
    ag_page_text(view->page, AG_STYLE_PLAIN, "memory at the end, as each runtime counts it\n");
    ag_page_end_line(view->page);
    struct ag_table *table = make_table(&largest, units, heads);
    for (size_t i = 0; i < count; i++) {
        const struct cells cells = cells_of(&rows[i]);
        write_cells(table, &cells, &largest, units, rows[i].name);
    }
    ag_table_rule(table);
    write_cells(table, &sums, &largest, units, "together");
    r = ag_table_write(table, view->page);
    ag_table_free(table);
    free(rows);
    if (r == 0 && resident_bytes(view) != 0) {
        ag_page_end_line(view->page);
        ag_page_print(view->page, AG_STYLE_DIM, "resident in total: %s\n",
                      ag_quantity_bytes(&number, resident_bytes(view)));
    }
    return r;
}
