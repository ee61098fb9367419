/* threads_view.c: `report --view=threads`: how much each thread allocates and frees, and which
 * threads free blocks that another thread allocated. */

#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

/* Returns the id of the thread whose events are in stream STREAM of the trace; 0: unknown. */
static uint32_t id_of(const struct ag_profile *profile, uint32_t stream) {
    const struct ag_thread_row *row = ag_profile_thread(profile, stream);
    return row != NULL ? row->thread_id : 0;
}

/* Metrics that are not counted by thread are replaced by the bytes allocated. */
static uint64_t value_of(const struct ag_thread_row *row, enum ag_metric metric) {
    const bool is_counted = metric == AG_METRIC_ALLOCATED_BLOCKS ||
                            metric == AG_METRIC_FREED_BYTES || metric == AG_METRIC_FREED_BLOCKS;
    return ag_metric_of(&row->metrics, is_counted ? metric : AG_METRIC_ALLOCATED_BYTES);
}

static int rank_threads(struct ag_view *view, const struct ag_thread_row **ret_rows,
                        struct ag_ranking *ranking) {
    const size_t n_rows = ag_profile_threads(view->profile, ret_rows);
    int r = ag_ranking_start(ranking, n_rows);
    for (size_t i = 0; r == 0 && i < n_rows; i++) {
        const struct ag_thread_sum *sum = &(*ret_rows)[i].sum;
        if (sum->allocated_blocks >= view->options->min_count) {
            ag_ranking_add(ranking, (struct ag_rank){.first = value_of(&(*ret_rows)[i], view->sort),
                                                     .second = sum->freed_blocks,
                                                     .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(ranking);
    return r;
}

static int rank_pairs(struct ag_view *view, const struct ag_thread_pair **ret_pairs,
                      struct ag_ranking *ranking) {
    size_t n_pairs = ag_profile_thread_pairs(view->profile, ret_pairs);
    int r = ag_ranking_start(ranking, n_pairs);
    for (size_t i = 0; r == 0 && i < n_pairs; i++) {
        const struct ag_thread_pair *pair = &(*ret_pairs)[i];
        ag_ranking_add(
            ranking,
            (struct ag_rank){.first = pair->bytes, .second = pair->blocks, .row = (uint32_t)i});
    }
    ag_ranking_sort(ranking);
    return r;
}

int ag_threads_view_json(struct ag_view *view) {
    ag_heading_whole_process(view);
    const struct ag_thread_row *rows;
    const struct ag_thread_pair *pairs;
    struct ag_ranking ranking, pair_ranking = {.ranks = NULL};
    int r = rank_threads(view, &rows, &ranking);
    r = r == 0 ? rank_pairs(view, &pairs, &pair_ranking) : r;
    if (r == 0) {
        ag_json_open(view->json, "threads", '[');
        for (size_t i = 0; i < ranking.count && i < view->limit; i++) {
            const struct ag_thread_row *row = &rows[ranking.ranks[i].row];
            ag_json_open(view->json, NULL, '{');
            ag_json_integer(view->json, "id", row->thread_id);
            ag_json_string(view->json, "name", row->name);
            ag_json_metric(view, "allocated_bytes", &row->metrics, AG_METRIC_ALLOCATED_BYTES);
            ag_json_metric(view, "allocated_blocks", &row->metrics, AG_METRIC_ALLOCATED_BLOCKS);
            ag_json_metric(view, "freed_blocks", &row->metrics, AG_METRIC_FREED_BLOCKS);
            ag_json_metric(view, "freed_bytes", &row->metrics, AG_METRIC_FREED_BYTES);
            ag_json_close(view->json, '}');
        }
        ag_json_close(view->json, ']');
        ag_json_open(view->json, "pairs", '[');
        for (size_t i = 0; i < pair_ranking.count && i < view->limit; i++) {
            const struct ag_thread_pair *pair = &pairs[pair_ranking.ranks[i].row];
            const struct ag_metrics freed =
                ag_profile_pair_metrics(view->profile, pair_ranking.ranks[i].row);
            ag_json_open(view->json, NULL, '{');
            ag_json_integer(view->json, "allocated_by", id_of(view->profile, pair->allocated_by));
            ag_json_integer(view->json, "freed_by", id_of(view->profile, pair->freed_by));
            ag_json_metric(view, "blocks", &freed, AG_METRIC_FREED_BLOCKS);
            ag_json_metric(view, "bytes", &freed, AG_METRIC_FREED_BYTES);
            ag_json_close(view->json, '}');
        }
        ag_json_close(view->json, ']');
    }
    ag_ranking_end(&ranking);
    ag_ranking_end(&pair_ranking);
    return r;
}

static int write_threads(struct ag_view *view, const struct ag_thread_row *rows,
                         struct ag_ranking *ranking) {
    uint64_t all_bytes = 0, all_freed_bytes = 0, all_blocks = 0;
    for (size_t i = 0; i < ranking->count; i++) {
        const struct ag_thread_sum *sum = &rows[ranking->ranks[i].row].sum;
        all_bytes += sum->allocated_bytes;
        all_freed_bytes += sum->freed_bytes;
        all_blocks += sum->allocated_blocks;
    }
    struct ag_unit bytes_unit = ag_unit_of_bytes(all_bytes);
    struct ag_unit freed_unit = ag_unit_of_bytes(all_freed_bytes);
    struct ag_unit blocks_unit = ag_unit_of_blocks(all_blocks);
    char heads[4][32];
    snprintf(heads[0], sizeof heads[0], "allocated %s", bytes_unit.name);
    snprintf(heads[1], sizeof heads[1], "blocks %s", blocks_unit.name);
    snprintf(heads[2], sizeof heads[2], "freed %s", freed_unit.name);
    snprintf(heads[3], sizeof heads[3], "blocks %s", blocks_unit.name);
    const struct ag_column columns[] = {
        {.head = heads[0], .style = AG_STYLE_BRIGHT},
        {.head = "share"},
        {.head = heads[1]},
        {.head = heads[2]},
        {.head = heads[3]},
        {.head = "thread", .style = AG_STYLE_DIM},
        {.head = "name", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 16},
    };
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < ranking->count && i < view->limit; i++) {
        const struct ag_thread_row *row = &rows[ranking->ranks[i].row];
        struct ag_quantity number;
        ag_table_cell(table, ag_quantity_in(&number, row->sum.allocated_bytes, bytes_unit));
        ag_table_cell(table, ag_quantity_share(&number, row->sum.allocated_bytes, all_bytes));
        ag_table_cell(table, ag_quantity_in(&number, row->sum.allocated_blocks, blocks_unit));
        ag_table_cell(table, ag_quantity_in(&number, row->sum.freed_bytes, freed_unit));
        ag_table_cell(table, ag_quantity_in(&number, row->sum.freed_blocks, blocks_unit));
        snprintf(number.text, sizeof number.text, "%u", row->thread_id);
        ag_table_cell(table, number.text);
        ag_table_cell(table, row->name);
    }
    return ag_ranking_write_table(ranking, view->limit, table, view->page, "more thread",
                                  ag_ranking_sum(ranking, view->limit), ag_ranking_sum(ranking, 0));
}

static int write_pairs(struct ag_view *view, const struct ag_thread_pair *pairs,
                       struct ag_ranking *ranking) {
    uint64_t all_bytes = 0, all_blocks = 0;
    for (size_t i = 0; i < ranking->count; i++) {
        all_bytes += pairs[ranking->ranks[i].row].bytes;
        all_blocks += pairs[ranking->ranks[i].row].blocks;
    }
    struct ag_unit bytes_unit = ag_unit_of_bytes(all_bytes);
    struct ag_unit blocks_unit = ag_unit_of_blocks(all_blocks);
    char heads[2][32];
    snprintf(heads[0], sizeof heads[0], "bytes %s", bytes_unit.name);
    snprintf(heads[1], sizeof heads[1], "blocks %s", blocks_unit.name);
    const struct ag_column columns[] = {
        {.head = heads[0], .style = AG_STYLE_BRIGHT},
        {.head = heads[1]},
        {.head = "allocated by", .align = AG_ALIGN_LEFT, .least_columns = 12},
        {.head = "freed by", .align = AG_ALIGN_LEFT, .least_columns = 12},
    };
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < ranking->count && i < view->limit; i++) {
        const struct ag_thread_pair *pair = &pairs[ranking->ranks[i].row];
        struct ag_quantity number;
        ag_table_cell(table, ag_quantity_in(&number, pair->bytes, bytes_unit));
        ag_table_cell(table, ag_quantity_in(&number, pair->blocks, blocks_unit));
        const uint32_t streams[] = {pair->allocated_by, pair->freed_by};
        for (size_t side = 0; side < 2; side++) {
            const struct ag_thread_row *row = ag_profile_thread(view->profile, streams[side]);
            char name[96];
            snprintf(name, sizeof name, "%u %s", row != NULL ? row->thread_id : 0,
                     row != NULL ? row->name : "?");
            ag_table_cell(table, name);
        }
    }
    ag_page_end_line(view->page);
    ag_page_text(view->page, AG_STYLE_PLAIN, "allocated by one thread, freed by another\n");
    return ag_ranking_write_table(ranking, view->limit, table, view->page, "more pair",
                                  ag_ranking_sum(ranking, view->limit), all_bytes);
}

int ag_threads_view_text(struct ag_view *view) {
    ag_heading_whole_process(view);
    const struct ag_thread_row *rows;
    const struct ag_thread_pair *pairs = NULL;
    struct ag_ranking ranking, pair_ranking = {.ranks = NULL};
    int r = rank_threads(view, &rows, &ranking);
    r = r == 0 ? rank_pairs(view, &pairs, &pair_ranking) : r;
    r = r == 0 ? write_threads(view, rows, &ranking) : r;
    if (r == 0 && pair_ranking.count > 0) {
        r = write_pairs(view, pairs, &pair_ranking);
    }
    ag_ranking_end(&ranking);
    ag_ranking_end(&pair_ranking);
    return r;
}
