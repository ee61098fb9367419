/* types_view.c: `report --view=types`: objects by type; with --type the stacks that allocate most
 * objects of one type. Blocks without a known type have a row of their own, "untyped". With
 * --by=os_process, each type has a row for each process. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/lifetimes.h"
#include "model/answers/types.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"
#include "table/array.h"

static const char untyped[] = "untyped"; /* the name of the row in text, and for --type */
/* How many frames of a stack the text of --type shows: enough for the frames in a library and for
 * some callers of the library. */
enum { USUAL_FRAMES = 12 };

static const char *name_of(const struct ag_type_row *row) {
    return row->type != NULL ? row->type : untyped;
}

/* ---- the rows ---- */

/* A row of the table of all types. */
struct shown_type {
    const struct ag_type_row *row;
    const struct ag_lifetimes *lifetimes; /* by type; only for JSON */
    uint32_t process;                     /* with --by=os_process: number for ag_profile_process */
};
struct shown_types {
    struct shown_type *rows;
    size_t n_rows;
    struct ag_ranking ranking;
};

static void end_shown(struct shown_types *shown) {
    ag_ranking_end(&shown->ranking);
    free(shown->rows);
}

static int add_types(struct ag_view *view, struct ag_profile *profile, uint32_t process,
                     struct shown_types *shown) {
    struct shown_type type = {.process = process};
    const struct ag_type_row *rows;
    size_t n_rows;
    int r = ag_profile_types(profile, &rows, &n_rows);
    if (r == 0 && view->options->is_json) {
        r = ag_profile_lifetimes(profile, AG_BY_TYPE, &type.lifetimes);
    }
    for (size_t i = 0; i < n_rows && r == 0; i++) {
        type.row = &rows[i];
        r = AG_ARRAY_ADD(shown->rows, shown->n_rows, type);
    }
    return r;
}

/* Finds the rows of the table and ranks them. The rows of a process are those of the report on its
 * trace. The caller calls end_shown also after an error. */
static int find_shown(struct ag_view *view, struct shown_types *shown) {
    const bool is_by_process = view->options->by == AG_BY_OS_PROCESS;
    const enum ag_metric blocks = ag_metric_blocks_of(view->sort);
    int r = 0;
    *shown = (struct shown_types){.n_rows = 0};
    if (!is_by_process) {
        r = add_types(view, view->profile, 0, shown);
    }
    for (uint32_t i = 0; is_by_process && r == 0 && i < ag_profile_n_processes(view->profile);
         i++) {
        r = add_types(view, ag_profile_of_process(view->profile, i), i, shown);
    }
    r = r < 0 ? r : ag_ranking_start(&shown->ranking, shown->n_rows);
    for (size_t i = 0; r == 0 && i < shown->n_rows; i++) {
        const struct ag_metrics *metrics = &shown->rows[i].row->metrics;
        if (ag_metric_of(metrics, blocks) >= view->options->min_count) {
            ag_ranking_add(&shown->ranking,
                           (struct ag_rank){.first = ag_metric_of(metrics, view->sort),
                                            .second = ag_metric_of(metrics, blocks),
                                            .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(&shown->ranking);
    return r;
}

/* ---- --type ---- */

bool ag_types_is_named(const struct ag_view *view, uint32_t stack) {
    if (view->type == NULL) {
        return true;
    }
    const char *type = ag_profile_stack_type(view->profile, stack);
    return strcmp(type != NULL ? type : untyped, name_of(view->type)) == 0;
}

static bool is_wanted(void *context, const struct ag_stack_row *row, const uint32_t *frames,
                      size_t n_frames) {
    (void)frames;
    (void)n_frames;
    return ag_types_is_named(context, row->stack);
}

/* A language prints its types in another spelling than the runtime that reported them: Julia's
 * runtime writes Base.Dict{String, Main.Point}, the language Dict{String,Point}. So if no type has
 * exactly the name that the user gave, names are compared without blanks, and then also without the
 * modules that precede a name. */
enum spelling { SPELLING_EXACT, SPELLING_WITHOUT_BLANKS, SPELLING_WITHOUT_MODULES, SPELLINGS };

static bool is_of_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || (c & 0x80) != 0;
}

static void spell(const char *name, enum spelling spelling, char *text, size_t capacity) {
    size_t n = 0, part = 0; /* part: where the last dotted name of TEXT begins */
    for (; *name != '\0' && n + 1 < capacity; name++) {
        if (*name == ' ' && spelling >= SPELLING_WITHOUT_BLANKS) {
            continue;
        }
        if (*name == '.' && spelling == SPELLING_WITHOUT_MODULES && n > part &&
            !isdigit((unsigned char)text[part])) {
            n = part;
            continue;
        }
        text[n++] = *name;
        part = is_of_name(*name) ? part : n;
    }
    text[n] = '\0';
}

/* Returns how many rows have the name that --type gives. *ret_row: the first of them. */
static size_t find_spelled(const struct ag_view *view, enum spelling spelling,
                           const struct shown_types *shown, const struct ag_type_row **ret_row) {
    enum { NAME_BYTES = 4096 };
    char wanted[NAME_BYTES], name[NAME_BYTES];
    size_t n = 0;
    spell(view->options->type, spelling, wanted, sizeof wanted);
    for (size_t i = 0; i < shown->ranking.count; i++) {
        const struct ag_type_row *row = shown->rows[shown->ranking.ranks[i].row].row;
        spell(name_of(row), spelling, name, sizeof name);
        if (strcmp(name, wanted) == 0 && n++ == 0) {
            *ret_row = row;
        }
    }
    return n;
}

int ag_types_find(struct ag_view *view) {
    enum { NAMED = 5 };
    struct ag_report_options options = *view->options;
    struct ag_view any = *view;
    options.min_count = 0; /* --min-count applies to stacks, not to the type */
    options.by = AG_BY_FUNCTION;
    options.is_json = false;
    any.options = &options;
    const struct ag_type_row *row = NULL;
    struct shown_types shown;
    const int r = find_shown(&any, &shown);
    if (r < 0) {
        end_shown(&shown);
        return r;
    }
    size_t n = 0;
    for (enum spelling spelling = SPELLING_EXACT; spelling < SPELLINGS && n == 0; spelling++) {
        n = find_spelled(view, spelling, &shown, &row);
    }
    view->type = n == 1 ? row : NULL;
    if (n > 1) {
        snprintf(view->message, 512,
                 "--type=%.100s: %zu types of the trace have this name in different modules; give "
                 "the name as --view=types shows it, such as %.100s",
                 view->options->type, n, name_of(row));
    } else if (n == 0) {
        size_t used = (size_t)snprintf(
            view->message, 512, "--type=%.100s: the trace has no such type", view->options->type);
        bool has_types = false;
        for (size_t i = 0; i < shown.n_rows; i++) {
            has_types = has_types || shown.rows[i].row->type != NULL;
        }
        for (size_t i = 0; has_types && i < shown.ranking.count && i < NAMED && used < 512; i++) {
            used += (size_t)snprintf(view->message + used, 512 - used, "%s %.60s",
                                     i > 0 ? "," : "; the largest are",
                                     name_of(shown.rows[shown.ranking.ranks[i].row].row));
        }
        if (!has_types) {
            snprintf(view->message + used, 512 - used,
                     ": its blocks have no types; blocks of OCaml, Julia, Crystal, Guile and Lua "
                     "have types");
        }
    }
    end_shown(&shown);
    return n == 1 ? 0 : -EINVAL;
}

static int write_stacks_text(struct ag_view *view) {
    const struct ag_type_row *row = view->type;
    struct ag_quantity blocks, bytes, in_use;
    struct ag_page *page = view->page;
    struct ag_fitted name;
    (void)ag_page_fit(&name, name_of(row), page->columns - 2);
    ag_page_text(page, AG_STYLE_BRIGHT, name.text);
    ag_page_prose(page, AG_STYLE_PLAIN, ": %s %s, %s, %s in use at the end",
                  ag_quantity_count(&blocks, row->metrics.allocated_blocks),
                  row->metrics.allocated_blocks == 1 ? "object" : "objects",
                  ag_quantity_bytes(&bytes, row->metrics.allocated_bytes),
                  ag_quantity_count(&in_use, row->metrics.in_use_blocks));
    struct ag_report_options options = *view->options;
    options.frames = options.frames == 0 ? USUAL_FRAMES : options.frames;
    struct ag_view stacks = *view;
    stacks.options = &options;
    stacks.sort =
        view->options->sort == AG_METRIC_DEFAULT ? AG_METRIC_ALLOCATED_BLOCKS : view->sort;
    return ag_stacks_write_text(&stacks, is_wanted, view);
}

/* ---- all types ---- */

/* Finds the lifetimes of a type by its name, because the rows of LIFETIMES have no order. */
static const struct ag_lifetime *lifetime_of(const struct ag_lifetimes *lifetimes,
                                             const char *type) {
    static const struct ag_lifetime none;
    for (size_t i = 0; i < lifetimes->n_rows; i++) {
        const char *label = lifetimes->rows[i].label;
        if (label == type || (label != NULL && type != NULL && strcmp(label, type) == 0)) {
            return &lifetimes->rows[i].lifetime;
        }
    }
    return &none;
}

int ag_types_view_json(struct ag_view *view) {
    if (view->type != NULL) {
        return ag_stacks_write_json(view, is_wanted, view);
    }
    struct shown_types shown;
    const int r = find_shown(view, &shown);
    if (r == 0) {
        ag_json_open(view->json, "types", '[');
        for (size_t i = 0; i < shown.ranking.count && i < view->limit; i++) {
            const struct shown_type *type = &shown.rows[shown.ranking.ranks[i].row];
            ag_json_open(view->json, NULL, '{');
            ag_json_string(view->json, "type", type->row->type);
            ag_json_string(view->json, "runtime", type->row->runtime);
            if (view->options->by == AG_BY_OS_PROCESS) {
                ag_process_key_json(view->json, view->profile, type->process);
            }
            ag_json_metrics(view, &type->row->metrics);
            ag_json_lifetime(view->json, lifetime_of(type->lifetimes, type->row->type),
                             /* has_p90= */ false);
            ag_json_close(view->json, '}');
        }
        ag_json_close(view->json, ']');
    }
    end_shown(&shown);
    return r;
}

static int write_table(struct ag_view *view, struct shown_types *shown) {
    const bool is_by_process = view->options->by == AG_BY_OS_PROCESS;
    struct ag_ranking *ranking = &shown->ranking;
    const struct ag_metrics total = *ag_profile_total(view->profile);
    const bool is_bytes = ag_metric_is_bytes(view->sort);
    const uint64_t whole = ag_metric_of(&total, view->sort);
    const struct ag_unit unit = is_bytes ? ag_unit_of_bytes(whole) : ag_unit_of_blocks(whole);
    const struct ag_unit blocks_unit = ag_unit_of_blocks(total.allocated_blocks);
    const struct ag_unit in_use_unit = ag_unit_of_blocks(total.in_use_blocks);
    char heads[3][64];
    snprintf(heads[0], sizeof heads[0], "%s %s", ag_metric_words(view->sort), unit.name);
    snprintf(heads[1], sizeof heads[1], "objects %s", blocks_unit.name);
    snprintf(heads[2], sizeof heads[2], "in use %s", in_use_unit.name);
    const bool is_sampled = ag_profile_identity(view->profile)->is_sampled;
    struct ag_column columns[7] = {{.head = heads[0], .style = AG_STYLE_BRIGHT},
                                   {.head = "±", .style = AG_STYLE_DIM}};
    const struct ag_column others[] = {
        {.head = "share"},
        {.head = heads[1]},
        {.head = heads[2]},
        {.head = "type", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 20},
    };
    size_t n_columns = is_sampled ? 2 : 1;
    memcpy(columns + n_columns, others, sizeof others);
    n_columns += sizeof others / sizeof others[0];
    if (is_by_process) {
        columns[n_columns++] = (struct ag_column){.head = ag_report_key_name(AG_BY_OS_PROCESS),
                                                  .align = AG_ALIGN_LEFT,
                                                  .least_columns = 12};
    }
    struct ag_table *table = ag_table_new(columns, n_columns);
    for (size_t i = 0; i < ranking->count && i < view->limit; i++) {
        const struct shown_type *type = &shown->rows[ranking->ranks[i].row];
        const struct ag_type_row *row = type->row;
        const uint64_t value = ag_metric_of(&row->metrics, view->sort);
        struct ag_quantity number;
        ag_table_cell(table, ag_quantity_in(&number, value, unit));
        if (is_sampled) {
            ag_table_cell(table, ag_quantity_spread(&number, &row->metrics, view->sort));
        }
        ag_table_cell(table, ag_quantity_share(&number, value, whole));
        ag_table_cell(table, ag_quantity_in(&number, row->metrics.allocated_blocks, blocks_unit));
        ag_table_cell(table, ag_quantity_in(&number, row->metrics.in_use_blocks, in_use_unit));
        ag_table_cell(table, name_of(row));
        if (is_by_process) {
            ag_table_cell(table, ag_profile_process_name(view->profile, type->process));
        }
    }
    return ag_ranking_write_table(ranking, view->limit, table, view->page, "more type",
                                  ag_ranking_sum(ranking, view->limit), whole);
}

int ag_types_view_text(struct ag_view *view) {
    if (view->type != NULL) {
        return write_stacks_text(view);
    }
    struct shown_types shown;
    int r = find_shown(view, &shown);
    r = r < 0 ? r : write_table(view, &shown);
    end_shown(&shown);
    return r;
}
