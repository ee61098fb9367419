/* summary_view.c: `report`, which shows the summary: how much was allocated, the peak, what was in
 * use at the end, what was lost, the lines that allocate most, and findings that suggest where to
 * look next. */
#include <string.h>

#include "model/answers/functions.h"
#include "report/quantity.h"
#include "report/view.h"

/* Returns which share (0 to 1) of the allocations that the runtime itself counted was recorded. The
 * share is also 1 if more was recorded than the runtime counted. */
static double coverage_of(const struct ag_profile_runtime *runtime) {
    return runtime->recorded >= runtime->counted
               ? 1.0
               : (double)runtime->recorded / (double)runtime->counted;
}

static void write_runtimes_json(struct ag_view *view) {
    const struct ag_profile_runtime *runtimes;
    size_t count = ag_profile_runtimes(view->profile, &runtimes);
    ag_json_open(view->json, "runtimes", '[');
    for (size_t i = 0; i < count; i++) {
        ag_json_open(view->json, NULL, '{');
        ag_json_string(view->json, "name", runtimes[i].name);
        ag_json_string(view->json, "version", runtimes[i].version);
        ag_json_bool(view->json, "hooked", runtimes[i].hooked);
        if (runtimes[i].counted != 0) {
            ag_json_decimal(view->json, "coverage", coverage_of(&runtimes[i]), 6);
        } else {
            ag_json_null(view->json, "coverage"); /* the runtime does not count its allocations */
        }
        ag_json_string(view->json, "note", runtimes[i].note);
        ag_json_close(view->json, '}');
    }
    ag_json_close(view->json, ']');
}

static int write_recording_json(struct ag_view *view) {
    struct ag_json *json = view->json;
    ag_json_open(json, "lost_events", '{');
    ag_json_integer(json, "total", ag_heading_lost_events(view->profile));
    for (uint32_t cause = 0; ag_profile_lost_name(cause) != NULL; cause++) {
        ag_json_integer(json, ag_profile_lost_name(cause), ag_profile_lost(view->profile, cause));
    }
    ag_json_close(json, '}');
    write_runtimes_json(view);
    const int r = ag_gc_summary_json(view);
    const struct ag_profile_cost *cost = ag_profile_cost(view->profile);
    ag_json_open(json, "profiler", '{');
    ag_json_integer(json, "rss_bytes", cost->rss_bytes);
    ag_json_integer(json, "cpu_ns", cost->cpu_ns);
    ag_json_integer(json, "target_cpu_ns", cost->target_cpu_ns);
    ag_json_integer(json, "waited_ns", cost->waited_ns);
    ag_json_integer(json, "waits", cost->n_waits);
    if (ag_profile_identity(view->profile)->is_sampled) {
        const struct ag_profile_sampler *sampler = ag_profile_sampler(view->profile);
        ag_json_integer(json, "sampler_ns", sampler->cpu_ns);
        ag_json_percent(json, "budget_percent", sampler->budget_percent);
        ag_json_integer(json, "least_interval_bytes", sampler->least_interval_bytes);
        ag_json_integer(json, "most_interval_bytes", sampler->most_interval_bytes);
    }
    ag_json_close(json, '}');
    return r;
}

/* Finds the time at which the resident memory was largest. Returns false if the time is not known:
 * if the kernel counted the maximum (rss_peak_bytes) between two points of the timeline; or, in a
 * time window, if the first point has the maximum, because this point may have the size of a sample
 * before the window. */
static bool find_rss_peak(const struct ag_view *view, uint64_t *ret_time_ns) {
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(view->profile, &points);
    const uint64_t most = ag_profile_summary(view->profile)->rss_peak_bytes;
    for (size_t i = 0; i < n && most > 0; i++) {
        if (points[i].rss_bytes == most) {
            if (i == 0 && view->options->has_window) {
                break;
            }
            *ret_time_ns = points[i].time_ns;
            return true;
        }
    }
    return false;
}

int ag_summary_view_json(struct ag_view *view) {
    struct ag_json *json = view->json;
    const struct ag_summary *summary = ag_profile_summary(view->profile);
    const bool is_sampled = ag_profile_identity(view->profile)->is_sampled;
    const struct ag_metrics all = ag_profile_sums(view->profile);
    ag_json_metric(view, "allocated_blocks", &all, AG_METRIC_ALLOCATED_BLOCKS);
    ag_json_metric(view, "allocated_bytes", &all, AG_METRIC_ALLOCATED_BYTES);
    ag_json_metric(view, "freed_blocks", &all, AG_METRIC_FREED_BLOCKS);
    ag_json_metric(view, "freed_bytes", &all, AG_METRIC_FREED_BYTES);
    ag_json_metric(view, "in_use_blocks_at_end", &all, AG_METRIC_IN_USE_BLOCKS);
    ag_json_metric(view, "in_use_bytes_at_end", &all, AG_METRIC_IN_USE_BYTES);
    ag_json_metric(view, "peak_bytes", &all, AG_METRIC_PEAK_BYTES);
    /* The order of events of different threads is not always known, so the peak lies in a range. */
    if (summary->threads > 1 && !is_sampled) {
        ag_json_range(json, "peak_bytes_range", summary->peak_low_bytes, summary->peak_high_bytes);
    }
    ag_json_metric(view, "peak_blocks", &all, AG_METRIC_PEAK_BLOCKS);
    ag_json_integer(json, "peak_time_ns", summary->peak_time_ns);
    ag_json_metric(view, "temporary_blocks", &all, AG_METRIC_TEMPORARY_BLOCKS);
    ag_json_integer(json, "ghost_frees", summary->ghost_frees);
    ag_json_integer(json, "inherited_frees", summary->inherited_frees);
    ag_json_integer(json, "unique_stacks", summary->unique_stacks);
    ag_json_integer(json, "truncated_stacks", summary->truncated_stacks);
    ag_json_integer(json, "incomplete_stacks", summary->incomplete_stacks);
    const struct ag_metrics incomplete = ag_profile_incomplete(view->profile);
    ag_json_metric(view, "incomplete_blocks", &incomplete, AG_METRIC_ALLOCATED_BLOCKS);
    ag_json_metric(view, "incomplete_bytes", &incomplete, AG_METRIC_ALLOCATED_BYTES);
    ag_json_integer(json, "order_repairs", summary->order_repairs);
    ag_json_integer(json, "threads", summary->threads);
    ag_json_integer(json, "rss_peak_bytes", summary->rss_peak_bytes);
    uint64_t rss_peak_ns = 0;
    const bool knows_rss_peak = find_rss_peak(view, &rss_peak_ns);
    ag_json_integer_if(json, "rss_peak_time_ns", rss_peak_ns, knows_rss_peak);
    int r = ag_mappings_summary_json(view);
    r = r < 0 ? r : write_recording_json(view);
    r = r < 0 ? r : ag_cpu_summary_json(view);
    r = r < 0 ? r : ag_findings_json(view);
    const char *const *problems; /* written after the findings, because looking up the names in
                                  * findings can add problems */
    const size_t n_problems = ag_profile_problems(view->profile, &problems);
    ag_json_strings(json, "problems", problems, n_problems);
    return r;
}

/* ---- text: two columns of facts, bytes in use over time, the lines that allocate most, and
 * findings ---- */

/* Writes two facts side by side, or one below the other on a narrow page. Estimates take more
 * columns, because their uncertainty is beside them. */
static void write_pair(struct ag_view *view, const char *left, const char *right) {
    enum { LEFT_COLUMNS = 51, RIGHT_COLUMNS = 49, ESTIMATE_COLUMNS = 14 };
    struct ag_page *page = view->page;
    const bool is_sampled = ag_profile_identity(view->profile)->is_sampled;
    const bool is_wide =
        page->columns >= LEFT_COLUMNS + RIGHT_COLUMNS + (is_sampled ? ESTIMATE_COLUMNS : 0);
    ag_page_text(page, AG_STYLE_PLAIN, left);
    if (is_wide) {
        size_t taken = ag_page_columns_of(left);
        ag_page_spaces(page, taken < LEFT_COLUMNS ? LEFT_COLUMNS - taken : 1);
    } else {
        ag_page_end_line(page);
        ag_page_spaces(page, 2);
    }
    ag_page_text(page, AG_STYLE_PLAIN, right);
    ag_page_end_line(page);
}

/* Formats a line such as "allocated       12,704,112 blocks      1.02 GiB". */
static const char *amount_line(struct ag_frame_text *line, const char *indent, int name_columns,
                               const char *name, const struct ag_metrics *all,
                               enum ag_metric bytes) {
    struct ag_quantity count, amount, spread;
    ag_quantity_spread(&spread, all, bytes);
    const uint64_t n_blocks = ag_metric_of(all, ag_metric_blocks_of(bytes));
    snprintf(line->text, sizeof line->text, "%s%-*s %10s %-6s %11s%s%s", indent, name_columns, name,
             ag_quantity_count(&count, n_blocks), ag_blocks_word(n_blocks),
             ag_quantity_bytes(&amount, ag_metric_of(all, bytes)), *spread.text != '\0' ? " " : "",
             spread.text);
    return line->text;
}

/* Writes the range of the peak, unless both bounds are the same text. */
static void write_peak_range(struct ag_page *page, const struct ag_summary *summary) {
    enum { ONE_LINE_COLUMNS = 90 };
    struct ag_quantity first, second;
    const char *low = ag_quantity_bytes(&first, summary->peak_low_bytes),
               *high = ag_quantity_bytes(&second, summary->peak_high_bytes);
    if (strcmp(low, high) == 0) {
        return;
    }
    ag_page_print(page, AG_STYLE_DIM, "    peak between %s and %s:", low, high);
    if (page->columns < ONE_LINE_COLUMNS) {
        ag_page_end_line(page);
        ag_page_spaces(page, 3);
    }
    ag_page_text(page, AG_STYLE_DIM, " the order of events of several threads is not certain\n");
}

/* Writes how long the program's threads waited for the writer process, if it is enough to be
 * noticed: a hundredth of the duration, and at least WAITED_LEAST_NS. */
static void write_waiting(struct ag_view *view) {
    enum { WAITED_LEAST_NS = 10 * 1000 * 1000 };
    const struct ag_profile_cost *cost = ag_profile_cost(view->profile);
    const uint64_t duration_ns = ag_profile_summary(view->profile)->duration_ns;
    struct ag_quantity waited, duration;
    if (cost->waited_ns >= WAITED_LEAST_NS && cost->waited_ns >= duration_ns / 100) {
        ag_page_prose(
            view->page, AG_STYLE_PLAIN,
            "  waited for allogram: the program's threads together waited %s for the process that "
            "writes the trace (the recording took %s); --mode=sample avoids this",
            ag_quantity_time(&waited, cost->waited_ns), ag_quantity_time(&duration, duration_ns));
    }
}

static void write_facts(struct ag_view *view, const struct ag_summary *summary) {
    enum { LEFT_NAME = 15, RIGHT_NAME = 18 };
    struct ag_page *page = view->page;
    struct ag_frame_text left, right;
    struct ag_quantity number, other;
    const struct ag_metrics all = ag_profile_sums(view->profile);
    write_pair(
        view, amount_line(&left, "  ", LEFT_NAME, "allocated", &all, AG_METRIC_ALLOCATED_BYTES),
        amount_line(&right, "", RIGHT_NAME, "in use at the end", &all, AG_METRIC_IN_USE_BYTES));
    if (ag_profile_identity(view->profile)->is_sampled) {
        snprintf(right.text, sizeof right.text, "%-*s not known from samples", RIGHT_NAME,
                 "temporary");
    } else {
        snprintf(right.text, sizeof right.text, "%-*s %10s %-6s %11s", RIGHT_NAME, "temporary",
                 ag_quantity_short(&number, summary->temporary_blocks),
                 ag_blocks_word(summary->temporary_blocks),
                 ag_quantity_share(&other, summary->temporary_blocks, summary->allocated_blocks));
    }
    write_pair(view, amount_line(&left, "  ", LEFT_NAME, "freed", &all, AG_METRIC_FREED_BYTES),
               right.text);
    /* a recording that the program starts itself (allogram.h) does not contain the resident size */
    const bool is_known = summary->rss_peak_bytes > 0;
    const int used = snprintf(right.text, sizeof right.text, "at %s%s%s",
                              ag_quantity_time(&number, summary->peak_time_ns),
                              is_known ? "; resident at most " : "",
                              is_known ? ag_quantity_bytes(&other, summary->rss_peak_bytes) : "");
    uint64_t rss_peak_ns;
    if (find_rss_peak(view, &rss_peak_ns)) {
        snprintf(right.text + used, sizeof right.text - (size_t)used, " at %s",
                 ag_quantity_time(&number, rss_peak_ns));
    }
    write_pair(view, amount_line(&left, "  ", LEFT_NAME, "peak", &all, AG_METRIC_PEAK_BYTES),
               right.text);
    if (summary->peak_low_bytes != summary->peak_high_bytes) {
        write_peak_range(page, summary);
    }
    snprintf(left.text, sizeof left.text, "  %-*s %10s %10s cut", LEFT_NAME, "stacks",
             ag_quantity_count(&number, summary->unique_stacks),
             ag_quantity_count(&other, summary->truncated_stacks));
    snprintf(right.text, sizeof right.text, "%-*s %10s events", RIGHT_NAME, "lost",
             ag_quantity_count(&number, ag_heading_lost_events(view->profile)));
    write_pair(view, left.text, right.text);
    if (summary->incomplete_stacks != 0) {
        const struct ag_metrics incomplete = ag_profile_incomplete(view->profile);
        ag_page_text(page, AG_STYLE_PLAIN,
                     amount_line(&left, "  ", LEFT_NAME, "incomplete", &incomplete,
                                 AG_METRIC_ALLOCATED_BYTES));
        ag_page_end_line(page);
        ag_page_print(
            page, AG_STYLE_PLAIN, "    %s of all blocks: %s %s\n",
            ag_quantity_share(&other, incomplete.allocated_blocks, summary->allocated_blocks),
            ag_quantity_count(&number, summary->incomplete_stacks),
            summary->incomplete_stacks == 1 ? "stack could not be walked to its end"
                                            : "stacks could not be walked to their end");
    }
    if (summary->ghost_frees != 0) {
        ag_page_print(page, AG_STYLE_PLAIN, "  %-*s %10s %s with no recorded allocation\n",
                      LEFT_NAME, "ghosts", ag_quantity_count(&number, summary->ghost_frees),
                      summary->ghost_frees == 1 ? "free of a block" : "frees of blocks");
    }
    if (summary->inherited_frees != 0) {
        ag_page_print(page, AG_STYLE_PLAIN,
                      "  %-*s %10s %s that the parent process had allocated before the fork\n",
                      LEFT_NAME, "inherited", ag_quantity_count(&number, summary->inherited_frees),
                      summary->inherited_frees == 1 ? "free of a block" : "frees of blocks");
    }
    write_waiting(view);
}

static void write_runtimes(struct ag_view *view) {
    const struct ag_profile_runtime *runtimes;
    size_t count = ag_profile_runtimes(view->profile, &runtimes);
    for (size_t i = 0; i < count; i++) {
        if (runtimes[i].hooked && runtimes[i].counted != 0) {
            ag_page_print(view->page, AG_STYLE_PLAIN,
                          "  %s %s: %.4g %% of what the runtime itself counted is in the trace\n",
                          runtimes[i].name, runtimes[i].version, 100 * coverage_of(&runtimes[i]));
        }
        const bool has_note = runtimes[i].note != NULL && *runtimes[i].note != '\0';
        if (has_note || !runtimes[i].hooked) {
            const bool has_version = runtimes[i].version != NULL && *runtimes[i].version != '\0';
            ag_page_prose(view->page, AG_STYLE_WARNING, "  %s%s%s%s: %s",
                          runtimes[i].hooked ? "" : "not recorded: allocations of ",
                          runtimes[i].name, has_version ? " " : "",
                          has_version ? runtimes[i].version : "",
                          has_note ? runtimes[i].note : "reason unknown");
        }
    }
}

static void write_course(struct ag_view *view) {
    enum { HEAD_COLUMNS = 12, TAIL_COLUMNS = 13 };
    struct ag_page *page = view->page;
    const struct ag_timeline_point *points;
    size_t n_points = ag_profile_timeline(view->profile, &points);
    if (n_points < 3) {
        return;
    }
    const struct ag_span span = ag_view_span(view);
    uint64_t values[AG_PAGE_MOST_COLUMNS];
    size_t columns = page->columns - HEAD_COLUMNS - TAIL_COLUMNS;
    ag_course_sample(points, n_points, span, AG_COURSE_IN_USE, values, columns);
    uint64_t largest = ag_course_largest(values, columns);
    struct ag_quantity amount;
    ag_page_end_line(page);
    ag_page_text(page, AG_STYLE_PLAIN, "  in use    ");
    size_t taken =
        ag_sparkline_write(page, values, columns, largest, /* row= */ 0, /* n_rows= */ 1);
    ag_page_spaces(page, columns - taken + 2);
    ag_page_print(page, AG_STYLE_PLAIN, "%s\n", ag_quantity_bytes(&amount, largest));
    ag_sparkline_axis(page, HEAD_COLUMNS, columns, span);
}

/* Function counters count words that functions allocate; blocks have the sizes that allocators
 * were asked for. Sets *RET_HAS to whether most of the counted words are in no block of the trace.
 * The function with most words decides: *RET_HAS is true if the blocks whose stacks contain this
 * function have less than half the bytes of its words. Usually this is true of Erlang, where words
 * are on the heaps of processes. Most blocks of such a trace belong to the runtime itself, for
 * example to its compiler, so the table of functions says more about the program than the table of
 * sites. Returns 0 or a negative errno. */
int ag_summary_has_words_apart(struct ag_view *view, bool *ret_has) {
    const struct ag_functions *functions;
    const struct ag_site_row *sites;
    size_t n_sites, most = 0;
    uint64_t bytes = 0;
    *ret_has = false;
    int r = ag_profile_functions(view->profile, &functions);
    if (r < 0 || functions->total.own_words == 0) {
        return r;
    }
    for (size_t i = 0; i < functions->n_rows; i++) {
        most =
            functions->rows[i].counts.own_words > functions->rows[most].counts.own_words ? i : most;
    }
    const struct ag_frame *function = ag_profile_frame(view->profile, functions->rows[most].frame);
    r = ag_profile_sites(view->profile, AG_BY_FUNCTION, &sites, &n_sites);
    for (size_t i = 0; r == 0 && i < n_sites; i++) {
        const struct ag_frame *frame = ag_profile_frame(view->profile, sites[i].frame);
        if (strcmp(frame->runtime, function->runtime) == 0 &&
            strcmp(frame->function, function->function) == 0) {
            bytes += sites[i].total.allocated_bytes;
        }
    }
    *ret_has = r == 0 && bytes < functions->rows[most].counts.own_bytes / 2;
    return r;
}

static int write_functions(struct ag_view *view) {
    ag_page_end_line(view->page);
    const int r = ag_functions_view_text(view);
    ag_page_text(view->page, AG_STYLE_DIM, "  --view=sites shows the lines that allocate blocks\n");
    return r;
}

int ag_summary_facts_text(struct ag_view *view) {
    ag_kill_text(view);
    if (!ag_profile_has_only_samples(view->profile)) {
        write_facts(view, ag_profile_summary(view->profile));
    }
    int r = ag_mappings_summary_text(view);
    write_runtimes(view);
    r = r < 0 ? r : ag_gc_summary_text(view);
    return r < 0 ? r : ag_cpu_summary_text(view);
}

int ag_summary_view_text(struct ag_view *view) {
    const struct ag_summary *summary = ag_profile_summary(view->profile);
    const int facts_r = ag_summary_facts_text(view);
    if (facts_r < 0) {
        return facts_r;
    }
    if (!ag_profile_has_only_samples(view->profile) &&
        !view->options->has_stack_filter) { /* the timeline is not filtered by stacks */
        write_course(view);
    }
    bool has_words = false;
    struct ag_view table = *view;
    table.limit = view->options->limit == AG_REPORT_USUAL_LIMIT ? 10 : view->limit;
    int r = ag_summary_has_words_apart(view, &has_words);
    if (r == 0 && has_words && view->options->by == AG_BY_FUNCTION) {
        r = write_functions(&table);
    } else if (r == 0 && summary->allocated_blocks > 0) {
        ag_page_end_line(view->page);
        r = ag_sites_write_text(&table, view->options->by == AG_BY_FUNCTION ? AG_SITES_BLAMED
                                                                            : AG_SITES_WITH_OWN);
    }
    return r < 0 ? r : ag_findings_text(view);
}
