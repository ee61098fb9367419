/* explanation.c: `allogram explain`: what a person, or a program that reads text, needs to know of
 * a trace first, in at most AG_EXPLAIN_LINES lines of text or AG_EXPLAIN_BYTES bytes of JSON.
 *
 * All numbers, lines and findings are those of the summary (summary_view.c), and each finding has
 * the command that shows more. So this file only chooses how much is shown. It writes the whole
 * text, or the whole object, into memory, with several levels of detail one after another, until
 * the result is short enough. The last level has only numbers and names of limited length, so that
 * it is always short enough. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/findings.h"
#include "model/answers/functions.h"
#include "report/view.h"
#include "text/shell_word.h"

struct level {
    size_t n_findings, n_missing;
    uint64_t most_rows, fewer_rows; /* of the first table, and of each further one */
    size_t name_columns;            /* longer names are shortened */
};
static const struct level levels[] = {
    {3, 6, 5, 3, 120}, {3, 4, 3, 2, 80}, {3, 2, 3, 0, 48}, {1, 1, 1, 0, 32}, {0}};

/* ---- what is missing ---- */

struct missing {
    char *lines[8];
    size_t count, all;
};

static void keep_line(void *context, const char *line) {
    struct missing *missing = context;
    char *kept =
        missing->count < sizeof missing->lines / sizeof *missing->lines ? strdup(line) : NULL;
    missing->all++;
    if (kept != NULL) {
        missing->lines[missing->count++] = kept;
    }
}

static void forget_lines(struct missing *missing) {
    for (size_t i = 0; i < missing->count; i++) {
        free(missing->lines[i]);
    }
}

/* ---- text ---- */

static void write_finding_text(struct ag_view *view, const struct level *level, size_t number,
                               const struct ag_finding *finding) {
    enum { INDENT = 4 };
    struct ag_page *page = view->page;
    struct ag_finding_words words;
    struct ag_frame_text name;
    struct ag_fitted fitted;
    char file[1024];
    ag_finding_describe(view->profile, finding, &words);
    ag_page_print(page, AG_STYLE_BRIGHT, "%2zu  %s", number, words.kind);
    if (words.frame != NULL) {
        (void)ag_page_fit(&fitted, ag_frame_function(&name, words.frame), level->name_columns);
        ag_page_print(page, AG_STYLE_BRIGHT, " in %s", fitted.text);
        (void)ag_page_fit(&fitted,
                          words.frame->file != NULL ? words.frame->file
                                                    : ag_frame_where(&name, words.frame),
                          level->name_columns);
        ag_page_print(page, AG_STYLE_PLAIN, " at %s", fitted.text);
        if (words.frame->file != NULL) {
            ag_page_print(page, AG_STYLE_PLAIN, ":%" PRIu32, words.frame->line);
        }
    }
    ag_page_end_line(page);
    ag_page_spaces(page, INDENT);
    ag_page_wrap(page, AG_STYLE_PLAIN, INDENT, words.words);
    ag_page_end_line(page);
    (void)ag_page_fit(&fitted,
                      ag_shell_word(ag_profile_identity(view->profile)->file, file, sizeof file),
                      AG_PAGE_MOST_COLUMNS);
    ag_page_print(page, AG_STYLE_DIM, "    -> allogram report %s %s\n", fitted.text, words.options);
}

static void write_findings_text(struct ag_view *view, const struct level *level,
                                const struct ag_findings *findings) {
    ag_page_end_line(view->page);
    for (size_t i = 0; i < findings->count && i < level->n_findings; i++) {
        write_finding_text(view, level, i + 1, &findings->rows[i]);
    }
    if (findings->count > level->n_findings) {
        ag_page_print(view->page, AG_STYLE_DIM, "%zu more findings\n",
                      findings->count - level->n_findings);
    } else if (findings->count == 0 && ag_profile_identity(view->profile)->is_sampled) {
        ag_page_text(
            view->page, AG_STYLE_PLAIN,
            "no findings: most kinds need a recording of every allocation (--mode=exact)\n");
    } else if (findings->count == 0) {
        ag_page_prose(
            view->page, AG_STYLE_PLAIN,
            "no findings: nothing exceeds the limits that docs/reference/report-schema.md "
            "lists, such as a leak, many temporary blocks, or 40 %% of the peak");
    }
    if (findings->is_partial) {
        ag_page_text(view->page, AG_STYLE_DIM,
                     "only sums were examined; --findings examines every event\n");
    }
}

/* Writes a table of the blamed lines with the largest METRIC; nothing if METRIC is 0 for the whole
 * trace. */
static int write_lines_text(const struct ag_view *view, enum ag_metric metric, uint64_t n_rows) {
    struct ag_view table = *view;
    table.sort = metric;
    table.limit = n_rows;
    if (n_rows == 0 || ag_metric_of(ag_profile_total(view->profile), metric) == 0) {
        return 0;
    }
    ag_page_end_line(view->page);
    return ag_sites_write_text(&table, AG_SITES_BLAMED);
}

static int write_tables_text(struct ag_view *view, const struct level *level) {
    struct ag_view table = *view;
    bool has_words = false;
    int r = ag_summary_has_words_apart(view, &has_words);
    table.limit = level->most_rows;
    if (r == 0 && has_words && level->most_rows > 0) {
        ag_page_end_line(view->page);
        r = ag_functions_view_text(&table);
    } else if (r == 0) {
        r = write_lines_text(view, AG_METRIC_ALLOCATED_BYTES, level->most_rows);
    }
    r = r < 0 ? r : write_lines_text(view, AG_METRIC_PEAK_BYTES, level->fewer_rows);
    return r < 0 ? r : write_lines_text(view, AG_METRIC_IN_USE_BYTES, level->fewer_rows);
}

static void write_missing_text(struct ag_page *page, const struct level *level,
                               const struct missing *missing) {
    for (size_t i = 0; i < missing->count && i < level->n_missing; i++) {
        ag_page_prose(page, AG_STYLE_WARNING, "%s", missing->lines[i]);
    }
    if (missing->all > level->n_missing) {
        ag_page_print(page, AG_STYLE_WARNING, "and %zu more notes on what is missing\n",
                      missing->all - level->n_missing);
    }
}

static int write_text(struct ag_view *view, const struct level *level,
                      const struct ag_findings *findings, const struct missing *missing) {
    char file[1024];
    struct ag_fitted fitted;
    write_missing_text(view->page, level, missing);
    int r = 0;
    if (level->n_findings > 0) {
        ag_heading_text(view->page, view->profile, NULL, false);
        r = ag_summary_facts_text(view);
    }
    write_findings_text(view, level, findings);
    r = r < 0 ? r : write_tables_text(view, level);
    (void)ag_page_fit(&fitted,
                      ag_shell_word(ag_profile_identity(view->profile)->file, file, sizeof file),
                      AG_PAGE_MOST_COLUMNS);
    ag_page_end_line(view->page);
    ag_page_print(view->page, AG_STYLE_DIM,
                  "-> allogram report %s --view=peak (or leaks, temporary, tree, lifetimes)\n",
                  fitted.text);
    return r;
}

/* ---- JSON ---- */

static void fitted_json(struct ag_json *json, const char *key, const char *text, size_t columns) {
    struct ag_fitted fitted;
    if (text == NULL) {
        ag_json_null(json, key);
        return;
    }
    (void)ag_page_fit(&fitted, text, columns);
    ag_json_string(json, key, fitted.text);
}

static void frame_json(struct ag_json *json, const struct level *level,
                       const struct ag_frame *frame) {
    fitted_json(json, "function", frame->function, level->name_columns);
    fitted_json(json, "file", frame->file, level->name_columns);
    ag_json_nonzero(json, "line", frame->line);
    if (frame->file == NULL) {
        fitted_json(json, "image", frame->image, level->name_columns);
    }
}

static void write_trace_json(const struct ag_view *view, const struct level *level) {
    struct ag_json *json = view->json;
    const struct ag_profile_identity *identity = ag_profile_identity(view->profile);
    const size_t columns = level->name_columns > 0 ? level->name_columns : 24;
    ag_json_open(json, "trace", '{');
    fitted_json(json, "file", identity->file, 2 * columns);
    ag_json_integer(json, "pid", identity->pid);
    ag_json_open(json, "command", '[');
    for (uint32_t i = 0; i < identity->n_arguments && i < level->most_rows; i++) {
        fitted_json(json, NULL, identity->arguments[i], columns);
    }
    ag_json_close(json, ']');
    ag_json_string(json, "mode", identity->mode);
    ag_json_integer(json, "duration_ns", ag_profile_recording_ns(view->profile));
    ag_json_string(json, "end", identity->end);
    struct ag_profile_kill kill = identity->kernel_kill;
    struct ag_fitted cgroup;
    if (kill.cgroup != NULL) {
        (void)ag_page_fit(&cgroup, kill.cgroup, 2 * columns);
        kill.cgroup = cgroup.text;
    }
    ag_kill_json(json, "kernel_kill", &kill);
    ag_json_close(json, '}');
}

/* Writes the command that shows more of a finding, with TRACE in place of a long path. */
static void write_command_json(const struct ag_view *view, const struct level *level,
                               const char *options) {
    char word[256], command[sizeof word + AG_FINDING_WORDS_BYTES + 32];
    const char *file = ag_profile_identity(view->profile)->file;
    const bool is_short = strlen(file) <= level->name_columns;
    (void)snprintf(command, sizeof command, "allogram report %s %s",
                   is_short ? ag_shell_word(file, word, sizeof word) : "TRACE", options);
    ag_json_string(view->json, "command", command);
}

static void write_findings_json(const struct ag_view *view, const struct level *level,
                                const struct ag_findings *findings) {
    struct ag_json *json = view->json;
    ag_json_open(json, "findings", '[');
    for (size_t i = 0; i < findings->count && i < level->n_findings; i++) {
        struct ag_finding_words words;
        ag_finding_describe(view->profile, &findings->rows[i], &words);
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "kind", words.kind);
        if (words.frame != NULL) {
            frame_json(json, level, words.frame);
        }
        ag_finding_numbers_json(json, &findings->rows[i]);
        ag_json_string(json, "text", words.words);
        write_command_json(view, level, words.options);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_integer(json, "n_findings", findings->count);
    ag_json_bool(json, "findings_complete", !findings->is_partial);
}

static int write_lines_json(const struct ag_view *view, const struct level *level, const char *key,
                            enum ag_metric metric, uint64_t n_rows) {
    struct ag_view table = *view;
    struct ag_sites_ranked sites;
    table.sort = metric;
    const int r = ag_sites_rank(&table, AG_SITES_BLAMED, &sites);
    if (r < 0) {
        return r;
    }
    ag_json_open(view->json, key, '[');
    for (size_t i = 0; i < sites.ranking.count && i < n_rows && sites.ranking.ranks[i].first > 0;
         i++) {
        const struct ag_site_row *row = &sites.rows[sites.ranking.ranks[i].row];
        ag_json_open(view->json, NULL, '{');
        frame_json(view->json, level, ag_profile_frame(view->profile, row->frame));
        ag_json_integer(view->json, ag_metric_name(metric), ag_metric_of(&row->own, metric));
        const enum ag_metric blocks = ag_metric_blocks_of(metric);
        ag_json_integer(view->json, ag_metric_name(blocks), ag_metric_of(&row->own, blocks));
        ag_json_close(view->json, '}');
    }
    ag_json_close(view->json, ']');
    ag_sites_ranked_end(&sites);
    return 0;
}

static int write_json(struct ag_view *view, const struct level *level,
                      const struct ag_findings *findings, const struct missing *missing) {
    struct ag_json *json = view->json;
    const struct ag_summary *summary = ag_profile_summary(view->profile);
    const struct ag_metrics all = ag_profile_sums(view->profile);
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "schema", "allogram-explain/1");
    write_trace_json(view, level);
    ag_json_open(json, "missing", '[');
    for (size_t i = 0; i < missing->count && i < level->n_missing; i++) {
        fitted_json(json, NULL, missing->lines[i], 2 * level->name_columns);
    }
    ag_json_close(json, ']');
    ag_json_integer(json, "n_missing", missing->all);
    ag_json_open(json, "summary", '{');
    ag_json_metric(view, "allocated_blocks", &all, AG_METRIC_ALLOCATED_BLOCKS);
    ag_json_metric(view, "allocated_bytes", &all, AG_METRIC_ALLOCATED_BYTES);
    ag_json_metric(view, "in_use_blocks_at_end", &all, AG_METRIC_IN_USE_BLOCKS);
    ag_json_metric(view, "in_use_bytes_at_end", &all, AG_METRIC_IN_USE_BYTES);
    ag_json_metric(view, "peak_bytes", &all, AG_METRIC_PEAK_BYTES);
    ag_json_metric(view, "peak_blocks", &all, AG_METRIC_PEAK_BLOCKS);
    ag_json_integer(json, "peak_time_ns", summary->peak_time_ns);
    ag_json_metric(view, "temporary_blocks", &all, AG_METRIC_TEMPORARY_BLOCKS);
    ag_json_integer(json, "rss_peak_bytes", summary->rss_peak_bytes);
    ag_json_integer(json, "threads", summary->threads);
    ag_json_integer(json, "lost_events", ag_heading_lost_events(view->profile));
    ag_json_close(json, '}');
    write_findings_json(view, level, findings);
    int r = write_lines_json(view, level, "allocated", AG_METRIC_ALLOCATED_BYTES, level->most_rows);
    r = r < 0 ? r : write_lines_json(view, level, "peak", AG_METRIC_PEAK_BYTES, level->fewer_rows);
    r = r < 0 ? r
              : write_lines_json(view, level, "in_use_at_end", AG_METRIC_IN_USE_BYTES,
                                 level->fewer_rows);
    ag_json_close(json, '}');
    return r;
}

/* ---- the bounds ---- */

static bool is_short_enough(const struct ag_report_options *options, const char *text, size_t n) {
    size_t n_lines = 0;
    for (size_t i = 0; i < n && !options->is_json; i++) {
        n_lines += text[i] == '\n';
    }
    return options->is_json ? n <= AG_EXPLAIN_BYTES : n_lines <= AG_EXPLAIN_LINES;
}

static int write_level(FILE *out, const struct ag_view *whole, const struct level *level,
                       const struct ag_findings *findings, const struct missing *missing) {
    struct ag_page page = *whole->page;
    struct ag_json json = {.out = out, .line_depth = 2};
    struct ag_view view = *whole;
    page.out = out;
    view.page = &page;
    view.json = &json;
    return view.options->is_json ? write_json(&view, level, findings, missing)
                                 : write_text(&view, level, findings, missing);
}

int ag_report_explain(FILE *out, const struct ag_report_options *options,
                      struct ag_profile *profile) {
    struct ag_report_options fixed = *options;
    fixed.columns = AG_PAGE_USUAL_COLUMNS; /* on a narrow page there would be more lines */
    struct ag_page page = ag_report_page(out, &fixed);
    page.has_no_limit_option = true;
    struct ag_view view = {.profile = profile, .options = &fixed, .page = &page};
    struct ag_findings findings = {.count = 0};
    struct missing missing = {.count = 0};
    int r = ag_profile_findings(
        profile, options->has_all_findings ? AG_FINDINGS_ALL : AG_FINDINGS_USUAL, &findings);
    ag_missing_lines(profile, keep_line, &missing);
    for (size_t i = 0; r == 0 && i < sizeof levels / sizeof *levels; i++) {
        char *text = NULL;
        size_t n = 0;
        FILE *kept = open_memstream(&text, &n);
        if (kept == NULL) {
            r = -ENOMEM;
            break;
        }
        r = write_level(kept, &view, &levels[i], &findings, &missing);
        r = fclose(kept) != 0 && r == 0 ? -ENOMEM : r;
        const bool is_last = r < 0 || is_short_enough(options, text, n);
        if (is_last && r == 0) {
            fwrite(text, 1, n, out);
        }
        free(text);
        if (is_last) {
            break;
        }
    }
    forget_lines(&missing);
    return r;
}
