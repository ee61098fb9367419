/* mappings_view.c: `report --view=mappings`: the memory that the program mapped itself, and the
 * line of the summary that mentions it. The numbers are those of a profile whose blocks are the
 * mappings (model/answers/program_mappings.h), so the tables of blocks can show them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/program_mappings.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

/* ---- the line of the summary ---- */

const char *ag_report_mapped_words(const struct ag_mapped_memory_note *note,
                                   char buffer[AG_MAPPED_WORDS_BYTES]) {
    const struct ag_frame *frame = ag_profile_frame(note->mappings, note->frame);
    enum { FUNCTION_COLUMNS = 48, WHERE_COLUMNS = 40 };
    struct ag_frame_text text;
    struct ag_fitted function, where;
    struct ag_quantity bytes;
    ag_page_fit(&function, ag_frame_function(&text, frame), FUNCTION_COLUMNS);
    ag_page_fit(&where, ag_frame_where(&text, frame), WHERE_COLUMNS);
    snprintf(buffer, AG_MAPPED_WORDS_BYTES,
             "mapped by the program itself: %s at the peak%s, %s by %.400s%s%.400s%s",
             ag_quantity_bytes(&bytes, note->peak_bytes),
             note->with_reserved ? " (some of it without access at first)" : "",
             note->line_bytes > note->peak_bytes / 2 ? "most" : "the largest part", function.text,
             *where.text != '\0' ? " (" : "", where.text, *where.text != '\0' ? ")" : "");
    return buffer;
}

static int find_note(struct ag_view *view, struct ag_mapped_memory_note *note) {
    return ag_profile_mapped_memory_note(
        view->profile, view->options->has_all_findings ? AG_MAPPINGS_ALL : AG_MAPPINGS_QUICK, note);
}

int ag_mappings_summary_text(struct ag_view *view) {
    struct ag_mapped_memory_note note;
    char words[AG_MAPPED_WORDS_BYTES];
    const int r = find_note(view, &note);
    if (r == 0 && note.is_there) {
        ag_page_prose(view->page, AG_STYLE_PLAIN, "  %s; see --view=mappings",
                      ag_report_mapped_words(&note, words));
    }
    return r;
}

int ag_mappings_summary_json(struct ag_view *view) {
    struct ag_mapped_memory_note note;
    const int r = find_note(view, &note);
    if (r < 0) {
        return r;
    }
    if (!note.is_there) {
        ag_json_null(view->json, "program_mappings");
        return 0;
    }
    ag_json_open(view->json, "program_mappings", '{');
    ag_json_integer(view->json, "peak_bytes", note.peak_bytes);
    ag_json_bool(view->json, "without_access", note.with_reserved);
    ag_json_frame(view->json, ag_profile_frame(note.mappings, note.frame));
    ag_json_integer(view->json, "line_bytes", note.line_bytes);
    ag_json_close(view->json, '}');
    return 0;
}

/* ---- the view ---- */

/* Makes *RET_VIEW a copy of VIEW that shows the profile of the mappings. */
static int view_of_mappings(const struct ag_view *view, struct ag_view *ret_view) {
    *ret_view = *view;
    ret_view->is_of_mappings = true;
    return ag_profile_mappings(view->profile, &ret_view->profile, view->message);
}

/* With --by=function (the default), text shows one source line of the program for each stack, as
 * the summary does; JSON shows the whole stacks. */
static bool shows_stacks(const struct ag_view *view) {
    return view->options->by == AG_BY_STACK ||
           (view->options->by == AG_BY_FUNCTION && view->options->is_json);
}

void ag_mappings_numbers_json(const struct ag_view *view, const struct ag_metrics *metrics) {
    ag_json_metrics(view, metrics);
    ag_json_integer(view->json, "n_mappings", metrics->allocated_blocks);
    ag_json_integer(view->json, "mapped_bytes", metrics->in_use_bytes);
}

int ag_mappings_view_json(struct ag_view *whole) {
    struct ag_view view;
    int r = view_of_mappings(whole, &view);
    if (r < 0) {
        return r;
    }
    if (shows_stacks(&view)) {
        return ag_stacks_view_json(&view);
    }
    struct ag_sites_ranked sites;
    r = ag_sites_rank(&view, AG_SITES_WITH_OWN, &sites);
    if (r < 0) {
        return r;
    }
    ag_json_open(view.json, "total", '{');
    ag_mappings_numbers_json(&view, ag_profile_total(view.profile));
    ag_json_close(view.json, '}');
    ag_json_open(view.json, "mappings", '[');
    for (size_t i = 0; i < sites.ranking.count && i < view.limit; i++) {
        const struct ag_site_row *row = &sites.rows[sites.ranking.ranks[i].row];
        ag_json_open(view.json, NULL, '{');
        ag_sites_key_json(&view, row);
        ag_mappings_numbers_json(&view, &row->own);
        ag_json_close(view.json, '}');
    }
    ag_json_close(view.json, ']');
    ag_sites_ranked_end(&sites);
    return 0;
}

/* ---- text ---- */

void ag_mappings_amounts_text(struct ag_page *page, size_t indent,
                              const struct ag_metrics *metrics) {
    struct ag_quantity number, count;
    char text[128];
    snprintf(text, sizeof text, "%s at the peak", ag_quantity_bytes(&number, metrics->peak_bytes));
    ag_page_wrap(page, AG_STYLE_BRIGHT, indent, text);
    snprintf(text, sizeof text, ", %s at the end; ",
             ag_quantity_bytes(&number, metrics->in_use_bytes));
    ag_page_wrap(page, AG_STYLE_PLAIN, indent, text);
    snprintf(text, sizeof text, "%s in %s mapping%s in all",
             ag_quantity_bytes(&number, metrics->allocated_bytes),
             ag_quantity_count(&count, metrics->allocated_blocks),
             metrics->allocated_blocks == 1 ? "" : "s");
    ag_page_wrap(page, AG_STYLE_PLAIN, indent, text);
}

/* Writes how much of the peak is mapped files, and how much was mapped without access. */
static void write_kinds(struct ag_view *view) {
    const struct ag_stack_row *rows;
    const size_t n_rows = ag_profile_stacks(view->profile, &rows);
    const struct ag_mapping_kinds kinds = ag_mapping_kinds_at_peak(rows, n_rows);
    struct ag_quantity bytes;
    const char *separator = "  of these ";
    if (kinds.file_bytes > 0) {
        ag_page_print(view->page, AG_STYLE_DIM, "%s%s of files", separator,
                      ag_quantity_bytes(&bytes, kinds.file_bytes));
        separator = ", ";
    }
    if (kinds.without_access_bytes > 0) {
        ag_page_print(view->page, AG_STYLE_DIM, "%s%s mapped without access", separator,
                      ag_quantity_bytes(&bytes, kinds.without_access_bytes));
        separator = ", ";
    }
    if (*separator == ',') {
        ag_page_end_line(view->page);
    }
}

enum { AMOUNTS = 3 };
static const enum ag_metric amounts[AMOUNTS] = {AG_METRIC_PEAK_BYTES, AG_METRIC_IN_USE_BYTES,
                                                AG_METRIC_ALLOCATED_BYTES};

static void add_row(struct ag_table *table, struct ag_view *view, const struct ag_site_row *row,
                    const struct ag_unit units[AMOUNTS], uint64_t whole) {
    struct ag_quantity number;
    ag_table_cell(table, ag_quantity_share(&number, ag_metric_of(&row->own, view->sort), whole));
    for (size_t i = 0; i < AMOUNTS; i++) {
        ag_table_cell(table,
                      ag_quantity_in(&number, ag_metric_of(&row->own, amounts[i]), units[i]));
    }
    ag_table_cell(table, ag_quantity_count(&number, row->own.allocated_blocks));
    ag_table_key_cells(table, view->options->by, row->label,
                       ag_profile_frame(view->profile, row->frame));
}

static int write_table(struct ag_view *view) {
    static const char *const words[AMOUNTS] = {"peak", "end", "in all"};
    struct ag_sites_ranked sites;
    int r = ag_sites_rank(
        view, view->options->by == AG_BY_FUNCTION ? AG_SITES_BLAMED : AG_SITES_WITH_OWN, &sites);
    if (r < 0) {
        return r;
    }
    const struct ag_metrics *total = ag_profile_total(view->profile);
    const bool has_where =
        !ag_site_key_is_named(view->options->by) && view->options->by != AG_BY_IMAGE;
    struct ag_unit units[AMOUNTS];
    char heads[AMOUNTS][32];
    struct ag_column columns[AMOUNTS + 4] = {{.head = "share"}};
    for (size_t i = 0; i < AMOUNTS; i++) {
        units[i] = ag_unit_of_bytes(ag_metric_of(total, amounts[i]));
        snprintf(heads[i], sizeof heads[i], "%s %s", words[i], units[i].name);
        columns[1 + i] = (struct ag_column){.head = heads[i], .style = AG_STYLE_BRIGHT};
    }
    columns[AMOUNTS + 1] = (struct ag_column){.head = "mappings", .spare = 1};
    columns[AMOUNTS + 2] = (struct ag_column){.head = ag_report_key_name(view->options->by),
                                              .align = AG_ALIGN_LEFT,
                                              .style = AG_STYLE_BRIGHT,
                                              .least_columns = 16};
    columns[AMOUNTS + 3] = (struct ag_column){.head = has_where ? "where" : "",
                                              .align = AG_ALIGN_LEFT,
                                              .style = AG_STYLE_DIM,
                                              .least_columns = 12};
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof *columns);
    uint64_t shown = 0;
    const uint64_t whole = ag_metric_of(total, view->sort);
    for (size_t i = 0; i < sites.ranking.count && i < view->limit; i++) {
        const struct ag_site_row *row = &sites.rows[sites.ranking.ranks[i].row];
        add_row(table, view, row, units, whole);
        shown += ag_metric_of(&row->own, view->sort);
    }
    r = ag_ranking_write_table(&sites.ranking, view->limit, table, view->page, "more",
                               whole - shown, whole);
    ag_sites_ranked_end(&sites);
    return r;
}

int ag_mappings_view_text(struct ag_view *whole) {
    enum { INDENT = 2 };
    struct ag_view view;
    int r = view_of_mappings(whole, &view);
    if (r < 0) {
        return r;
    }
    const struct ag_metrics *total = ag_profile_total(view.profile);
    if (total->allocated_blocks == 0 && total->in_use_blocks == 0) {
        ag_page_prose(view.page, AG_STYLE_PLAIN,
                      "no mappings: no selected stack mapped memory with mmap, mremap, brk or "
                      "sbrk; mappings that malloc makes are not recorded");
        return 0;
    }
    ag_page_wrap(view.page, AG_STYLE_PLAIN, INDENT, "mapped by the program itself: ");
    ag_mappings_amounts_text(view.page, INDENT, total);
    ag_page_end_line(view.page);
    write_kinds(&view);
    ag_page_end_line(view.page);
    return shows_stacks(&view) ? ag_stacks_view_text(&view) : write_table(&view);
}
