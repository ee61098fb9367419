/* cpu_view.c: the functions in which a process that was observed from outside spent its CPU time.
 * The trace of such a process has samples instead of counted calls and words, so the table of this
 * file replaces that of functions_view.c. The file also writes what the summary says about the
 * observation.
 *
 * In struct ag_call_counts of such a trace, calls is the number of samples, and own_ns is the CPU
 * time that these samples stand for. */

#include "model/answers/functions.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

static int rank_by_time(const struct ag_view *view, const struct ag_functions *functions,
                        struct ag_ranking *ranking) {
    const enum ag_call_metric sort = view->options->call_sort;
    const int r = ag_ranking_start(ranking, functions->n_rows);
    for (size_t i = 0; r == 0 && i < functions->n_rows; i++) {
        const struct ag_call_counts *counts = &functions->rows[i].counts;
        if (functions->rows[i].is_group == (functions->group != AG_CALLS_TOGETHER) &&
            counts->acc_ns != 0 && counts->calls >= view->options->min_count) {
            ag_ranking_add(ranking, (struct ag_rank){.first = sort != AG_CALL_METRIC_DEFAULT
                                                                  ? ag_call_metric_of(counts, sort)
                                                                  : counts->own_ns,
                                                     .second = counts->acc_ns,
                                                     .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(ranking);
    return r;
}

static void add_row(struct ag_table *table, const char *name, const struct ag_call_counts *counts,
                    const struct ag_call_counts *total) {
    struct ag_quantity text;
    ag_table_cell(table, ag_quantity_count(&text, counts->calls));
    ag_table_cell(table, ag_quantity_time(&text, counts->own_ns));
    ag_table_cell(table, ag_quantity_share(&text, counts->own_ns, total->own_ns));
    ag_table_cell(table, ag_quantity_time(&text, counts->acc_ns));
    ag_table_cell(table, ag_quantity_share(&text, counts->acc_ns, total->own_ns));
    ag_table_cell(table, name);
}

int ag_cpu_functions_text(struct ag_view *view, const struct ag_functions *functions) {
    static const struct ag_column columns[] = {
        {.head = "samples"},
        {.head = "own", .style = AG_STYLE_BRIGHT},
        {.head = ""},
        {.head = "total", .style = AG_STYLE_BRIGHT},
        {.head = ""},
        {.head = "function", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 16},
    };
    struct ag_ranking ranking;
    const int r = rank_by_time(view, functions, &ranking);
    if (r < 0) {
        return r;
    }
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    uint64_t hidden_ns = 0;
    for (size_t i = 0; i < ranking.count; i++) {
        const struct ag_function_row *row = &functions->rows[ranking.ranks[i].row];
        struct ag_frame_text name;
        if (i < view->limit) {
            add_row(table, ag_frame_function(&name, ag_profile_frame(view->profile, row->frame)),
                    &row->counts, &functions->total);
        } else {
            hidden_ns += row->counts.own_ns;
        }
    }
    return ag_ranking_write_table(&ranking, view->limit, table, view->page, "more function",
                                  hidden_ns, functions->total.own_ns);
}

/* ---- in the summary ---- */

static void write_how(struct ag_view *view, const struct ag_profile_observed *observed) {
    struct ag_quantity samples, complete, time, cost;
    ag_page_print(
        view->page, AG_STYLE_PLAIN,
        "  %-15s %10s samples of the CPU at %u Hz, %s of their stacks complete, %llu lost, "
        "%llu left out because their stack was read too late\n",
        "from outside", ag_quantity_count(&samples, observed->samples), observed->rate_hz,
        ag_quantity_share(&complete, observed->complete_stacks, observed->samples),
        (unsigned long long)observed->lost, (unsigned long long)observed->stale);
    ag_page_print(view->page, AG_STYLE_PLAIN,
                  "  %-15s %10s of CPU time during the observation; each sample took %s of it\n",
                  "the process", ag_quantity_time(&time, observed->target_cpu_ns),
                  ag_quantity_time(&cost, observed->sample_cost_ns));
}

int ag_cpu_summary_text(struct ag_view *view) {
    const struct ag_profile_observed *observed = ag_profile_observed(view->profile);
    const struct ag_functions *functions;
    if (!observed->is_there) {
        return 0;
    }
    write_how(view, observed);
    int r = ag_profile_functions(view->profile, &functions);
    if (r < 0 || functions->total.own_ns == 0) {
        return r;
    }
    struct ag_view shown = *view;
    shown.limit = view->options->limit == AG_REPORT_USUAL_LIMIT ? 10 : view->limit;
    ag_page_end_line(view->page);
    r = ag_cpu_functions_text(&shown, functions);
    if (r == 0) {
        ag_page_text(
            view->page, AG_STYLE_DIM,
            "  all functions: report --view=functions; by stack: --view=functions --tree\n");
    }
    return r;
}

int ag_cpu_summary_json(struct ag_view *view) {
    const struct ag_profile_observed *observed = ag_profile_observed(view->profile);
    if (!observed->is_there) {
        return 0;
    }
    ag_json_open(view->json, "observed", '{');
    ag_json_integer(view->json, "rate_hz", observed->rate_hz);
    ag_json_integer(view->json, "samples", observed->samples);
    ag_json_integer(view->json, "lost", observed->lost);
    ag_json_integer(view->json, "stale", observed->stale);
    ag_json_integer(view->json, "complete_stacks", observed->complete_stacks);
    ag_json_integer(view->json, "target_cpu_ns", observed->target_cpu_ns);
    ag_json_integer(view->json, "sample_cost_ns", observed->sample_cost_ns);
    ag_json_integer(view->json, "collections_seen", observed->collections_seen);
    ag_json_close(view->json, '}');
    return 0;
}
