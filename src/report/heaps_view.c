/* heaps_view.c: `report --view=heaps`: for each heap (an allocator with its domain: cpu, gpu or
 * external), what was allocated in it, what is in use, and what it mapped from the kernel. Below is
 * the table of the memory of each runtime (memory_table.c). */
#include <errno.h>
#include <string.h>

#include "report/memory_table.h"
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

/* Writes how many blocks a collector moved, promoted and freed. A sampled trace does not contain
 * these numbers. */
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
        ag_json_null(view->json,
                     "resident_bytes"); /* the kernel reports it only for the whole process */
        ag_json_bool(view->json, "backing", row->is_backing);
        ag_json_string(view->json, "kind", row->kind);
        ag_json_string(view->json, "unit", row->unit);
        put_collected(view, row);
        ag_json_close(view->json, '}');
    }
    ag_json_close(view->json, ']');
    ag_ranking_end(&ranking);
    return ag_memory_table_json(view);
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
    r = ag_ranking_write_table(&ranking, view->limit, table, view->page, "heaps more", 0, 1);
    return r < 0 ? r : ag_memory_table_text(view);
}
