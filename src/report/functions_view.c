/* functions_view.c: `report --view=functions`: how often functions were called, how many words of
 * memory they allocated, and how long they took. With --callers it lists the callers of one
 * function. With --by it has one row for each process of a runtime, for each initial call (the
 * function with which such a process begins), or for each process of the operating system.
 * call_tree_view.c writes the call tree of --tree, cpu_view.c the text about a process that was
 * observed from outside.
 *
 * The counters count words. Bytes are in the JSON, and in the text only if --sort names them. Words
 * that no function allocated (messages, arguments of new processes, the profiler itself) are listed
 * apart, so that shares refer to what the program's own code allocated. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/functions.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

static enum ag_call_metric sort_of(const struct ag_view *view,
                                   const struct ag_functions *functions) {
    return view->options->call_sort != AG_CALL_METRIC_DEFAULT ? view->options->call_sort
           : ag_functions_is_time_only(functions)             ? AG_CALL_METRIC_OWN_NS
                                                              : AG_CALL_METRIC_OWN_WORDS;
}

static const struct ag_frame *frame_of(const struct ag_view *view,
                                       const struct ag_function_row *row) {
    return ag_profile_frame(view->profile, row->frame);
}

/* Names for the rows, indexed by enum ag_call_group. */
static const struct group_words {
    const char *key, *rows_key, *head, *more;
} group_words[] = {
    [AG_CALLS_TOGETHER] = {"function", "functions", "function", "more function"},
    [AG_CALLS_BY_PROCESS] = {"process", "processes", "process", "more process"},
    [AG_CALLS_BY_INITIAL_CALL] = {"initial_call", "initial_calls", "initial call",
                                  "more initial call"},
    [AG_CALLS_BY_OS_PROCESS] = {"os_process", "os_processes", "os_process", NULL},
};

static double percent_of(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static int rank_functions(const struct ag_view *view, const struct ag_functions *functions,
                          struct ag_ranking *ranking) {
    const int r = ag_ranking_start(ranking, functions->n_rows);
    for (size_t i = 0; r == 0 && i < functions->n_rows; i++) {
        const struct ag_call_counts *counts = &functions->rows[i].counts;
        const bool is_nothing = counts->calls == 0 && counts->acc_words == 0 && counts->acc_ns == 0;
        const bool is_row = functions->rows[i].is_group == (functions->group != AG_CALLS_TOGETHER);
        if (is_row && !is_nothing && counts->calls >= view->options->min_count) {
            ag_ranking_add(ranking, (struct ag_rank){.first = ag_call_metric_of(
                                                         counts, sort_of(view, functions)),
                                                     .second = counts->calls,
                                                     .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(ranking);
    return r;
}

int ag_functions_check(struct ag_view *view) {
    struct ag_caller_row *rows = NULL;
    size_t count;
    const int r = ag_profile_callers(view->profile, view->options->callers, &rows, &count);
    free(rows);
    if (r != -ENOENT) {
        return r;
    }
    snprintf(view->message, 512,
             "--callers=%.200s: %s; --view=functions lists the functions that have calls",
             view->options->callers,
             strstr(view->options->callers, "…")
                 ? "the trace has no function with this shortened name, or several"
                 : "the trace has no calls of this function");
    return -EINVAL;
}

/* ---- JSON ---- */

static void write_words_per_call(struct ag_json *json, uint64_t words, uint64_t calls) {
    if (calls > 0) {
        ag_json_decimal(json, "words_per_call", (double)words / (double)calls, /* decimals= */ 2);
    } else {
        ag_json_null(json, "words_per_call");
    }
}

static void write_counts_json(struct ag_json *json, const struct ag_call_counts *counts,
                              const struct ag_call_counts *total) {
    ag_json_integer(json, "calls", counts->calls);
    ag_json_integer(json, "own_words", counts->own_words);
    ag_json_integer(json, "own_bytes", counts->own_bytes);
    write_words_per_call(json, counts->own_words, counts->calls);
    ag_json_percent(json, "percent", percent_of(counts->own_words, total->own_words));
    ag_json_integer(json, "own_ns", counts->own_ns);
    ag_json_integer(json, "acc_words", counts->acc_words);
    ag_json_integer(json, "acc_bytes", counts->acc_bytes);
    ag_json_integer(json, "acc_ns", counts->acc_ns);
}

static int write_table_json(struct ag_view *view, const struct ag_functions *functions) {
    struct ag_json *json = view->json;
    struct ag_ranking ranking;
    const int r = rank_functions(view, functions, &ranking);
    if (r < 0) {
        return r;
    }
    const struct group_words *words = &group_words[functions->group];
    ag_json_open(json, words->rows_key, '[');
    for (size_t i = 0; i < ranking.count && i < view->limit; i++) {
        const struct ag_function_row *row = &functions->rows[ranking.ranks[i].row];
        ag_json_open(json, NULL, '{');
        if (functions->group == AG_CALLS_BY_OS_PROCESS) {
            ag_process_key_json(json, view->profile, row->process);
        } else {
            ag_json_string(json, words->key, frame_of(view, row)->function);
        }
        if (row->is_group) {
            ag_json_integer(json, "processes", row->n_trees);
        } else {
            ag_json_string(json, "file", frame_of(view, row)->file);
            ag_json_nonzero(json, "line", frame_of(view, row)->line);
        }
        ag_json_string(json, "runtime", frame_of(view, row)->runtime);
        write_counts_json(json, &row->counts, &functions->total);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_ranking_end(&ranking);
    return 0;
}

static int write_callers_json(struct ag_view *view, const struct ag_functions *functions);

static void write_apart_json(struct ag_json *json, const char *key, const struct ag_apart *apart) {
    ag_json_open(json, key, '{');
    ag_json_integer(json, "count", apart->count);
    if (apart->is_unknown) {
        ag_json_null(json, "words");
        ag_json_null(json, "bytes");
    } else {
        ag_json_integer(json, "words", apart->words);
        ag_json_integer(json, "bytes", apart->bytes);
    }
    ag_json_close(json, '}');
}

int ag_functions_view_json(struct ag_view *view) {
    struct ag_json *json = view->json;
    const struct ag_functions *functions;
    int r = ag_profile_functions(view->profile, &functions);
    if (r < 0) {
        return r;
    }
    ag_heading_whole_recording(view);
    if (functions->n_partial_trees > 0) {
        ag_json_integer(json, "incomplete_trees", functions->n_partial_trees);
    }
    r = view->options->callers   ? write_callers_json(view, functions)
        : view->options->is_tree ? ag_call_tree_json(view, functions)
                                 : write_table_json(view, functions);
    ag_json_open(json, "total", '{');
    write_counts_json(json, &functions->total, &functions->total);
    ag_json_close(json, '}');
    write_apart_json(json, "messages", &functions->messages);
    write_apart_json(json, "spawn_arguments", &functions->spawn_arguments);
    write_apart_json(json, "profiler", &functions->profiler);
    return r;
}

/* ---- text: the table ---- */

struct function_columns {
    bool has_marks;     /* functions of several runtimes are shown, so each name begins with its
                         * runtime */
    bool has_time;      /* time was counted */
    bool has_processes; /* rows have a count of processes */
    const char *name_head;
    enum ag_call_metric extra; /* the metric of --sort if no other column shows it; DEFAULT: none */
    struct ag_unit time_unit;
    char own_head[32], acc_head[32]; /* ag_table does not copy heads */
};

static bool has_several_runtimes(const struct ag_view *view, const struct ag_functions *functions) {
    for (size_t i = 1; i < functions->n_rows; i++) {
        if (strcmp(frame_of(view, &functions->rows[i])->runtime,
                   frame_of(view, &functions->rows[0])->runtime) != 0) {
            return true;
        }
    }
    return false;
}

static struct function_columns choose_columns(const struct ag_view *view,
                                              const struct ag_functions *functions) {
    const enum ag_call_metric sort = sort_of(view, functions);
    const bool has_column = sort == AG_CALL_METRIC_CALLS || sort == AG_CALL_METRIC_OWN_WORDS ||
                            sort == AG_CALL_METRIC_OWN_NS;
    struct function_columns columns = {.has_marks = has_several_runtimes(view, functions),
                                       .has_time = functions->total.own_ns > 0,
                                       .has_processes = functions->group != AG_CALLS_TOGETHER,
                                       .name_head = group_words[functions->group].head,
                                       .extra = has_column ? AG_CALL_METRIC_DEFAULT : sort,
                                       .time_unit = ag_unit_of_time(functions->total.own_ns)};
    snprintf(columns.own_head, sizeof columns.own_head, "own %s", columns.time_unit.name);
    snprintf(columns.acc_head, sizeof columns.acc_head, "acc %s", columns.time_unit.name);
    return columns;
}

static const char *name_of(struct ag_frame_text *buffer, const struct ag_view *view,
                           const struct ag_function_row *row, bool has_mark) {
    const struct ag_frame frame = ag_function_frame(row, frame_of(view, row));
    return has_mark ? ag_frame_function(buffer, &frame) : frame.function;
}

static void add_decimal(struct ag_table *table, double number) {
    char text[64];
    snprintf(text, sizeof text, "%.2f", number);
    ag_table_cell(table, text);
}

static void add_quotient(struct ag_table *table, double dividend, double divisor) {
    if (divisor > 0) {
        add_decimal(table, dividend / divisor);
    } else {
        ag_table_cell(table, "");
    }
}

static void add_row(struct ag_table *table, const struct function_columns *columns,
                    const char *name, uint64_t n_processes, const struct ag_call_counts *counts,
                    const struct ag_call_counts *total) {
    struct ag_quantity number;
    ag_table_cell(table, name);
    if (columns->has_processes) {
        ag_table_cell(table, ag_quantity_count(&number, n_processes));
    }
    ag_table_cell(table, ag_quantity_count(&number, counts->calls));
    ag_table_cell(table, ag_quantity_count(&number, counts->own_words));
    add_decimal(table, percent_of(counts->own_words, total->own_words));
    add_quotient(table, (double)counts->own_words, (double)counts->calls);
    if (columns->has_time) {
        ag_table_cell(table, ag_quantity_in(&number, counts->own_ns, columns->time_unit));
        add_quotient(table, (double)counts->own_words, (double)counts->own_ns / 1e3);
    }
    if (columns->extra == AG_CALL_METRIC_ACC_NS) {
        ag_table_cell(table, ag_quantity_in(&number, counts->acc_ns, columns->time_unit));
    } else if (columns->extra != AG_CALL_METRIC_DEFAULT) {
        ag_table_cell(table, ag_quantity_count(&number, ag_call_metric_of(counts, columns->extra)));
    }
}

static struct ag_table *new_table(const struct function_columns *columns) {
    static const struct ag_column always[] = {
        {.head = "calls"},
        {.head = "words", .style = AG_STYLE_BRIGHT},
        {.head = "%"},
        {.head = "words/call"},
    };
    struct ag_column list[9] = {{.head = columns->name_head,
                                 .align = AG_ALIGN_LEFT,
                                 .style = AG_STYLE_BRIGHT,
                                 .least_columns = 16}};
    size_t count = 1;
    if (columns->has_processes) {
        list[count++] = (struct ag_column){.head = "processes"};
    }
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        list[count++] = always[i];
    }
    if (columns->has_time) {
        list[count++] = (struct ag_column){.head = columns->own_head};
        list[count++] = (struct ag_column){.head = "words/us"};
    }
    switch (columns->extra) {
    case AG_CALL_METRIC_OWN_BYTES:
        list[count++] = (struct ag_column){.head = "bytes"};
        break;
    case AG_CALL_METRIC_ACC_WORDS:
        list[count++] = (struct ag_column){.head = "acc words"};
        break;
    case AG_CALL_METRIC_ACC_BYTES:
        list[count++] = (struct ag_column){.head = "acc bytes"};
        break;
    case AG_CALL_METRIC_ACC_NS:
        list[count++] = (struct ag_column){.head = columns->acc_head};
        break;
    case AG_CALL_METRIC_DEFAULT:
    case AG_CALL_METRIC_CALLS:
    case AG_CALL_METRIC_OWN_WORDS:
    case AG_CALL_METRIC_OWN_NS:
    case AG_CALL_METRIC_END:
        break;
    }
    return ag_table_new(list, count);
}

static int write_table(struct ag_view *view, const struct ag_functions *functions) {
    struct ag_ranking ranking;
    const int r = rank_functions(view, functions, &ranking);
    if (r < 0) {
        return r;
    }
    const struct function_columns columns = choose_columns(view, functions);
    struct ag_table *table = new_table(&columns);
    uint64_t hidden_words = 0;
    for (size_t i = 0; i < ranking.count; i++) {
        const struct ag_function_row *row = &functions->rows[ranking.ranks[i].row];
        struct ag_frame_text name;
        if (i < view->limit) {
            add_row(table, &columns, name_of(&name, view, row, columns.has_marks), row->n_trees,
                    &row->counts, &functions->total);
        } else {
            hidden_words += row->counts.own_words;
        }
    }
    ag_table_rule(table);
    add_row(table, &columns, "total", functions->n_trees, &functions->total, &functions->total);
    return ag_ranking_write_table(&ranking, view->limit, table, view->page,
                                  group_words[functions->group].more, hidden_words,
                                  functions->total.own_words);
}

/* Writes "  apart: messages 12.1 M words in 0.9 M, ...". Quantities that are 0 are left out. */
static void write_apart(struct ag_page *page, const struct ag_functions *functions) {
    const struct {
        const char *name, *between;
        const struct ag_apart *apart;
    } rows[] = {{"messages", "in", &functions->messages},
                {"spawn arguments", "in", &functions->spawn_arguments},
                {"the profiler itself", "in", &functions->profiler}};
    const char *before = "  apart: ";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ag_quantity words, count;
        if (rows[i].apart->count == 0 && rows[i].apart->words == 0) {
            continue;
        }
        char text[160];
        snprintf(text, sizeof text, "%s%s %s words %s %s", before, rows[i].name,
                 rows[i].apart->is_unknown ? "an unknown number of"
                                           : ag_quantity_short(&words, rows[i].apart->words),
                 rows[i].between, ag_quantity_short(&count, rows[i].apart->count));
        ag_page_wrap(page, AG_STYLE_DIM, /* indent= */ 4, text);
        before = ", ";
    }
    if (*before == ',') {
        ag_page_end_line(page);
    }
}

/* ---- callers ---- */

static uint64_t value_of(const struct ag_caller_row *row, enum ag_call_metric sort) {
    switch (sort) {
    case AG_CALL_METRIC_CALLS:
        return row->calls;
    case AG_CALL_METRIC_OWN_NS:
    case AG_CALL_METRIC_ACC_NS:
        return row->ns;
    case AG_CALL_METRIC_OWN_BYTES:
    case AG_CALL_METRIC_ACC_BYTES:
        return row->bytes;
    case AG_CALL_METRIC_DEFAULT:
    case AG_CALL_METRIC_OWN_WORDS:
    case AG_CALL_METRIC_ACC_WORDS:
    case AG_CALL_METRIC_END:
        break;
    }
    return row->words;
}

struct callers {
    struct ag_caller_row *rows;
    struct ag_caller_row all;
    struct ag_ranking ranking;
};

static void end_callers(struct callers *callers) {
    ag_ranking_end(&callers->ranking);
    free(callers->rows);
}

static int rank_callers(struct ag_view *view, const struct ag_functions *functions,
                        struct callers *callers) {
    size_t count;
    *callers = (struct callers){.rows = NULL};
    int r = ag_profile_callers(view->profile, view->options->callers, &callers->rows, &count);
    r = r < 0 ? r : ag_ranking_start(&callers->ranking, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct ag_caller_row *row = &callers->rows[i];
        callers->all.calls += row->calls;
        callers->all.words += row->words;
        callers->all.bytes += row->bytes;
        if (row->calls >= view->options->min_count) {
            ag_ranking_add(&callers->ranking,
                           (struct ag_rank){.first = value_of(row, sort_of(view, functions)),
                                            .second = row->calls,
                                            .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(&callers->ranking);
    return r;
}

static int write_callers_json(struct ag_view *view, const struct ag_functions *functions) {
    static const struct ag_frame root = {.function = "[root]"};
    struct ag_json *json = view->json;
    struct callers callers;
    const int r = rank_callers(view, functions, &callers);
    ag_json_open(json, "callers", '[');
    for (size_t i = 0; r == 0 && i < callers.ranking.count && i < view->limit; i++) {
        const struct ag_caller_row *row = &callers.rows[callers.ranking.ranks[i].row];
        const struct ag_frame *frame =
            row->row < functions->n_rows ? frame_of(view, &functions->rows[row->row]) : &root;
        ag_json_open(json, NULL, '{');
        ag_json_function(json, frame);
        ag_json_integer(json, "calls", row->calls);
        ag_json_integer(json, "words", row->words);
        ag_json_integer(json, "bytes", row->bytes);
        ag_json_percent(json, "percent", percent_of(row->words, callers.all.words));
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    end_callers(&callers);
    return r;
}

static void add_caller(struct ag_table *table, const struct ag_caller_row *row, uint64_t words,
                       const char *name) {
    struct ag_quantity number;
    add_decimal(table, percent_of(row->words, words));
    ag_table_cell(table, ag_quantity_count(&number, row->words));
    ag_table_cell(table, ag_quantity_count(&number, row->calls));
    add_quotient(table, (double)row->words, (double)row->calls);
    ag_table_cell(table, name);
}

static int write_callers(struct ag_view *view, const struct ag_functions *functions) {
    static const struct ag_column columns[] = {
        {.head = "%"},
        {.head = "words", .style = AG_STYLE_BRIGHT},
        {.head = "calls"},
        {.head = "words/call"},
        {.head = "called by",
         .align = AG_ALIGN_LEFT,
         .style = AG_STYLE_BRIGHT,
         .least_columns = 16},
    };
    struct callers callers;
    int r = rank_callers(view, functions, &callers);
    if (r < 0) {
        end_callers(&callers);
        return r;
    }
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    const bool has_marks = has_several_runtimes(view, functions);
    uint64_t hidden_words = 0;
    for (size_t i = 0; i < callers.ranking.count; i++) {
        const struct ag_caller_row *row = &callers.rows[callers.ranking.ranks[i].row];
        struct ag_frame_text name;
        if (i < view->limit) {
            add_caller(table, row, callers.all.words,
                       row->row < functions->n_rows
                           ? name_of(&name, view, &functions->rows[row->row], has_marks)
                           : "nothing that is counted");
        } else {
            hidden_words += row->words;
        }
    }
    ag_table_rule(table);
    add_caller(table, &callers.all, callers.all.words, view->options->callers);
    r = ag_ranking_write_table(&callers.ranking, view->limit, table, view->page, "more caller",
                               hidden_words, callers.all.words);
    end_callers(&callers);
    return r;
}

/* ---- the view ---- */

static bool is_of_samples(const struct ag_view *view, const struct ag_functions *functions) {
    return ag_profile_observed(view->profile)->is_there && ag_functions_is_time_only(functions);
}

int ag_functions_view_text(struct ag_view *view) {
    const struct ag_functions *functions;
    int r = ag_profile_functions(view->profile, &functions);
    if (r < 0) {
        return r;
    }
    if (functions->n_trees == 0) {
        ag_page_prose(view->page, AG_STYLE_PLAIN,
                      "no function was counted in %s: this view needs a runtime that counts calls",
                      view->options->filter != NULL ? "what was selected" : "this process");
        return 0;
    }
    ag_heading_whole_recording(view);
    if (functions->n_partial_trees > 0) {
        ag_page_prose(
            view->page, AG_STYLE_WARNING,
            "incomplete: %zu of %zu threads or processes had not written all of their counters; their numbers are too low",
            functions->n_partial_trees, functions->n_trees);
        ag_page_end_line(view->page);
    }
    if (view->options->callers != NULL) {
        return write_callers(view, functions);
    }
    r = view->options->is_tree           ? ag_call_tree_text(view, functions)
        : is_of_samples(view, functions) ? ag_cpu_functions_text(view, functions)
                                         : write_table(view, functions);
    if (r == 0) {
        write_apart(view->page, functions);
    }
    return r;
}
