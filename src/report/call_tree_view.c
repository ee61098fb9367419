/* call_tree_view.c: `report --view=functions --tree`: function counters by call path, from callers
 * down to callees. "own" counts what a function did itself on this path, "acc" (accumulated) also
 * what the functions that it called did. Memory is counted in words, because the runtimes count
 * words.
 *
 * The first column of the text is the metric of --sort; by default it is acc words, or acc time if
 * only time was counted. If both words and time were counted, two more columns show acc time and
 * acc words per microsecond. Branches with a small share of the acc metric are hidden, even if
 * --sort names an own metric. */
#include <stdio.h>
#include <string.h>

#include "model/answers/functions.h"
#include "report/branch_walk.h"
#include "report/quantity.h"
#include "report/view.h"

enum { LEAST_NAME_COLUMNS = 24, RATE_WIDTH = 8 /* width of "words/us" */ };

struct tree_columns { /* widths and heads of the text; widths are in characters */
    const char *own_head, *calls_head;
    struct ag_unit unit;
    int width, own_width, calls_width;
    bool has_time; /* time was counted; its unit is time_unit */
    struct ag_unit time_unit;
    int time_width;
    char time_head[32];
    uint64_t whole;
};
struct call_walk {
    struct ag_view *view;
    const struct ag_functions *functions;
    enum ag_call_metric sort;
    bool is_time_only; /* no words were counted; calls are then samples */
    /* Nodes with less than `least` of the metric hidden_by are hidden. hidden_by is an acc_ metric,
     * because a descendant never has more of such a metric than its ancestor. */
    enum ag_call_metric hidden_by;
    uint64_t least;
    struct tree_columns columns;
    struct ag_branch_walk branches;
};

static struct ag_branch branch_of(const void *context, uint32_t number) {
    const struct call_walk *walk = context;
    const struct ag_function_node *node = &walk->functions->nodes[number];
    return (struct ag_branch){
        .first_child = node->first_child,
        .next_sibling = node->next_sibling,
        .value = ag_call_metric_of(&node->counts, walk->sort),
        .is_shown = ag_call_metric_of(&node->counts, walk->hidden_by) >= walk->least,
    };
}

static enum ag_call_metric accumulated(enum ag_call_metric metric) {
    switch (metric) {
    case AG_CALL_METRIC_OWN_BYTES:
    case AG_CALL_METRIC_ACC_BYTES:
        return AG_CALL_METRIC_ACC_BYTES;
    case AG_CALL_METRIC_OWN_NS:
    case AG_CALL_METRIC_ACC_NS:
        return AG_CALL_METRIC_ACC_NS;
    case AG_CALL_METRIC_DEFAULT:
    case AG_CALL_METRIC_CALLS:
    case AG_CALL_METRIC_OWN_WORDS:
    case AG_CALL_METRIC_ACC_WORDS:
    case AG_CALL_METRIC_END:
        break;
    }
    return AG_CALL_METRIC_ACC_WORDS;
}

static void prepare_walk(struct call_walk *walk, struct ag_view *view,
                         const struct ag_functions *functions, double usual_min_percent) {
    const struct ag_report_options *options = view->options;
    *walk = (struct call_walk){
        .view = view, .functions = functions, .is_time_only = ag_functions_is_time_only(functions)};
    walk->sort = options->call_sort != AG_CALL_METRIC_DEFAULT ? options->call_sort
                 : walk->is_time_only                         ? AG_CALL_METRIC_ACC_NS
                                                              : AG_CALL_METRIC_ACC_WORDS;
    walk->hidden_by = accumulated(walk->sort);
    const double percent =
        options->min_share_percent >= 0 ? options->min_share_percent : usual_min_percent;
    const uint64_t whole = ag_call_metric_of(&functions->total, walk->hidden_by);
    walk->least = (uint64_t)((double)whole * percent / 100);
    walk->branches = (struct ag_branch_walk){
        .get = branch_of, .context = walk, .n_nodes = functions->n_nodes, .view = view};
}

/* ---- JSON ---- */

static void open_node(const struct call_walk *walk, const struct ag_function_node *node) {
    static const struct ag_frame root = {.function = "[root]"};
    struct ag_json *json = walk->view->json;
    ag_json_function(
        json, node->row == UINT32_MAX
                  ? &root
                  : ag_profile_frame(walk->view->profile, walk->functions->rows[node->row].frame));
    for (enum ag_call_metric metric = AG_CALL_METRIC_CALLS; metric < AG_CALL_METRIC_END; metric++) {
        ag_json_integer(json, ag_call_metric_name(metric),
                        ag_call_metric_of(&node->counts, metric));
    }
    ag_json_open(json, "children", '[');
}

static void visit_node_json(void *context, uint32_t node) {
    const struct call_walk *walk = context;
    ag_json_open(walk->view->json, NULL, '{');
    open_node(walk, &walk->functions->nodes[node]);
}

static void close_node(void *context) {
    const struct call_walk *walk = context;
    ag_json_close(walk->view->json, ']');
    ag_json_close(walk->view->json, '}');
}

int ag_call_tree_json(struct ag_view *view, const struct ag_functions *functions) {
    struct call_walk walk;
    prepare_walk(&walk, view, functions, /* usual_min_percent= */ 0);
    walk.branches.visit = visit_node_json;
    walk.branches.leave = close_node;
    ag_json_open(view->json, "root", '{');
    open_node(&walk, &functions->nodes[0]);
    return ag_branch_walk_run(&walk.branches);
}

/* ---- text ---- */

static const char *head_of(enum ag_call_metric metric) {
    static const char *const heads[AG_CALL_METRIC_END] = {
        [AG_CALL_METRIC_CALLS] = "calls",         [AG_CALL_METRIC_OWN_WORDS] = "own words",
        [AG_CALL_METRIC_OWN_BYTES] = "own bytes", [AG_CALL_METRIC_OWN_NS] = "own",
        [AG_CALL_METRIC_ACC_WORDS] = "acc words", [AG_CALL_METRIC_ACC_BYTES] = "acc bytes",
        [AG_CALL_METRIC_ACC_NS] = "acc"};
    return heads[metric];
}

static int wider(int columns, const char *text) {
    const int other = (int)strlen(text);
    return other > columns ? other : columns;
}

static void choose_columns(struct call_walk *walk, char head[32]) {
    struct tree_columns *columns = &walk->columns;
    const struct ag_call_counts *total = &walk->functions->total;
    const bool is_time = walk->sort == AG_CALL_METRIC_OWN_NS || walk->sort == AG_CALL_METRIC_ACC_NS;
    columns->whole = ag_call_metric_of(total, walk->sort);
    columns->unit =
        is_time ? ag_unit_of_time(columns->whole) : (struct ag_unit){.name = "", .size = 1};
    snprintf(head, 32, "%s%s%s", head_of(walk->sort), is_time ? " " : "", columns->unit.name);
    struct ag_quantity number;
    columns->width =
        wider((int)strlen(head), ag_quantity_in(&number, columns->whole, columns->unit));
    columns->own_head = walk->is_time_only ? "own" : "own words";
    columns->own_width =
        walk->is_time_only
            ? wider((int)strlen("own"),
                    ag_quantity_in(&number, total->own_ns, ag_unit_of_time(total->acc_ns)))
            : wider((int)strlen("own words"), ag_quantity_count(&number, total->own_words));
    columns->calls_head = walk->is_time_only ? "samples" : "calls";
    columns->calls_width =
        wider((int)strlen(columns->calls_head), ag_quantity_count(&number, total->calls));
    columns->has_time = total->acc_ns > 0 && !walk->is_time_only;
    columns->time_unit = ag_unit_of_time(total->acc_ns);
    snprintf(columns->time_head, sizeof columns->time_head, "acc %s", columns->time_unit.name);
    columns->time_width = wider((int)strlen(columns->time_head),
                                ag_quantity_in(&number, total->acc_ns, columns->time_unit));
}

/* Returns the number of columns written. */
static size_t write_time(struct ag_page *page, const struct ag_call_counts *counts,
                         const struct tree_columns *columns) {
    if (!columns->has_time) {
        return 0;
    }
    struct ag_quantity time;
    char rate[32] = "";
    ag_quantity_in(&time, counts->acc_ns, columns->time_unit);
    if (counts->acc_ns > 0) {
        snprintf(rate, sizeof rate, "%.2f",
                 (double)counts->acc_words / ((double)counts->acc_ns / 1e3));
    }
    ag_page_print(page, AG_STYLE_PLAIN, "%*s  %*s  ", columns->time_width, time.text, RATE_WIDTH,
                  rate);
    return (size_t)(columns->time_width + 2 + RATE_WIDTH + 2);
}

static void write_node(void *context, uint32_t at) {
    const struct call_walk *walk = context;
    const struct tree_columns *columns = &walk->columns;
    const struct ag_function_node *node = &walk->functions->nodes[at];
    struct ag_page *page = walk->view->page;
    struct ag_quantity number, share, own, calls;
    const uint64_t value = ag_call_metric_of(&node->counts, walk->sort);
    ag_quantity_in(&number, value, columns->unit);
    ag_quantity_share(&share, value, columns->whole);
    if (walk->is_time_only) {
        ag_quantity_in(&own, node->counts.own_ns, columns->time_unit);
    } else {
        ag_quantity_count(&own, node->counts.own_words);
    }
    ag_quantity_count(&calls, node->counts.calls);
    ag_page_print(page, AG_STYLE_BRIGHT, "  %*s", columns->width, number.text);
    ag_page_print(page, AG_STYLE_PLAIN, "  %5s  %*s  %*s  ", share.text, columns->own_width,
                  own.text, columns->calls_width, calls.text);
    size_t taken =
        (size_t)(2 + columns->width + 9 + columns->own_width + 2 + columns->calls_width + 2);
    taken += write_time(page, &node->counts, columns);
    const size_t least = taken + LEAST_NAME_COLUMNS;
    taken += ag_branch_walk_lines(&walk->branches, page,
                                  page->columns > least ? page->columns - least : 0);
    struct ag_frame_text text;
    struct ag_fitted fitted;
    const struct ag_function_row *row = &walk->functions->rows[node->row];
    const struct ag_frame frame =
        ag_function_frame(row, ag_profile_frame(walk->view->profile, row->frame));
    (void)ag_page_fit(&fitted, ag_frame_function(&text, &frame), /* the last cell of the line */
                      page->columns > taken + LEAST_NAME_COLUMNS ? page->columns - taken
                                                                 : LEAST_NAME_COLUMNS);
    ag_page_text(page, AG_STYLE_PLAIN, fitted.text);
    ag_page_end_line(page);
}

int ag_call_tree_text(struct ag_view *view, const struct ag_functions *functions) {
    struct call_walk walk;
    const struct tree_columns *columns = &walk.columns;
    char head[32];
    prepare_walk(&walk, view, functions, /* usual_min_percent= */ 1);
    choose_columns(&walk, head);
    ag_page_print(view->page, AG_STYLE_DIM, "  %*s  share  %*s  %*s  ", columns->width, head,
                  columns->own_width, columns->own_head, columns->calls_width, columns->calls_head);
    if (columns->has_time) {
        ag_page_print(view->page, AG_STYLE_DIM, "%*s  %*s  ", columns->time_width,
                      columns->time_head, RATE_WIDTH, "words/us");
    }
    ag_page_print(view->page, AG_STYLE_DIM, "function\n");
    walk.branches.visit = write_node;
    const int r = ag_branch_walk_run(&walk.branches);
    if (r == 0) {
        ag_branch_walk_write_hidden(&walk.branches, view->page, columns->whole);
    }
    return r;
}
