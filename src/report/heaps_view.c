/* heaps_view.c: `report --view=heaps`: for each heap (an allocator with its domain: cpu, gpu or
 * external), what was allocated in it, what is in use, and what it mapped from the kernel. A second
 * table shows the memory of each runtime: the bytes reserved, committed, in use, lent to other
 * runtimes, and lost to fragmentation. */
#include <stdlib.h>
#include <string.h>

#include "model/answers/memory_rows.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

static uint64_t value_of(const struct ag_heap_sum *sum, enum ag_metric metric) {
    switch (metric) {
    case AG_METRIC_ALLOCATED_BLOCKS:
        return sum->allocated_blocks;
    case AG_METRIC_IN_USE_BYTES:
        return sum->in_use_bytes;
    case AG_METRIC_IN_USE_BLOCKS:
        return sum->in_use_blocks;
    case AG_METRIC_PEAK_BYTES:
        return sum->peak_bytes;
    case AG_METRIC_FREED_BYTES:
        return sum->allocated_bytes - sum->in_use_bytes;
    case AG_METRIC_FREED_BLOCKS:
        return sum->allocated_blocks - sum->in_use_blocks;
    case AG_METRIC_DEFAULT:
    case AG_METRIC_ALLOCATED_BYTES:
    case AG_METRIC_PEAK_BLOCKS: /* not counted for each heap */
    case AG_METRIC_TEMPORARY_BLOCKS:
    case AG_METRIC_END:
        break;
    }
    return sum->allocated_bytes;
}

static int rank_heaps(struct ag_view *view, const struct ag_heap_row **ret_rows,
                      struct ag_ranking *ranking) {
    size_t n_rows = ag_profile_heaps(view->profile, ret_rows);
    int r = ag_ranking_start(ranking, n_rows);
    for (size_t i = 0; r == 0 && i < n_rows; i++) {
        const struct ag_heap_sum *sum = &(*ret_rows)[i].sum;
        if (sum->allocated_blocks >= view->options->min_count) {
            ag_ranking_add(ranking, (struct ag_rank){.first = value_of(sum, view->sort),
                                                     .second = sum->mapped_bytes,
                                                     .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(ranking);
    return r;
}

static bool is_collected(const struct ag_heap_row *row) {
    return strcmp(row->kind, "malloc") != 0 ||
           row->sum.moved_blocks + row->sum.promoted_blocks + row->sum.collected_blocks > 0;
}

/* Writes how many blocks a garbage collector moved, promoted and freed. A sampled trace does not
 * contain these numbers. */
static void put_collected(struct ag_view *view, const struct ag_heap_row *row) {
    const struct {
        const char *key;
        uint64_t blocks;
    } counts[] = {{"moved_blocks", row->sum.moved_blocks},
                  {"promoted_blocks", row->sum.promoted_blocks},
                  {"collected_blocks", row->sum.collected_blocks}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        ag_json_integer_if(view->json, counts[i].key, counts[i].blocks,
                           is_collected(row) && !ag_profile_identity(view->profile)->is_sampled);
    }
}

/* Writes further properties of a heap in a few words. */
static void write_note(const struct ag_heap_row *row, char note[160]) {
    const bool is_moving = strcmp(row->kind, "moving") == 0;
    const bool is_kept = strcmp(row->kind, "non_moving") == 0;
    const bool is_bytes = strcmp(row->unit, "bytes") == 0;
    snprintf(note, 160, "%s%s%s%s%.32s", row->is_backing ? "holds other heaps" : "",
             row->is_backing && (is_moving || is_kept) ? ", " : "",
             is_moving ? "moving"
             : is_kept ? "collected"
                       : "",
             is_bytes                                  ? ""
             : row->is_backing || is_moving || is_kept ? ", counts "
                                                       : "counts ",
             is_bytes ? "" : row->unit);
}

/* ---- the memory of runtimes ---- */

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

/* Makes the rows of the second table. There are none if no runtime reported its memory and the
 * program mapped no memory itself. There are also none if the report has a time window (--from,
 * --to), because the numbers are only known for the end of the recording. */
static int make_memory_rows(struct ag_view *view, struct ag_memory_row **ret_rows,
                            size_t *ret_count, struct ag_memory_total *ret_total) {
    const struct ag_heap_row *heaps;
    const size_t n_heaps = ag_profile_heaps(view->profile, &heaps);
    const int r = ag_memory_rows_make(heaps, n_heaps, ret_rows, ret_count, ret_total);
    if (r == 0 && ag_profile_window(view->profile) != NULL) {
        *ret_count = 0;
    }
    return r;
}

static void put_memory_row(struct ag_view *view, const struct ag_memory_row *row) {
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

static int write_memory_json(struct ag_view *view) {
    struct ag_memory_row *rows = NULL;
    struct ag_memory_total total;
    size_t count = 0;
    const int r = make_memory_rows(view, &rows, &count, &total);
    if (r < 0) {
        return r;
    }
    ag_json_open(view->json, "memory", '[');
    for (size_t i = 0; i < count; i++) {
        put_memory_row(view, &rows[i]);
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
        .head = "owner", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 8};
    return ag_table_new(columns, n);
}

static int write_memory(struct ag_view *view) {
    struct ag_memory_row *rows = NULL;
    struct ag_memory_total total;
    struct ag_unit units[SIZES];
    struct ag_quantity number;
    char heads[SIZES][32];
    size_t count = 0;
    int r = make_memory_rows(view, &rows, &count, &total);
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
    write_cells(table, &sums, &largest, units, "total");
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

/* ---- the view ---- */

int ag_heaps_view_json(struct ag_view *view) {
    ag_heading_whole_process(view);
    const struct ag_heap_row *rows;
    struct ag_ranking ranking;
    int r = rank_heaps(view, &rows, &ranking);
    if (r < 0) {
        return r;
    }
    ag_json_open(view->json, "heaps", '[');
    for (size_t i = 0; i < ranking.count && i < view->limit; i++) {
        const struct ag_heap_row *row = &rows[ranking.ranks[i].row];
        ag_json_open(view->json, NULL, '{');
        ag_json_string(view->json, "name", row->name);
        ag_json_string(view->json, "domain", row->domain);
        ag_json_string(view->json, "allocator", row->allocator);
        ag_json_string(view->json, "runtime", row->runtime);
        ag_json_metric(view, "allocated_bytes", &row->metrics, AG_METRIC_ALLOCATED_BYTES);
        ag_json_metric(view, "allocated_blocks", &row->metrics, AG_METRIC_ALLOCATED_BLOCKS);
        ag_json_metric(view, "in_use_bytes", &row->metrics, AG_METRIC_IN_USE_BYTES);
        ag_json_metric(view, "in_use_blocks", &row->metrics, AG_METRIC_IN_USE_BLOCKS);
        ag_json_metric(view, "peak_bytes", &row->metrics, AG_METRIC_PEAK_BYTES);
        ag_json_integer(view->json, "mapped_bytes", row->sum.mapped_bytes);
        ag_json_null(view->json, "resident_bytes"); /* the trace has the resident size of mappings,
                                                     * not of heaps */
        ag_json_bool(view->json, "backing", row->is_backing);
        ag_json_string(view->json, "kind", row->kind);
        ag_json_string(view->json, "unit", row->unit);
        put_collected(view, row);
        ag_json_close(view->json, '}');
    }
    ag_json_close(view->json, ']');
    ag_ranking_end(&ranking);
    return write_memory_json(view);
}

int ag_heaps_view_text(struct ag_view *view) {
    ag_heading_whole_process(view);
    const struct ag_heap_row *rows;
    struct ag_ranking ranking;
    int r = rank_heaps(view, &rows, &ranking);
    if (r < 0) {
        return r;
    }
    struct ag_heap_sum all = {.heap = 0};
    for (size_t i = 0; i < ranking.count; i++) {
        const struct ag_heap_sum *sum = &rows[ranking.ranks[i].row].sum;
        all.allocated_bytes += sum->allocated_bytes;
        all.in_use_bytes += sum->in_use_bytes;
        all.peak_bytes += sum->peak_bytes;
        all.mapped_bytes += sum->mapped_bytes;
    }
    const uint64_t largest[] = {all.allocated_bytes, all.in_use_bytes, all.peak_bytes,
                                all.mapped_bytes};
    static const char *const words[] = {"allocated", "in use", "peak", "mapped"};
    struct ag_unit units[4];
    char heads[4][32];
    for (size_t i = 0; i < 4; i++) {
        units[i] = ag_unit_of_bytes(largest[i]);
        snprintf(heads[i], sizeof heads[i], "%s %s", words[i], units[i].name);
    }
    const struct ag_column columns[] = {
        {.head = heads[0], .style = AG_STYLE_BRIGHT},
        {.head = heads[1]},
        {.head = heads[2]},
        {.head = heads[3]},
        {.head = "heap", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 9},
        {.head = "allocator", .align = AG_ALIGN_LEFT, .least_columns = 8},
        {.head = "domain", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM},
        {.head = "", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 6},
    };
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < ranking.count && i < view->limit; i++) {
        const struct ag_heap_row *row = &rows[ranking.ranks[i].row];
        const uint64_t values[] = {row->sum.allocated_bytes, row->sum.in_use_bytes,
                                   row->sum.peak_bytes, row->sum.mapped_bytes};
        for (size_t column = 0; column < 4; column++) {
            struct ag_quantity number;
            ag_table_cell(table, ag_quantity_in(&number, values[column], units[column]));
        }
        ag_table_cell(table, row->name);
        ag_table_cell(table, row->allocator != NULL ? row->allocator : "");
        ag_table_cell(table, row->domain != NULL ? row->domain : "");
        char note[160];
        write_note(row, note);
        ag_table_cell(table, note);
    }
    r = ag_ranking_write_table(&ranking, view->limit, table, view->page, "more heap", 0, 1);
    return r < 0 ? r : write_memory(view);
}
