/* sites_view.c: `report --view=sites`: which functions (or lines, stacks, images, threads, heaps,
 * types, labels, processes) allocate. An image is a program or library. "own" is what a function
 * allocates itself; "total" includes what the functions that it calls allocate. The summary uses
 * the same table for its blamed lines: the lines that a reader of the report can change
 * (model/answers/blamed_lines.h). */
#include <errno.h>
#include <stdlib.h>

#include "model/answers/blamed_lines.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

void ag_sites_ranked_end(struct ag_sites_ranked *sites) {
    ag_ranking_end(&sites->ranking);
    free(sites->of_blamed_lines);
}

static int find_blamed_lines(struct ag_view *view, struct ag_sites_ranked *sites) {
    const struct ag_blamed_line *blamed_lines;
    const int r = ag_profile_blamed_lines(view->profile, &blamed_lines, &sites->n_rows);
    if (r < 0) {
        return r;
    }
    sites->of_blamed_lines = calloc(sites->n_rows + 1, sizeof *sites->of_blamed_lines);
    if (sites->of_blamed_lines == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < sites->n_rows; i++) {
        sites->of_blamed_lines[i] = (struct ag_site_row){.frame = blamed_lines[i].frame,
                                                         .own = blamed_lines[i].metrics,
                                                         .total = blamed_lines[i].metrics};
    }
    sites->rows = sites->of_blamed_lines;
    return 0;
}

int ag_sites_rank(struct ag_view *view, enum ag_sites_shown shown,
                  struct ag_sites_ranked *ret_sites) {
    struct ag_sites_ranked sites = {0};
    int r = shown == AG_SITES_BLAMED
                ? find_blamed_lines(view, &sites)
                : ag_profile_sites(view->profile, view->options->by, &sites.rows, &sites.n_rows);
    if (r < 0) {
        return r;
    }
    r = ag_ranking_start(&sites.ranking, sites.n_rows);
    if (r < 0) {
        ag_sites_ranked_end(&sites);
        return r;
    }
    enum ag_metric blocks = ag_metric_blocks_of(view->sort);
    for (size_t i = 0; i < sites.n_rows; i++) {
        const struct ag_site_row *row = &sites.rows[i];
        uint64_t count = ag_metric_of(&row->total, blocks);
        bool is_shown = shown == AG_SITES_ALL || ag_metric_of(&row->own, blocks) != 0;
        uint64_t second = ag_metric_of(&row->total, view->sort);
        if (view->is_of_mappings) { /* the table of mappings has several metrics, of which each may
                                     * be 0 */
            count = row->own.allocated_blocks;
            is_shown = row->own.allocated_blocks != 0 || row->own.in_use_blocks != 0;
            second = row->own.allocated_bytes;
        }
        if (is_shown && count >= view->options->min_count) {
            ag_ranking_add(&sites.ranking,
                           (struct ag_rank){.first = ag_metric_of(&row->own, view->sort),
                                            .second = second,
                                            .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(&sites.ranking);
    *ret_sites = sites;
    return 0;
}

void ag_sites_key_json(struct ag_view *view, const struct ag_site_row *row) {
    enum ag_site_key by = view->options->by;
    const struct ag_frame none = {.runtime = NULL};
    const struct ag_frame *frame =
        ag_site_key_is_named(by) ? &none : ag_profile_frame(view->profile, row->frame);
    struct ag_frame key = *frame;
    if (by == AG_BY_IMAGE) { /* the frame represents its image only */
        key.function = NULL;
        key.file = NULL;
        key.line = 0;
        key.end_column = 0;
    }
    ag_json_frame(view->json, &key);
    if (by == AG_BY_OS_PROCESS) {
        ag_process_key_json(view->json, view->profile, row->frame);
    } else if (ag_site_key_is_named(by)) {
        ag_json_string(view->json, ag_report_key_name(by), row->label);
    }
}

void ag_process_key_json(struct ag_json *json, struct ag_profile *profile, uint32_t number) {
    const struct ag_profile_identity *process = ag_profile_process(profile, number);
    ag_json_string(json, ag_report_key_name(AG_BY_OS_PROCESS),
                   ag_profile_process_name(profile, number));
    ag_json_integer(json, "pid", process->pid);
    ag_json_string(json, "trace", process->file);
}

int ag_sites_view_json(struct ag_view *view) {
    struct ag_sites_ranked sites;
    int r = ag_sites_rank(view, AG_SITES_ALL, &sites);
    if (r < 0) {
        return r;
    }
    ag_json_open(view->json, "sites", '[');
    for (size_t i = 0; i < sites.ranking.count && i < view->limit; i++) {
        const struct ag_site_row *row = &sites.rows[sites.ranking.ranks[i].row];
        ag_json_open(view->json, NULL, '{');
        ag_sites_key_json(view, row);
        ag_json_open(view->json, "own", '{');
        ag_json_metrics(view, &row->own);
        ag_json_close(view->json, '}');
        ag_json_open(view->json, "total", '{');
        ag_json_metrics(view, &row->total);
        ag_json_close(view->json, '}');
        ag_json_close(view->json, '}');
    }
    ag_json_close(view->json, ']');
    ag_sites_ranked_end(&sites);
    return 0;
}

/* The columns: own and total of the metric, the number of blocks, and for comparison the bytes of
 * another metric (beside). */
struct site_columns {
    bool has_total;
    enum ag_metric metric, blocks, beside;
    struct ag_unit metric_unit, blocks_unit, beside_unit;
    char heads[4][32];
};

static const char *head_of(char head[32], const char *words, struct ag_unit unit) {
    snprintf(head, 32, "%s%s%s", words, *words != '\0' && *unit.name != '\0' ? " " : "", unit.name);
    return head;
}

static void choose_columns(const struct ag_view *view, const struct ag_metrics *total,
                           enum ag_sites_shown shown, struct site_columns *columns) {
    columns->metric = view->sort;
    columns->has_total = shown != AG_SITES_BLAMED;
    bool is_bytes = ag_metric_is_bytes(view->sort);
    columns->blocks = is_bytes ? ag_metric_blocks_of(view->sort) : AG_METRIC_ALLOCATED_BLOCKS;
    bool is_peak = view->sort == AG_METRIC_PEAK_BYTES || view->sort == AG_METRIC_PEAK_BLOCKS;
    columns->beside = is_peak ? AG_METRIC_ALLOCATED_BYTES : AG_METRIC_PEAK_BYTES;
    uint64_t largest = ag_metric_of(total, columns->metric);
    columns->metric_unit = is_bytes ? ag_unit_of_bytes(largest) : ag_unit_of_blocks(largest);
    columns->blocks_unit = ag_unit_of_blocks(ag_metric_of(total, columns->blocks));
    columns->beside_unit = ag_unit_of_bytes(ag_metric_of(total, columns->beside));
    head_of(columns->heads[0], columns->has_total ? "own" : ag_metric_words(columns->metric),
            columns->metric_unit);
    head_of(columns->heads[1], "total", columns->metric_unit);
    char words[24];
    snprintf(words, sizeof words, "%s", is_bytes ? "blocks" : "allocated blocks");
    head_of(columns->heads[2], words, columns->blocks_unit);
    head_of(columns->heads[3], is_peak ? "allocated" : "peak", columns->beside_unit);
}

static void add_row(struct ag_table *table, struct ag_view *view, const struct ag_site_row *row,
                    const struct site_columns *columns, uint64_t whole) {
    struct ag_quantity number;
    uint64_t own = ag_metric_of(&row->own, columns->metric);
    ag_table_cell(table, ag_quantity_in(&number, own, columns->metric_unit));
    if (ag_profile_identity(view->profile)->is_sampled) {
        ag_table_cell(table, ag_quantity_spread(&number, &row->own, columns->metric));
    }
    ag_table_cell(table, ag_quantity_share(&number, own, whole));
    if (columns->has_total) {
        ag_table_cell(table, ag_quantity_in(&number, ag_metric_of(&row->total, columns->metric),
                                            columns->metric_unit));
    }
    ag_table_cell(table, ag_quantity_in(&number, ag_metric_of(&row->own, columns->blocks),
                                        columns->blocks_unit));
    ag_table_cell(table, ag_quantity_in(&number, ag_metric_of(&row->own, columns->beside),
                                        columns->beside_unit));
    ag_table_key_cells(table, view->options->by, row->label,
                       ag_profile_frame(view->profile, row->frame));
}

int ag_sites_view_text(struct ag_view *view) {
    return ag_sites_write_text(view, AG_SITES_ALL);
}

int ag_sites_write_text(struct ag_view *view, enum ag_sites_shown shown) {
    struct ag_sites_ranked sites;
    int r = ag_sites_rank(view, shown, &sites);
    if (r < 0) {
        return r;
    }
    const struct ag_metrics *total = ag_profile_total(view->profile);
    struct site_columns columns;
    choose_columns(view, total, shown, &columns);
    const bool has_where =
        !ag_site_key_is_named(view->options->by) && view->options->by != AG_BY_IMAGE;
    const bool is_sampled = ag_profile_identity(view->profile)->is_sampled;
    struct ag_column table_columns[8];
    size_t n_columns = 0;
    table_columns[n_columns++] =
        (struct ag_column){.head = columns.heads[0], .style = AG_STYLE_BRIGHT};
    if (is_sampled) {
        table_columns[n_columns++] = (struct ag_column){.head = "±", .style = AG_STYLE_DIM};
    }
    table_columns[n_columns++] = (struct ag_column){.head = "share"};
    for (size_t i = columns.has_total ? 1 : 2; i < sizeof columns.heads / sizeof *columns.heads;
         i++) {
        const bool is_beside = i + 1 == sizeof columns.heads / sizeof *columns.heads;
        table_columns[n_columns++] =
            (struct ag_column){.head = columns.heads[i], .spare = is_beside};
    }
    table_columns[n_columns++] = (struct ag_column){
        .head =
            view->options->by == AG_BY_STACK ? "stack from" : ag_report_key_name(view->options->by),
        .align = AG_ALIGN_LEFT,
        .style = AG_STYLE_BRIGHT,
        .least_columns = 16};
    table_columns[n_columns++] = (struct ag_column){.head = has_where ? "where" : "",
                                                    .align = AG_ALIGN_LEFT,
                                                    .style = AG_STYLE_DIM,
                                                    .least_columns = 12};
    struct ag_table *table = ag_table_new(table_columns, n_columns);
    uint64_t shown_own = 0;
    const uint64_t whole = ag_metric_of(total, view->sort);
    for (size_t i = 0; i < sites.ranking.count && i < view->limit; i++) {
        const struct ag_site_row *row = &sites.rows[sites.ranking.ranks[i].row];
        add_row(table, view, row, &columns, whole);
        shown_own += ag_metric_of(&row->own, view->sort);
    }
    r = ag_ranking_write_table(&sites.ranking, view->limit, table, view->page, /* what= */ NULL,
                               whole - shown_own, whole);
    ag_sites_ranked_end(&sites);
    return r;
}
