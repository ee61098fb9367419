/* call_difference_view.c: the part of `allogram diff` that compares function counters: which
 * functions allocated more words, were called more often or took longer. */
#include "report/call_difference_view.h"

#include <string.h>

#include "report/change.h"
#include "report/ranking.h"

static struct ag_change change_of(const struct ag_call_counts *before,
                                  const struct ag_call_counts *after, enum ag_call_metric metric) {
    return (struct ag_change){ag_call_metric_of(before, metric), ag_call_metric_of(after, metric)};
}

static bool is_time_only(const struct ag_functions *functions) {
    return functions->n_trees == 0 || ag_functions_is_time_only(functions);
}

static enum ag_call_metric sort_of(const struct ag_view *view,
                                   const struct ag_call_difference *calls) {
    return view->options->call_sort != AG_CALL_METRIC_DEFAULT          ? view->options->call_sort
           : is_time_only(calls->before) && is_time_only(calls->after) ? AG_CALL_METRIC_OWN_NS
                                                                       : AG_CALL_METRIC_OWN_WORDS;
}

/* Returns the metric of the second of the two columns that show changes. */
static enum ag_call_metric second_of(enum ag_call_metric sort) {
    return sort == AG_CALL_METRIC_CALLS ? AG_CALL_METRIC_OWN_WORDS : AG_CALL_METRIC_CALLS;
}

static int rank_rows(const struct ag_view *view, const struct ag_call_difference *calls,
                     struct ag_ranking *ranking) {
    const enum ag_call_metric sort = sort_of(view, calls);
    const int r = ag_ranking_start(ranking, calls->n_rows);
    for (size_t i = 0; r == 0 && i < calls->n_rows; i++) {
        const struct ag_call_difference_row *row = &calls->rows[i];
        const uint64_t count =
            row->before.calls > row->after.calls ? row->before.calls : row->after.calls;
        const bool is_same = memcmp(&row->before, &row->after, sizeof row->before) == 0;
        if (!is_same && count >= view->options->min_count) {
            ag_ranking_add(
                ranking,
                (struct ag_rank){
                    .first = ag_change_size(change_of(&row->before, &row->after, sort)),
                    .second = ag_change_size(change_of(&row->before, &row->after, second_of(sort))),
                    .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(ranking);
    return r;
}

/* ---- JSON ---- */

static void write_changes_json(struct ag_json *json, const struct ag_call_counts *before,
                               const struct ag_call_counts *after) {
    for (enum ag_call_metric metric = AG_CALL_METRIC_CALLS; metric < AG_CALL_METRIC_END; metric++) {
        const struct ag_change change = change_of(before, after, metric);
        ag_json_signed(json, ag_call_metric_name(metric), (int64_t)(change.after - change.before));
    }
}

int ag_call_difference_json(struct ag_view *view, const struct ag_call_difference *calls) {
    struct ag_json *json = view->json;
    struct ag_ranking ranking;
    const int r = rank_rows(view, calls, &ranking);
    if (view->options->has_window) {
        ag_json_bool(json, "functions_whole_recording", true);
    }
    ag_json_open(json, "functions", '[');
    for (size_t i = 0; r == 0 && i < ranking.count && i < view->limit; i++) {
        const struct ag_call_difference_row *row = &calls->rows[ranking.ranks[i].row];
        ag_json_open(json, NULL, '{');
        ag_json_function(json, row->frame);
        write_changes_json(json, &row->before, &row->after);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_open(json, "functions_total", '{');
    write_changes_json(json, &calls->before->total, &calls->after->total);
    ag_json_close(json, '}');
    if (calls->before->n_partial_trees > 0) {
        ag_json_integer(json, "before_incomplete_trees", calls->before->n_partial_trees);
    }
    if (calls->after->n_partial_trees > 0) {
        ag_json_integer(json, "incomplete_trees", calls->after->n_partial_trees);
    }
    ag_ranking_end(&ranking);
    return r;
}

/* ---- text ---- */

static bool is_time(enum ag_call_metric metric) {
    return metric == AG_CALL_METRIC_OWN_NS || metric == AG_CALL_METRIC_ACC_NS;
}

static bool is_bytes(enum ag_call_metric metric) {
    return metric == AG_CALL_METRIC_OWN_BYTES || metric == AG_CALL_METRIC_ACC_BYTES;
}

static const char *words_of(enum ag_call_metric metric) {
    static const char *const words[AG_CALL_METRIC_END] = {
        [AG_CALL_METRIC_CALLS] = "calls",         [AG_CALL_METRIC_OWN_WORDS] = "words",
        [AG_CALL_METRIC_OWN_BYTES] = "bytes",     [AG_CALL_METRIC_OWN_NS] = "own",
        [AG_CALL_METRIC_ACC_WORDS] = "acc words", [AG_CALL_METRIC_ACC_BYTES] = "acc bytes",
        [AG_CALL_METRIC_ACC_NS] = "acc",
    };
    return words[metric];
}

static void write_partial(struct ag_page *page, const char *which,
                          const struct ag_functions *functions) {
    if (functions->n_partial_trees > 0) {
        struct ag_quantity count;
        ag_page_print(page, AG_STYLE_WARNING,
                      "  %s: incomplete: %s of the threads or processes had not written all of "
                      "their counters\n",
                      which, ag_quantity_count(&count, functions->n_partial_trees));
    }
    if (functions->n_trees == 0) {
        ag_page_print(page, AG_STYLE_WARNING, "  %s: no function counters\n", which);
    }
}

static const char *quantity_of(struct ag_quantity *buffer, enum ag_call_metric metric,
                               uint64_t value) {
    return is_time(metric) ? ag_quantity_time(buffer, value) : ag_quantity_count(buffer, value);
}

/* Writes "  words of functions   grew by 200 (+50 %): before 400, after 600". */
static void write_total(struct ag_page *page, const struct ag_call_difference *calls,
                        const char *name, enum ag_call_metric metric) {
    const struct ag_change change = change_of(&calls->before->total, &calls->after->total, metric);
    struct ag_quantity number;
    if (change.before == 0 && change.after == 0) {
        return;
    }
    ag_page_print(page, AG_STYLE_PLAIN, "  %-18s ", name);
    if (change.before == change.after) {
        ag_page_print(page, AG_STYLE_PLAIN, "same: %s\n",
                      quantity_of(&number, metric, change.after));
        return;
    }
    ag_page_print(page, AG_STYLE_BRIGHT, "%s by %s", ag_change_word(change),
                  quantity_of(&number, metric, ag_change_size(change)));
    ag_change_write_share(page, change);
    ag_page_print(page, AG_STYLE_PLAIN, ": before %s", quantity_of(&number, metric, change.before));
    ag_page_print(page, AG_STYLE_PLAIN, ", after %s\n", quantity_of(&number, metric, change.after));
}

static struct ag_unit unit_of(enum ag_call_metric metric, uint64_t largest) {
    return is_time(metric)    ? ag_unit_of_time(largest)
           : is_bytes(metric) ? ag_unit_of_bytes(largest)
                              : ag_unit_of_blocks(largest);
}

static struct ag_unit unit_of_rows(const struct ag_view *view,
                                   const struct ag_call_difference *calls,
                                   const struct ag_ranking *ranking, enum ag_call_metric metric) {
    uint64_t largest = 0;
    for (size_t i = 0; i < ranking->count && i < view->limit; i++) {
        const struct ag_call_difference_row *row = &calls->rows[ranking->ranks[i].row];
        const struct ag_change change = change_of(&row->before, &row->after, metric);
        const uint64_t larger = change.before > change.after ? change.before : change.after;
        largest = larger > largest ? larger : largest;
    }
    return unit_of(metric, largest);
}

static const char *word_of_row(const struct ag_call_difference_row *row, struct ag_change change) {
    return !row->is_before ? "new" : !row->is_after ? "gone" : ag_change_word(change);
}

static int write_table(struct ag_view *view, const struct ag_call_difference *calls,
                       const struct ag_ranking *ranking) {
    const enum ag_call_metric sort = sort_of(view, calls), second = second_of(sort);
    const struct ag_unit unit = unit_of_rows(view, calls, ranking, sort);
    const struct ag_unit second_unit = unit_of_rows(view, calls, ranking, second);
    char heads[2][64];
    snprintf(heads[0], sizeof heads[0], "%s %s", words_of(sort), unit.name);
    snprintf(heads[1], sizeof heads[1], "%s %s", words_of(second), second_unit.name);
    const struct ag_column columns[] = {
        {.head = heads[0], .style = AG_STYLE_BRIGHT},
        {.head = "", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT},
        {.head = "before"},
        {.head = "after"},
        {.head = heads[1]},
        {.head = "function", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 16},
        {.head = "", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 10},
    };
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    size_t i = 0;
    for (; i < ranking->count && i < view->limit; i++) {
        const struct ag_call_difference_row *row = &calls->rows[ranking->ranks[i].row];
        const struct ag_change change = change_of(&row->before, &row->after, sort);
        struct ag_quantity number;
        ag_change_cell(table, change, unit);
        ag_table_cell(table, word_of_row(row, change));
        ag_table_cell(table, ag_quantity_in(&number, change.before, unit));
        ag_table_cell(table, ag_quantity_in(&number, change.after, unit));
        ag_change_cell(table, change_of(&row->before, &row->after, second), second_unit);
        ag_table_key_cells(table, AG_BY_FUNCTION, NULL, row->frame);
    }
    return ag_change_write_table(table, view->page, ranking->count - i);
}

int ag_call_difference_text(struct ag_view *view, const struct ag_call_difference *calls) {
    struct ag_page *page = view->page;
    struct ag_ranking ranking;
    int r = rank_rows(view, calls, &ranking);
    if (r < 0) {
        return r;
    }
    if (view->options->has_window) {
        ag_page_text(page, AG_STYLE_WARNING,
                     "  function counters cover the whole recordings: --from and --to do not apply "
                     "to them\n");
    }
    write_total(page, calls, "words of functions", AG_CALL_METRIC_OWN_WORDS);
    write_total(page, calls, "calls", AG_CALL_METRIC_CALLS);
    write_total(page, calls, "time", AG_CALL_METRIC_OWN_NS);
    write_partial(page, "before", calls->before);
    write_partial(page, "after", calls->after);
    ag_page_end_line(page);
    if (ranking.count == 0) {
        ag_page_text(page, AG_STYLE_PLAIN, "  no function differs\n");
    } else {
        r = write_table(view, calls, &ranking);
    }
    ag_ranking_end(&ranking);
    return r;
}
