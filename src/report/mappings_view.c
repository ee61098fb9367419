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
    struct ag_quantity bytes;
    const int r = find_note(view, &note);
    if (r == 0 && note.is_there) { /* the finding about this memory names the line that mapped the
                                    * largest part of it */
        ag_page_prose(view->page, AG_STYLE_PLAIN,
                      "  mapped by the program itself: %s at the peak of the mappings%s; see "
                      "--view=mappings",
                      ag_quantity_bytes(&bytes, note.peak_bytes),
                      note.with_reserved ? " (some of it without access at first)" : "");
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

/* With --by=function (the default), text shows the blamed lines (model/answers/blamed_lines.h), as
 * the summary does; JSON shows the whole stacks. */
static bool shows_stacks(const struct ag_view *view) {
    return view->options->by == AG_BY_STACK ||
           (view->options->by == AG_BY_FUNCTION && view->options->is_json);
}

/* How much more was mapped at the end than in the middle of the time that is shown. */
static int64_t growth_of(const struct ag_metrics *metrics) {
    return (int64_t)(metrics->in_use_bytes - metrics->half_way_bytes);
}

static const char *growth_text(struct ag_quantity *buffer, const struct ag_metrics *metrics,
                               const struct ag_unit *unit) {
    struct ag_quantity number;
    const int64_t growth = growth_of(metrics);
    const uint64_t size = growth < 0 ? -(uint64_t)growth : (uint64_t)growth;
    snprintf(buffer->text, sizeof buffer->text, "%s%.30s",
             growth > 0   ? "+"
             : growth < 0 ? "-"
                          : "",
             unit != NULL ? ag_quantity_in(&number, size, *unit)
                          : ag_quantity_bytes(&number, size));
    return buffer->text;
}

void ag_mappings_numbers_json(const struct ag_view *view, const struct ag_metrics *metrics) {
    ag_json_metrics(view, metrics);
    ag_json_integer(view->json, "n_mappings", metrics->allocated_blocks);
    ag_json_integer(view->json, "mapped_bytes", metrics->in_use_bytes);
    const struct ag_mapping_facts facts = ag_profile_mapping_facts(view->profile);
    if (facts.knows_growth) {
        ag_json_signed(view->json, "growth_bytes", growth_of(metrics));
    } else {
        ag_json_null(view->json, "growth_bytes");
    }
    ag_json_integer_if(view->json, "resident_bytes", metrics->resident_bytes, facts.knows_resident);
    ag_json_integer_if(view->json, "untouched_bytes", metrics->untouched_bytes,
                       facts.knows_resident);
}

int ag_mappings_view_json(struct ag_view *whole) {
    struct ag_view view;
    int r = view_of_mappings(whole, &view);
    if (r < 0) {
        return r;
    }
    const struct ag_mapping_facts facts = ag_profile_mapping_facts(view.profile);
    ag_json_integer_if(view.json, "resident_time_ns", facts.moment_ns,
                       facts.moment_ns != UINT64_MAX);
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

void ag_mappings_amounts_text(const struct ag_view *view, size_t indent,
                              const struct ag_metrics *metrics) {
    struct ag_page *page = view->page;
    struct ag_quantity number, count;
    const struct ag_mapping_facts facts = ag_profile_mapping_facts(view->profile);
    char text[256];
    snprintf(text, sizeof text, "%s at the peak", ag_quantity_bytes(&number, metrics->peak_bytes));
    ag_page_wrap(page, AG_STYLE_BRIGHT, indent, text);
    int used = snprintf(text, sizeof text, ", %s at the end",
                        ag_quantity_bytes(&number, metrics->in_use_bytes));
    if (facts.knows_growth && growth_of(metrics) != 0) {
        used += snprintf(text + used, sizeof text - (size_t)used, " (%s in the second half)",
                         growth_text(&number, metrics, /* unit= */ NULL));
    }
    if (facts.knows_resident) {
        used += snprintf(text + used, sizeof text - (size_t)used, ", %s resident, %s untouched",
                         ag_quantity_bytes(&number, metrics->resident_bytes),
                         ag_quantity_bytes(&count, metrics->untouched_bytes));
    }
    snprintf(text + used, sizeof text - (size_t)used, "; %s in %s mapping%s in all",
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

/* Writes at which time the resident memory was counted, or that it is not known. */
static void write_moment(struct ag_view *view) {
    const struct ag_mapping_facts facts = ag_profile_mapping_facts(view->profile);
    struct ag_quantity time;
    if (facts.moment_ns != UINT64_MAX) {
        ag_page_prose(
            view->page, AG_STYLE_DIM,
            "  resident: at %s, when resident memory was near its peak; untouched: mapped at "
            "that time, but not resident",
            ag_quantity_time(&time, facts.moment_ns));
    } else if (!facts.knows_resident) {
        ag_page_prose(view->page, AG_STYLE_DIM,
                      "  how much of this was resident is not in the trace, or not in this time "
                      "window");
    }
}

/* The columns with bytes. */
enum amount {
    AMOUNT_PEAK,
    AMOUNT_END,
    AMOUNT_GROWTH,
    AMOUNT_RESIDENT,
    AMOUNT_UNTOUCHED,
    AMOUNT_ALL,
    AMOUNTS
};

static uint64_t amount_of(const struct ag_metrics *metrics, enum amount amount) {
    switch (amount) {
    case AMOUNT_PEAK:
        return metrics->peak_bytes;
    case AMOUNT_END:
        return metrics->in_use_bytes;
    case AMOUNT_GROWTH: /* the unit of its column is that of the bytes at the end */
        return metrics->in_use_bytes;
    case AMOUNT_RESIDENT:
        return metrics->resident_bytes;
    case AMOUNT_UNTOUCHED:
        return metrics->untouched_bytes;
    case AMOUNT_ALL:
        return metrics->allocated_bytes;
    case AMOUNTS:
        break;
    }
    return 0;
}

static bool is_shown(const struct ag_mapping_facts *facts, enum amount amount) {
    switch (amount) {
    case AMOUNT_GROWTH:
        return facts->knows_growth;
    case AMOUNT_RESIDENT:
    case AMOUNT_UNTOUCHED:
        return facts->knows_resident;
    case AMOUNT_ALL: /* a page has no room for all columns */
        return !facts->knows_resident;
    case AMOUNT_PEAK:
    case AMOUNT_END:
    case AMOUNTS:
        break;
    }
    return true;
}

static void add_row(struct ag_table *table, struct ag_view *view, const struct ag_site_row *row,
                    const struct ag_mapping_facts *facts, const struct ag_unit units[AMOUNTS],
                    uint64_t whole) {
    struct ag_quantity number;
    ag_table_cell(table, ag_quantity_share(&number, ag_metric_of(&row->own, view->sort), whole));
    for (enum amount i = 0; i < AMOUNTS; i++) {
        if (is_shown(facts, i)) {
            ag_table_cell(table, i == AMOUNT_GROWTH
                                     ? growth_text(&number, &row->own, &units[i])
                                     : ag_quantity_in(&number, amount_of(&row->own, i), units[i]));
        }
    }
    if (is_shown(facts, AMOUNT_ALL)) {
        ag_table_cell(table, ag_quantity_count(&number, row->own.allocated_blocks));
    }
    ag_table_key_cells(table, view->options->by, row->label,
                       ag_profile_frame(view->profile, row->frame));
}

static int write_table(struct ag_view *view) {
    static const struct {
        const char *word;
        unsigned spare;
    } heads[AMOUNTS] = {[AMOUNT_PEAK] = {"peak", 0},           [AMOUNT_END] = {"end", 0},
                        [AMOUNT_GROWTH] = {"growth", 2},       [AMOUNT_RESIDENT] = {"resident", 0},
                        [AMOUNT_UNTOUCHED] = {"untouched", 1}, [AMOUNT_ALL] = {"in all", 3}};
    const struct ag_mapping_facts facts = ag_profile_mapping_facts(view->profile);
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
    char texts[AMOUNTS][32];
    struct ag_column columns[AMOUNTS + 4] = {{.head = "share"}};
    size_t n_columns = 1;
    for (enum amount i = 0; i < AMOUNTS; i++) {
        units[i] = ag_unit_of_bytes(amount_of(total, i));
        snprintf(texts[i], sizeof texts[i], "%s %s", heads[i].word, units[i].name);
        if (is_shown(&facts, i)) {
            columns[n_columns++] = (struct ag_column){
                .head = texts[i], .style = AG_STYLE_BRIGHT, .spare = heads[i].spare};
        }
    }
    if (is_shown(&facts, AMOUNT_ALL)) {
        columns[n_columns++] = (struct ag_column){.head = "mappings", .spare = 4};
    }
    columns[n_columns++] = (struct ag_column){.head = ag_report_key_name(view->options->by),
                                              .align = AG_ALIGN_LEFT,
                                              .style = AG_STYLE_BRIGHT,
                                              .least_columns = 16};
    columns[n_columns++] = (struct ag_column){.head = has_where ? "where" : "",
                                              .align = AG_ALIGN_LEFT,
                                              .style = AG_STYLE_DIM,
                                              .least_columns = 12};
    struct ag_table *table = ag_table_new(columns, n_columns);
    uint64_t shown = 0;
    const uint64_t whole = ag_metric_of(total, view->sort);
    for (size_t i = 0; i < sites.ranking.count && i < view->limit; i++) {
        const struct ag_site_row *row = &sites.rows[sites.ranking.ranks[i].row];
        add_row(table, view, row, &facts, units, whole);
        shown += ag_metric_of(&row->own, view->sort);
    }
    r = ag_ranking_write_table(&sites.ranking, view->limit, table, view->page, /* what= */ NULL,
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
                      "sbrk; mappings of malloc and of other recorded allocators are not shown");
        return 0;
    }
    ag_page_wrap(view.page, AG_STYLE_PLAIN, INDENT, "mapped by the program itself: ");
    ag_mappings_amounts_text(&view, INDENT, total);
    ag_page_end_line(view.page);
    write_kinds(&view);
    write_moment(&view);
    ag_page_end_line(view.page);
    return shows_stacks(&view) ? ag_stacks_view_text(&view) : write_table(&view);
}
