/* difference_view.c: `allogram diff`: what grew and what shrank between two traces. The totals show
 * the numbers of both traces. call_difference_view.c compares function counters (the calls, words
 * and times that some runtimes count for each function). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "model/answers/blamed_lines.h"
#include "model/answers/difference.h"
#include "model/interval.h"
#include "report/call_difference_view.h"
#include "report/change.h"
#include "report/ranking.h"
#include "report/view.h"

static struct ag_change change_of(const struct ag_metrics *before, const struct ag_metrics *after,
                                  enum ag_metric metric) {
    return (struct ag_change){ag_metric_of(before, metric), ag_metric_of(after, metric)};
}

/* A change of estimates is unsure if its 95 % interval includes 0. */
static bool is_unsure(const struct ag_metrics *before, const struct ag_metrics *after,
                      enum ag_metric metric) {
    const struct ag_interval_of_change interval = ag_interval_of_change(before, after, metric);
    return interval.low != interval.high && interval.low <= 0 && interval.high >= 0;
}

static const char *word_of_row(const struct ag_difference_row *row, enum ag_metric metric,
                               struct ag_change change) {
    if (is_unsure(&row->before, &row->after, metric)) {
        return "unsure";
    }
    return !row->is_before ? "new" : !row->is_after ? "gone" : ag_change_word(change);
}

static int rank_rows(const struct ag_view *view, const struct ag_difference *difference,
                     struct ag_ranking *ranking) {
    static const struct ag_metrics none;
    int r = ag_ranking_start(ranking, difference->n_rows);
    const enum ag_metric blocks = ag_metric_blocks_of(view->sort);
    for (size_t i = 0; r == 0 && i < difference->n_rows; i++) {
        const struct ag_difference_row *row = &difference->rows[i];
        const struct ag_change change = change_of(&row->before, &row->after, view->sort);
        const struct ag_change change_blocks = change_of(&row->before, &row->after, blocks);
        const bool is_same = memcmp(&row->before, &row->after, sizeof none) == 0;
        const uint64_t count =
            change_blocks.before > change_blocks.after ? change_blocks.before : change_blocks.after;
        if (!is_same && count >= view->options->min_count) {
            ag_ranking_add(ranking, (struct ag_rank){.first = ag_change_size(change),
                                                     .second = ag_change_size(change_blocks),
                                                     .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(ranking);
    return r;
}

/* ---- JSON ---- */

static void write_change_ci(struct ag_json *json, const struct ag_metrics *before,
                            const struct ag_metrics *after, enum ag_metric metric) {
    char name[64];
    const struct ag_interval_of_change interval = ag_interval_of_change(before, after, metric);
    snprintf(name, sizeof name, "%s_ci95", ag_metric_name(metric));
    if (metric == AG_METRIC_TEMPORARY_BLOCKS) {
        ag_json_null(json, name);
        return;
    }
    ag_json_open(json, name, '[');
    ag_json_signed(json, NULL, interval.low);
    ag_json_signed(json, NULL, interval.high);
    ag_json_close(json, ']');
}

static void write_changes_json(struct ag_json *json, const struct ag_difference *difference,
                               const struct ag_metrics *before, const struct ag_metrics *after) {
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        const struct ag_change change = change_of(before, after, metric);
        if (difference->is_sampled && metric == AG_METRIC_TEMPORARY_BLOCKS) {
            ag_json_null(json, ag_metric_name(metric));
        } else {
            ag_json_signed(json, ag_metric_name(metric), (int64_t)(change.after - change.before));
        }
        if (difference->is_sampled) {
            write_change_ci(json, before, after, metric);
        }
    }
}

static void write_json(struct ag_view *view, const struct ag_difference *difference,
                       const struct ag_ranking *ranking) {
    struct ag_json *json = view->json;
    ag_json_open(json, "sites", '[');
    for (size_t i = 0; i < ranking->count && i < view->limit; i++) {
        const struct ag_difference_row *row = &difference->rows[ranking->ranks[i].row];
        ag_json_open(json, NULL, '{');
        ag_json_frame(json, &row->frame);
        if (ag_site_key_is_named(view->options->by)) {
            ag_json_string(json, ag_report_key_name(view->options->by), row->label);
        }
        write_changes_json(json, difference, &row->before, &row->after);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_open(json, "total", '{');
    write_changes_json(json, difference, &difference->before, &difference->after);
    ag_json_close(json, '}');
}

/* ---- text ---- */

static void write_missing(void *context, const char *line) {
    struct ag_page *page = context;
    enum { INDENT = 8, MORE = 10 };
    ag_page_spaces(page, INDENT);
    ag_page_wrap(page, AG_STYLE_WARNING, MORE, line);
    ag_page_end_line(page);
}

static void write_process(struct ag_page *page, const char *which,
                          const struct ag_profile *profile) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    struct ag_fitted fitted;
    struct ag_quantity duration;
    (void)ag_page_fit(&fitted, identity->file, page->columns > 60 ? page->columns - 40 : 20);
    ag_page_print(page, AG_STYLE_DIM, "%-7s ", which);
    ag_page_print(page, AG_STYLE_BRIGHT, "%s", fitted.text);
    ag_page_print(page, AG_STYLE_DIM, "  pid %u, %s%s\n", identity->pid,
                  ag_quantity_time(&duration, ag_profile_recording_ns(profile)),
                  identity->is_damaged ? ", damaged" : "");
    ag_missing_lines(profile, write_missing, page);
}

static void write_total(struct ag_view *view, const struct ag_difference *difference,
                        const char *name, enum ag_metric metric) {
    const struct ag_change bytes = change_of(&difference->before, &difference->after, metric);
    const struct ag_change blocks =
        change_of(&difference->before, &difference->after, ag_metric_blocks_of(metric));
    struct ag_page *page = view->page;
    struct ag_quantity number;
    ag_page_print(page, AG_STYLE_PLAIN, "  %-18s ", name);
    if (bytes.before == bytes.after) {
        ag_page_print(page, AG_STYLE_PLAIN, "same: %s", ag_quantity_bytes(&number, bytes.after));
    } else {
        ag_page_print(page, AG_STYLE_BRIGHT, "%s by %s",
                      is_unsure(&difference->before, &difference->after, metric)
                          ? "uncertain, changed"
                          : ag_change_word(bytes),
                      ag_quantity_bytes(&number, ag_change_size(bytes)));
        ag_change_write_share(page, bytes);
        ag_page_print(page, AG_STYLE_PLAIN, ": before %s",
                      ag_quantity_bytes(&number, bytes.before));
        ag_page_print(page, AG_STYLE_PLAIN, ", after %s", ag_quantity_bytes(&number, bytes.after));
    }
    if (blocks.before == blocks.after) {
        ag_page_text(page, AG_STYLE_DIM, "; blocks the same\n");
    } else {
        ag_page_print(page, AG_STYLE_DIM, "; blocks %s%s\n", ag_change_sign(blocks),
                      ag_quantity_count(&number, ag_change_size(blocks)));
    }
}

static void add_row(struct ag_view *view, struct ag_table *table,
                    const struct ag_difference_row *row, struct ag_unit unit,
                    struct ag_unit blocks_unit) {
    const struct ag_change change = change_of(&row->before, &row->after, view->sort);
    const struct ag_change blocks =
        change_of(&row->before, &row->after,
                  ag_metric_is_bytes(view->sort) ? ag_metric_blocks_of(view->sort)
                                                 : AG_METRIC_ALLOCATED_BLOCKS);
    struct ag_quantity number;
    ag_change_cell(table, change, unit);
    ag_table_cell(table, word_of_row(row, view->sort, change));
    ag_table_cell(table, ag_quantity_in(&number, change.before, unit));
    ag_table_cell(table, ag_quantity_in(&number, change.after, unit));
    ag_change_cell(table, blocks, blocks_unit);
    ag_table_key_cells(table, view->options->by, row->label, &row->frame);
}

static int write_table(struct ag_view *view, const struct ag_difference *difference,
                       const struct ag_ranking *ranking) {
    uint64_t largest = 0;
    for (size_t i = 0; i < ranking->count && i < view->limit; i++) {
        const struct ag_difference_row *row = &difference->rows[ranking->ranks[i].row];
        const struct ag_change change = change_of(&row->before, &row->after, view->sort);
        const uint64_t larger = change.before > change.after ? change.before : change.after;
        largest = larger > largest ? larger : largest;
    }
    const bool is_bytes = ag_metric_is_bytes(view->sort);
    const struct ag_unit unit = is_bytes ? ag_unit_of_bytes(largest) : ag_unit_of_blocks(largest);
    const struct ag_unit blocks_unit = ag_unit_of_blocks(difference->after.allocated_blocks);
    const enum ag_site_key by = view->options->by;
    char heads[2][64];
    snprintf(heads[0], sizeof heads[0], "%s %s", ag_metric_words(view->sort), unit.name);
    snprintf(heads[1], sizeof heads[1], "%s %s", is_bytes ? "blocks" : "allocated blocks",
             blocks_unit.name);
    const struct ag_column columns[] = {
        {.head = heads[0], .style = AG_STYLE_BRIGHT},
        {.head = "", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT},
        {.head = "before"},
        {.head = "after"},
        {.head = heads[1]},
        {.head = by == AG_BY_LINE ? "function" : ag_report_key_name(by),
         .align = AG_ALIGN_LEFT,
         .style = AG_STYLE_BRIGHT,
         .least_columns = 16},
        {.head = "", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 10},
    };
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    size_t i = 0;
    for (; i < ranking->count && i < view->limit; i++) {
        add_row(view, table, &difference->rows[ranking->ranks[i].row], unit, blocks_unit);
    }
    return ag_change_write_table(table, view->page, ranking->count - i);
}

/* In text, function counters are shown if one of the traces has counters, --sort names no metric of
 * blocks, and the rows are functions (--by). Blocks are shown if --sort names no function counter,
 * and if one of the traces has blocks or no function counters are shown. JSON always has the
 * blocks, and the function counters if one of the traces has them. */
static bool shows_calls(const struct ag_view *view, const struct ag_call_difference *calls) {
    return ag_call_difference_is_there(calls) && view->options->sort == AG_METRIC_DEFAULT &&
           view->options->by == AG_BY_FUNCTION;
}

static bool shows_blocks(const struct ag_view *view, const struct ag_difference *difference,
                         const struct ag_call_difference *calls) {
    return view->options->call_sort == AG_CALL_METRIC_DEFAULT &&
           (!shows_calls(view, calls) || difference->n_rows > 0);
}

static void write_head(struct ag_view *view, struct ag_profile *before, struct ag_profile *after,
                       bool is_folded) {
    struct ag_page *page = view->page;
    write_process(page, "before", before);
    write_process(page, "after", after);
    if (view->options->filter != NULL) {
        ag_page_print(page, AG_STYLE_DIM, "only %s\n", view->options->filter);
    }
    if (is_folded) {
        ag_heading_folded(page);
    }
    ag_page_end_line(page);
}

static int write_text(struct ag_view *view, const struct ag_difference *difference,
                      const struct ag_ranking *ranking, const struct ag_call_difference *calls) {
    struct ag_page *page = view->page;
    const bool has_blocks = shows_blocks(view, difference, calls);
    if (has_blocks) {
        write_total(view, difference, "allocated", AG_METRIC_ALLOCATED_BYTES);
        write_total(view, difference, "in use at the end", AG_METRIC_IN_USE_BYTES);
        write_total(view, difference, "at the peak", AG_METRIC_PEAK_BYTES);
        ag_page_end_line(page);
    }
    int r = 0;
    if (has_blocks && ranking->count == 0) {
        ag_page_text(page, AG_STYLE_PLAIN, "  no site differs\n");
    } else if (has_blocks) {
        r = write_table(view, difference, ranking);
    }
    if (r < 0 || !shows_calls(view, calls)) {
        return r;
    }
    if (has_blocks) {
        ag_page_end_line(page);
    }
    return ag_call_difference_text(view, calls);
}

static int write_object(struct ag_view *view, struct ag_profile *before, struct ag_profile *after,
                        const struct ag_difference *difference, const struct ag_ranking *ranking,
                        const struct ag_call_difference *calls, bool is_folded) {
    ag_json_open(view->json, NULL, '{');
    ag_json_string(view->json, "schema", "allogram-report/1");
    ag_json_string(view->json, "view", "diff");
    ag_heading_json(view->json, after);
    ag_heading_trace_json(view->json, "before", before);
    if (is_folded) {
        ag_json_bool(view->json, "folded", true);
    }
    write_json(view, difference, ranking);
    const int r = ag_call_difference_is_there(calls) ? ag_call_difference_json(view, calls) : 0;
    ag_heading_missing_json(view->json, "missing", after);
    ag_heading_missing_json(view->json, "before_missing", before);
    ag_heading_damage_json(view->json, "damage", after);
    ag_heading_damage_json(view->json, "before_damage", before);
    ag_json_close(view->json, '}');
    return r;
}

/* Returns 0 if --sort names no function counter, or one that can be compared; otherwise, with a
 * message, -EINVAL (the rows are not functions) or -ENODATA (neither trace has counters). */
static int check_call_sort(const struct ag_report_options *options,
                           const struct ag_call_difference *calls, char ret_message[512]) {
    if (options->call_sort == AG_CALL_METRIC_DEFAULT) {
        return 0;
    }
    const char *name = ag_call_metric_name(options->call_sort);
    if (options->by != AG_BY_FUNCTION) {
        snprintf(ret_message, 512, "--sort=%s compares functions; --by=%s does not apply to it",
                 name, ag_report_key_name(options->by));
        return -EINVAL;
    }
    if (!ag_call_difference_is_there(calls)) {
        snprintf(ret_message, 512,
                 "--sort=%s: neither trace has function counters; traces of Erlang, Lua and "
                 "programs that count with allogram.h have them",
                 name);
        return -ENODATA;
    }
    return 0;
}

int ag_report_difference(FILE *out, const struct ag_report_options *options,
                         struct ag_profile *before, struct ag_profile *after,
                         char ret_message[512]) {
    struct ag_difference *difference = NULL;
    struct ag_call_difference *calls = NULL;
    bool is_folded[2] = {false, false};
    const bool folds = options->folds && options->call_sort == AG_CALL_METRIC_DEFAULT &&
                       !ag_site_key_is_named(options->by);
    int r = folds ? ag_profile_fold(before, &is_folded[0]) : 0;
    r = r < 0 || !folds ? r : ag_profile_fold(after, &is_folded[1]);
    r = r < 0 ? r : ag_difference_new(before, after, options->by, &difference);
    if (r < 0) {
        if (r == -EINVAL) {
            snprintf(ret_message, 512,
                     "--by=%s: not one of function, line, image, heap, type and label, by which "
                     "traces can be compared",
                     ag_report_key_name(options->by));
        } else {
            snprintf(ret_message, 512, "%s", strerror(-r));
        }
        return r;
    }
    r = ag_call_difference_new(before, after, &calls);
    if (r < 0) {
        snprintf(ret_message, 512, "%s", strerror(-r));
    } else {
        r = check_call_sort(options, calls, ret_message);
    }
    if (r < 0) {
        (void)ag_difference_free(difference);
        (void)ag_call_difference_free(calls);
        return r;
    }
    struct ag_page page = ag_report_page(out, options);
    struct ag_json json = {.out = out, .line_depth = 2};
    struct ag_view view = {
        .profile = after,
        .options = options,
        .sort = options->sort != AG_METRIC_DEFAULT ? options->sort : AG_METRIC_ALLOCATED_BYTES,
        .limit = ag_report_limit(options),
        .page = &page,
        .json = &json,
        .message = ret_message,
    };
    struct ag_ranking ranking = {.ranks = NULL};
    r = rank_rows(&view, difference, &ranking);
    if (r == 0 && options->is_json) {
        r = write_object(&view, before, after, difference, &ranking, calls,
                         is_folded[0] || is_folded[1]);
    } else if (r == 0) {
        write_head(&view, before, after, is_folded[0] || is_folded[1]);
        r = write_text(&view, difference, &ranking, calls);
    }
    if (r < 0) {
        snprintf(ret_message, 512, "%s", strerror(-r));
    }
    ag_ranking_end(&ranking);
    (void)ag_difference_free(difference);
    (void)ag_call_difference_free(calls);
    return r;
}
