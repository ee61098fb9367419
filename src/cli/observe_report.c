/* observe_report.c: prints the results of `observe`, as text or as one JSON object. The text begins
 * with lines about the reliability of the results; tables follow. The keys of the JSON object are
 * in docs/reference/report-schema.md. */
#include "cli/observe_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/terminal.h"
#include "report/page.h"
#include "report/quantity.h"
#include "report/table.h"
#include "text/json_writer.h"

enum { NAME_BYTES = 1024, STACK_FRAMES = 12 };

/* ---- text ---- */

static void frame_label(char text[NAME_BYTES], const struct ag_observed_frame *frame) {
    if (strcmp(frame->runtime, "c") == 0) {
        (void)snprintf(text, NAME_BYTES, "%s", frame->function);
    } else {
        (void)snprintf(text, NAME_BYTES, "[%s] %s", frame->runtime, frame->function);
    }
}

static void text_heading(struct ag_page *page, struct ag_observation *observation) {
    const struct ag_observation_facts *facts = ag_observation_facts(observation);
    struct ag_quantity time, samples, complete, resident;
    ag_page_print(page, AG_STYLE_BRIGHT, "%s", facts->name);
    ag_page_print(page, AG_STYLE_DIM, "   pid %d, %s%s\n", facts->pid,
                  ag_quantity_time(&time, facts->duration_ns),
                  facts->end == AG_OBSERVED_TARGET_ENDED ? ", until it ended" : "");
    ag_page_prose(page, AG_STYLE_PLAIN,
                  "%s samples, %s complete, %llu lost, %llu left out because their "
                  "stack was read too late; cost to the target %.2f %%",
                  ag_quantity_count(&samples, facts->samples),
                  ag_quantity_share(&complete, facts->complete_stacks, facts->samples),
                  (unsigned long long)facts->lost, (unsigned long long)facts->stale,
                  facts->target_cost_percent);
    const int64_t grown = (int64_t)(facts->resident_after_bytes - facts->resident_before_bytes);
    if (facts->resident_after_bytes != 0) {
        struct ag_quantity by;
        ag_page_print(page, AG_STYLE_PLAIN, "resident %s, %s%s since the start\n",
                      ag_quantity_bytes(&resident, facts->resident_after_bytes),
                      grown < 0 ? "-" : "+",
                      ag_quantity_bytes(&by, (uint64_t)(grown < 0 ? -grown : grown)));
    }
    const char *const *notes;
    const size_t n = ag_observation_notes(observation, &notes);
    for (size_t i = 0; i < n; i++) {
        ag_page_prose(page, AG_STYLE_WARNING, "%s", notes[i]);
    }
    ag_page_end_line(page);
}

/* Writes a table and frees it. TABLE may be NULL, if memory was exhausted. */
static void write_table(struct ag_page *page, struct ag_table *table) {
    if (table == NULL) {
        return;
    }
    (void)ag_table_write(table, page); /* if memory is exhausted, the table is not printed */
    (void)ag_table_free(table);
    ag_page_end_line(page);
}

static void text_functions(struct ag_page *page, const struct ag_observed_function *list, size_t n,
                           size_t limit, const char *head, bool has_total) {
    static const struct ag_column columns[] = {
        {.head = "own"},
        {.head = "share", .style = AG_STYLE_DIM},
        {.head = "total"},
        {.head = "function", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 20},
        {.head = "image", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 8},
    };
    struct ag_column own[AG_ARRAY_SIZE(columns)];
    memcpy(own, columns, sizeof own);
    own[3].head = head;
    struct ag_table *table = ag_table_new(own, AG_ARRAY_SIZE(own));
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        all += list[i].own;
    }
    for (size_t i = 0; i < n && table != NULL && (limit == 0 || i < limit); i++) {
        struct ag_quantity quantity;
        char name[NAME_BYTES];
        frame_label(name, list[i].frame);
        ag_table_cell(table, ag_quantity_count(&quantity, list[i].own));
        ag_table_cell(table, ag_quantity_share(&quantity, list[i].own, all));
        ag_table_cell(table, has_total ? ag_quantity_count(&quantity, list[i].total) : "");
        ag_table_cell(table, name);
        ag_table_cell(table, list[i].frame->image != NULL ? list[i].frame->image : "");
    }
    write_table(page, table);
}

/* Prints a frame in one line. If name and location do not fit, the location is shortened first, but
 * not to less than a third of the line; then the name is shortened. */
static void one_frame(struct ag_page *page, const struct ag_observed_frame *frame,
                      enum ag_style style) {
    enum { INDENT = 4 };
    struct ag_fitted fitted;
    char name[NAME_BYTES], where[NAME_BYTES] = "";
    frame_label(name, frame);
    if (frame->file != NULL) {
        (void)snprintf(where, sizeof where, "%s:%u", frame->file, frame->line);
    }
    const size_t all = page->columns - INDENT, least = all / 3;
    const size_t wanted = where[0] != '\0' ? ag_page_columns_of(where) + 2 : 0;
    const size_t kept = wanted < least ? wanted : least;
    ag_page_spaces(page, INDENT);
    const size_t taken = ag_page_fit(&fitted, name, all - kept);
    ag_page_text(page, style, fitted.text);
    if (wanted > 0) {
        (void)ag_page_fit(&fitted, where, all - taken - 2);
        ag_page_print(page, AG_STYLE_DIM, "  %s", fitted.text);
    }
    ag_page_end_line(page);
}

static void one_stack(struct ag_page *page, struct ag_observation *observation, uint32_t node) {
    const struct ag_observed_frame *frames;
    const size_t n = ag_observation_stack(observation, node, &frames);
    for (size_t i = 0; i < n && i < STACK_FRAMES; i++) {
        one_frame(page, &frames[i], i == 0 ? AG_STYLE_BRIGHT : AG_STYLE_PLAIN);
    }
    if (n > STACK_FRAMES) {
        ag_page_print(page, AG_STYLE_DIM, "    ... %zu more\n", n - STACK_FRAMES);
    }
}

static void more_rows(struct ag_page *page, ssize_t n, size_t limit) {
    if (limit > 0 && n > 0 && (size_t)n > limit) {
        ag_page_print(page, AG_STYLE_DIM, "... %zu more; --limit=0 shows all\n", (size_t)n - limit);
    }
    ag_page_end_line(page);
}

static void text_stacks(struct ag_page *page, struct ag_observation *observation,
                        enum ag_seen_source source, const char *head, size_t limit) {
    struct ag_observed_stack *list = NULL;
    const ssize_t n = ag_observation_stacks(observation, source, &list);
    ag_page_print(page, AG_STYLE_DIM, "%s\n", n > 0 ? head : "no stack was sampled");
    for (ssize_t i = 0; i < n && (limit == 0 || (size_t)i < limit); i++) {
        struct ag_quantity quantity;
        if (source == AG_SEEN_GROWTH) {
            ag_page_print(page, AG_STYLE_PLAIN, "%s\n",
                          ag_quantity_bytes(&quantity, list[i].bytes));
        } else {
            ag_page_print(page, AG_STYLE_PLAIN, "%s sample%s, thread %u %s\n",
                          ag_quantity_count(&quantity, list[i].samples),
                          list[i].samples == 1 ? "" : "s", list[i].thread,
                          ag_observation_thread_name(observation, list[i].thread));
        }
        one_stack(page, observation, list[i].node);
    }
    more_rows(page, n, limit);
    free(list);
}

static void text_maps(struct ag_page *page, struct ag_observation *observation, size_t limit) {
    struct ag_observed_map *list = NULL;
    const ssize_t n = ag_observation_maps(observation, &list);
    ag_page_print(page, AG_STYLE_DIM, "%s\n",
                  n > 0 ? "mapped during the observation and not unmapped, by stack"
                        : "no mapping that was made during the observation still exists");
    for (ssize_t i = 0; i < n && (limit == 0 || (size_t)i < limit); i++) {
        struct ag_quantity mapped, resident;
        ag_page_print(page, AG_STYLE_PLAIN, "%s in %llu mapping%s, %s resident\n",
                      ag_quantity_bytes(&mapped, list[i].bytes),
                      (unsigned long long)list[i].n_mappings, list[i].n_mappings == 1 ? "" : "s",
                      ag_quantity_bytes(&resident, list[i].resident_bytes));
        one_stack(page, observation, list[i].node);
    }
    more_rows(page, n, limit);
    free(list);
}

/* The sums of the instances of each allocator, in the order of LIST, and of all allocators, named
 * "total". Returns their number; the caller frees them. */
static size_t allocator_sums(const struct ag_reported_allocator *list, size_t n,
                             struct ag_reported_allocator **ret_sums) {
    struct ag_reported_allocator *sums = n > 0 ? calloc(n + 1, sizeof *sums) : NULL;
    struct ag_reported_allocator total = {.name = "total"};
    size_t n_sums = 0;
    for (size_t i = 0; i < n && sums != NULL; i++) {
        size_t at = 0;
        while (at < n_sums && strcmp(sums[at].name, list[i].name) != 0) {
            at++;
        }
        sums[at].name = list[i].name;
        n_sums += at == n_sums;
        struct ag_reported_allocator *const both[] = {&sums[at], &total};
        for (size_t k = 0; k < AG_ARRAY_SIZE(both); k++) {
            both[k]->blocks_bytes += list[i].blocks_bytes;
            both[k]->carriers_bytes += list[i].carriers_bytes;
            both[k]->mapped_bytes += list[i].mapped_bytes;
            both[k]->resident_bytes += list[i].resident_bytes;
        }
    }
    if (n_sums > 0) {
        sums[n_sums++] = total;
    }
    *ret_sums = sums;
    return n_sums;
}

static void row_of_allocator(struct ag_table *table, const struct ag_reported_allocator *row,
                             const char *instance) {
    struct ag_quantity quantity;
    ag_table_cell(table, row->name);
    ag_table_cell(table, instance);
    ag_table_cell(table, ag_quantity_bytes(&quantity, row->blocks_bytes));
    ag_table_cell(table, ag_quantity_bytes(&quantity, row->carriers_bytes));
    ag_table_cell(table, ag_quantity_share(&quantity, row->blocks_bytes, row->carriers_bytes));
    ag_table_cell(table, ag_quantity_bytes(&quantity, row->mapped_bytes));
    ag_table_cell(table, ag_quantity_bytes(&quantity, row->resident_bytes));
}

static void text_allocators(struct ag_page *page, struct ag_observation *observation) {
    static const struct ag_column columns[] = {
        {.head = "allocator",
         .align = AG_ALIGN_LEFT,
         .style = AG_STYLE_BRIGHT,
         .least_columns = 12},
        {.head = "", .style = AG_STYLE_DIM},
        {.head = "blocks"},
        {.head = "carriers"},
        {.head = "used %"},
        {.head = "mapped"},
        {.head = "resident"},
    };
    const struct ag_reported_allocator *list;
    struct ag_reported_allocator *sums = NULL;
    const size_t n = ag_observation_allocators(observation, &list),
                 n_sums = allocator_sums(list, n, &sums);
    struct ag_table *table = ag_table_new(columns, AG_ARRAY_SIZE(columns));
    for (size_t i = 0; i < n && table != NULL; i++) {
        struct ag_quantity quantity;
        row_of_allocator(table, &list[i], ag_quantity_count(&quantity, list[i].instance));
    }
    ag_table_rule(table);
    for (size_t i = 0; i < n_sums && table != NULL; i++) {
        row_of_allocator(table, &sums[i], "");
    }
    free(sums);
    write_table(page, table);
}

static void text_processes(struct ag_page *page, struct ag_observation *observation, size_t limit) {
    static const struct ag_column columns[] = {
        {.head = "process", .align = AG_ALIGN_LEFT},
        {.head = "heap words"},
        {.head = "stack"},
        {.head = "queue"},
        {.head = "binaries"},
        {.head = "function", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 20},
        {.head = "name", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 8},
    };
    const struct ag_reported_process *list;
    const size_t n = ag_observation_processes(observation, &list);
    struct ag_table *table = ag_table_new(columns, AG_ARRAY_SIZE(columns));
    for (size_t i = 0; i < n && table != NULL && (limit == 0 || i < limit); i++) {
        struct ag_quantity quantity;
        ag_table_cell(table, list[i].id != NULL ? list[i].id : "");
        ag_table_cell(table, ag_quantity_count(&quantity, list[i].heap_words));
        ag_table_cell(table, ag_quantity_count(&quantity, list[i].stack_words));
        ag_table_cell(table, ag_quantity_count(&quantity, list[i].queue));
        ag_table_cell(table, list[i].binary_bytes != UINT64_MAX
                                 ? ag_quantity_bytes(&quantity, list[i].binary_bytes)
                                 : "?");
        ag_table_cell(table, list[i].current_function != NULL ? list[i].current_function : "");
        ag_table_cell(table, list[i].name != NULL ? list[i].name : "");
    }
    write_table(page, table);
    if (limit > 0 && n > limit) {
        more_rows(page, (ssize_t)n, limit);
    }
}

static void text_collections_heading(struct ag_page *page, struct ag_observation *observation) {
    const struct ag_reported_collection *list;
    const size_t n = ag_observation_collections(observation, &list);
    const uint64_t n_seen = ag_observation_facts(observation)->collections_seen;
    struct ag_quantity seen, reported, total, longest;
    uint64_t pause_ns = 0, most_ns = 0;
    for (size_t i = 0; i < n; i++) {
        pause_ns += list[i].pause_ns;
        most_ns = list[i].pause_ns > most_ns ? list[i].pause_ns : most_ns;
    }
    if (n == 0) {
        ag_page_print(page, AG_STYLE_DIM, "no garbage collection was observed\n");
        ag_page_end_line(page);
        return;
    }
    if (n_seen > n + n / 8) {
        ag_page_print(page, AG_STYLE_DIM,
                      "the tables below show %s of %s collections, a sample chosen by bytes\n",
                      ag_quantity_count(&reported, n), ag_quantity_count(&seen, n_seen));
    }
    ag_page_print(page, AG_STYLE_DIM, "%s paused %s, the longest %s\n",
                  ag_quantity_count(&reported, n), ag_quantity_time(&total, pause_ns),
                  ag_quantity_time(&longest, most_ns));
}

/* Prints how exact the shares of functions are. */
static void text_words_heading(struct ag_page *page, const struct ag_observation_facts *facts,
                               const struct ag_observed_collector *list, ssize_t n) {
    enum { WRITTEN_LEAST = 300 }; /* 100 usable words are needed: about a third of those written */
    struct ag_quantity words;
    uint64_t n_words = 0;
    for (ssize_t i = 0; i < n; i++) {
        n_words += list[i].n_words;
    }
    if (n_words > 0) {
        /* half the width of the 95 % interval of a binomial distribution with n_words trials and
         * the share that varies most, one half: 196 * sqrt(0.25 / n_words) percentage points */
        ag_page_prose(page, AG_STYLE_DIM,
                      "allocated bytes are divided among functions by %s random words: the "
                      "95 %% interval of a share is at most ±%.0f percentage points",
                      ag_quantity_count(&words, n_words), ceil(98 / sqrt((double)n_words)));
    } else if (n > 0) {
        char remedy[64] = "";
        if (facts->words_allocated > 0) {
            /* a written word is not always used, so at least twice the time is advised, even if
             * nearly enough words were written */
            const double missing = (double)WRITTEN_LEAST / (double)facts->words_allocated;
            (void)snprintf(remedy, sizeof remedy, "; observe for about %.0f s",
                           ceil(1e-9 * (double)facts->duration_ns * (missing > 2 ? missing : 2)));
        }
        ag_page_prose(page, AG_STYLE_WARNING,
                      "allocated bytes are those of the functions that filled the heap, which may "
                      "be the same function in each round of a periodic program: %s random words "
                      "were written while they were watched, which are too few%s",
                      ag_quantity_count(&words, facts->words_allocated), remedy);
    }
}

static void text_collections(struct ag_page *page, struct ag_observation *observation,
                             size_t limit) {
    static const struct ag_column columns[] = {
        {.head = "collections"},
        {.head = "allocated"},
        {.head = "share", .style = AG_STYLE_DIM},
        {.head = "words", .style = AG_STYLE_DIM},
        {.head = "collections by",
         .align = AG_ALIGN_LEFT,
         .style = AG_STYLE_BRIGHT,
         .least_columns = 20},
    };
    struct ag_observed_collector *list = NULL;
    const ssize_t n = ag_observation_collectors(observation, &list);
    text_collections_heading(page, observation);
    text_words_heading(page, ag_observation_facts(observation), list, n);
    struct ag_table *table = n > 0 ? ag_table_new(columns, AG_ARRAY_SIZE(columns)) : NULL;
    uint64_t all = 0;
    for (ssize_t i = 0; i < n; i++) {
        all += list[i].bytes;
    }
    for (ssize_t i = 0; i < n && table != NULL && (limit == 0 || (size_t)i < limit); i++) {
        struct ag_quantity quantity;
        ag_table_cell(table, ag_quantity_count(&quantity, list[i].n_collections));
        ag_table_cell(table, ag_quantity_bytes(&quantity, list[i].bytes));
        ag_table_cell(table, ag_quantity_share(&quantity, list[i].bytes, all));
        ag_table_cell(table, ag_quantity_count(&quantity, list[i].n_words));
        ag_table_cell(table, list[i].function);
    }
    write_table(page, table);
    free(list);
}

static void text_cpu(struct ag_page *page, struct ag_observation *observation,
                     const struct ag_observe_selection *selection) {
    struct ag_observed_function *list = NULL;
    const ssize_t n = selection->blame != NULL
                          ? ag_observation_blame(observation, selection->blame, &list)
                          : ag_observation_functions(observation, &list);
    if (n > 0) {
        text_functions(page, list, (size_t)n, selection->limit,
                       selection->blame != NULL ? "to blame" : "function",
                       /* has_total= */ selection->blame == NULL);
    } else {
        ag_page_print(page, AG_STYLE_DIM, "%s\n",
                      selection->blame != NULL
                          ? "no sampled stack contains a function whose name matches"
                          : "no thread used the CPU");
        ag_page_end_line(page);
    }
    free(list);
}

void ag_observe_report_text(FILE *out, struct ag_observation *observation,
                            const struct ag_observe_selection *selection) {
    struct ag_page page = ag_terminal_page(out);
    /* the CPU time is always shown: last with one of these options, unless --blame was given;
     * otherwise first */
    const bool asks_for_more =
        selection->blame == NULL &&
        (selection->what & (AG_OBSERVE_COLLECTIONS | AG_OBSERVE_GROWTH | AG_OBSERVE_MAPS |
                            AG_OBSERVE_ALLOCATORS | AG_OBSERVE_PROCESSES)) != 0;
    text_heading(&page, observation);
    if (!asks_for_more) {
        text_cpu(&page, observation, selection);
    }
    if ((selection->what & AG_OBSERVE_COLLECTIONS) != 0) {
        text_collections(&page, observation, selection->limit);
    }
    if (selection->stacks) {
        text_stacks(&page, observation, AG_SEEN_CPU, "stacks, by samples", selection->limit);
    }
    if ((selection->what & AG_OBSERVE_GROWTH) != 0) {
        text_stacks(&page, observation, AG_SEEN_GROWTH, "growth of resident memory, by stack",
                    selection->limit);
    }
    if ((selection->what & AG_OBSERVE_MAPS) != 0) {
        text_maps(&page, observation, selection->limit);
    }
    if ((selection->what & AG_OBSERVE_ALLOCATORS) != 0) {
        text_allocators(&page, observation);
    }
    if ((selection->what & AG_OBSERVE_PROCESSES) != 0) {
        text_processes(&page, observation, selection->limit);
    }
    if (asks_for_more) {
        ag_page_print(&page, AG_STYLE_DIM, "CPU time by function\n");
        text_cpu(&page, observation, selection);
    }
}

/* ---- JSON ---- */

static void json_frames(struct ag_json *json, struct ag_observation *observation, uint32_t node) {
    const struct ag_observed_frame *list;
    const size_t n = ag_observation_stack(observation, node, &list);
    ag_json_open(json, "frames", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", list[i].function);
        ag_json_string(json, "file", list[i].file);
        ag_json_nonzero(json, "line", list[i].line);
        ag_json_string(json, "image", list[i].image);
        ag_json_string(json, "runtime", list[i].runtime);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

static void json_facts(struct ag_json *json, const struct ag_observation_facts *facts) {
    static const char *const ends[] = {
        [AG_OBSERVED_TIME_OVER] = "time",
        [AG_OBSERVED_STOPPED] = "stopped",
        [AG_OBSERVED_TARGET_ENDED] = "target_ended",
    };
    ag_json_integer(json, "pid", (uint64_t)facts->pid);
    ag_json_string(json, "name", facts->name);
    ag_json_integer(json, "duration_ns", facts->duration_ns);
    ag_json_string(json, "end", ends[facts->end]);
    ag_json_integer(json, "samples", facts->samples);
    ag_json_integer(json, "lost", facts->lost);
    ag_json_integer(json, "stale", facts->stale);
    ag_json_integer(json, "complete_stacks", facts->complete_stacks);
    ag_json_decimal(json, "target_cost_percent", facts->target_cost_percent, /* decimals= */ 3);
    ag_json_integer(json, "target_cpu_ns", facts->target_cpu_ns);
    ag_json_bool(json, "sees_kernel", facts->sees_kernel);
    ag_json_integer(json, "resident_before_bytes", facts->resident_before_bytes);
    ag_json_integer(json, "resident_after_bytes", facts->resident_after_bytes);
    ag_json_open(json, "profiler", '{');
    ag_json_integer(json, "cpu_ns", facts->own_cpu_ns);
    ag_json_decimal(json, "sample_cost_ns", facts->sample_cost_ns, /* decimals= */ 0);
    ag_json_close(json, '}');
}

static void json_functions(struct ag_json *json, struct ag_observation *observation) {
    struct ag_observed_function *list = NULL;
    const ssize_t n = ag_observation_functions(observation, &list);
    ag_json_open(json, "functions", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", list[i].frame->function);
        ag_json_string(json, "image", list[i].frame->image);
        ag_json_string(json, "runtime", list[i].frame->runtime);
        ag_json_integer(json, "own", list[i].own);
        ag_json_integer(json, "total", list[i].total);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void json_blame(struct ag_json *json, struct ag_observation *observation, const char *glob) {
    struct ag_observed_function *list = NULL;
    const ssize_t n = ag_observation_blame(observation, glob, &list);
    uint64_t all = 0;
    for (ssize_t i = 0; i < n; i++) {
        all += list[i].own;
    }
    ag_json_open(json, "blame", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", list[i].frame->function);
        ag_json_string(json, "runtime", list[i].frame->runtime);
        ag_json_integer(json, "samples", list[i].own);
        ag_json_percent(json, "percent", 100.0 * (double)list[i].own / (double)all);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void json_stacks(struct ag_json *json, struct ag_observation *observation,
                        enum ag_seen_source source) {
    const bool is_growth = source == AG_SEEN_GROWTH;
    struct ag_observed_stack *list = NULL;
    const ssize_t n = ag_observation_stacks(observation, source, &list);
    ag_json_open(json, is_growth ? "growth" : "stacks", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        if (is_growth) {
            ag_json_integer(json, "bytes", list[i].bytes);
        } else {
            ag_json_integer(json, "thread", list[i].thread);
            ag_json_string(json, "thread_name",
                           ag_observation_thread_name(observation, list[i].thread));
            ag_json_integer(json, "count", list[i].samples);
        }
        json_frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void json_maps(struct ag_json *json, struct ag_observation *observation) {
    struct ag_observed_map *list = NULL;
    const ssize_t n = ag_observation_maps(observation, &list);
    ag_json_open(json, "maps", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_integer(json, "bytes", list[i].bytes);
        ag_json_integer(json, "resident_bytes", list[i].resident_bytes);
        ag_json_integer(json, "mappings", list[i].n_mappings);
        json_frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void json_allocator_sizes(struct ag_json *json, const struct ag_reported_allocator *row) {
    ag_json_integer(json, "carriers_bytes", row->carriers_bytes);
    ag_json_integer(json, "blocks_bytes", row->blocks_bytes);
    ag_json_integer(json, "mapped_bytes", row->mapped_bytes);
    ag_json_integer(json, "resident_bytes", row->resident_bytes);
}

static void json_allocators(struct ag_json *json, struct ag_observation *observation) {
    const struct ag_reported_allocator *list;
    struct ag_reported_allocator *sums = NULL;
    const size_t n = ag_observation_allocators(observation, &list),
                 n_sums = allocator_sums(list, n, &sums);
    ag_json_open(json, "allocators", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "name", list[i].name);
        ag_json_integer(json, "instance", list[i].instance);
        json_allocator_sizes(json, &list[i]);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_open(json, "allocator_sums", '[');
    for (size_t i = 0; i < n_sums; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "name", sums[i].name);
        json_allocator_sizes(json, &sums[i]);
        if (sums[i].carriers_bytes > 0) {
            ag_json_percent(json, "used_percent",
                            100.0 * (double)sums[i].blocks_bytes / (double)sums[i].carriers_bytes);
        }
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(sums);
}

static void json_processes(struct ag_json *json, struct ag_observation *observation) {
    const struct ag_reported_process *list;
    const size_t n = ag_observation_processes(observation, &list);
    ag_json_open(json, "processes", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "id", list[i].id);
        ag_json_string(json, "name", list[i].name);
        ag_json_string(json, "current_function", list[i].current_function);
        ag_json_integer(json, "heap_words", list[i].heap_words);
        ag_json_integer(json, "stack_words", list[i].stack_words);
        ag_json_integer(json, "queue", list[i].queue);
        ag_json_integer_if(json, "binaries", list[i].binaries, list[i].binaries != UINT64_MAX);
        ag_json_integer_if(json, "binary_bytes", list[i].binary_bytes,
                           list[i].binary_bytes != UINT64_MAX);
        json_frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

static void json_collections(struct ag_json *json, struct ag_observation *observation) {
    const struct ag_reported_collection *list;
    const size_t n = ag_observation_collections(observation, &list);
    ag_json_open(json, "gc", '{');
    const struct ag_observation_facts *facts = ag_observation_facts(observation);
    ag_json_integer(json, "seen", facts->collections_seen);
    ag_json_integer(json, "words_watched", facts->words_watched);
    ag_json_integer(json, "words_allocated", facts->words_allocated);
    ag_json_open(json, "collections", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "runtime", list[i].runtime);
        ag_json_string(json, "kind", list[i].kind);
        ag_json_integer(json, "start_ns", list[i].start_ns);
        ag_json_integer(json, "pause_ns", list[i].pause_ns);
        ag_json_integer(json, "heap_before_bytes", list[i].heap_before_bytes);
        ag_json_integer(json, "heap_after_bytes", list[i].heap_after_bytes);
        ag_json_integer(json, "needed_bytes", list[i].needed_bytes);
        ag_json_integer(json, "allocated_bytes", list[i].allocated_bytes);
        ag_json_integer(json, "weight_bytes", list[i].weight_bytes);
        ag_json_string(json, "process", list[i].process);
        json_frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    struct ag_observed_collector *blamed = NULL;
    const ssize_t n_blamed = ag_observation_collectors(observation, &blamed);
    ag_json_open(json, "functions", '[');
    for (ssize_t i = 0; i < n_blamed; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", blamed[i].function);
        ag_json_integer(json, "collections", blamed[i].n_collections);
        ag_json_integer(json, "bytes", blamed[i].bytes);
        ag_json_integer(json, "words", blamed[i].n_words);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    free(blamed);
}

void ag_observe_report_json(FILE *out, struct ag_observation *observation,
                            const struct ag_observe_selection *selection) {
    struct ag_json json = {.out = out, .line_depth = 2};
    const char *const *notes;
    ag_json_open(&json, NULL, '{');
    ag_json_string(&json, "schema", "allogram-observe/1");
    json_facts(&json, ag_observation_facts(observation));
    json_functions(&json, observation);
    if (selection->stacks) {
        json_stacks(&json, observation, AG_SEEN_CPU);
    }
    if (selection->blame != NULL) {
        json_blame(&json, observation, selection->blame);
    }
    if ((selection->what & AG_OBSERVE_COLLECTIONS) != 0) {
        json_collections(&json, observation);
    }
    if ((selection->what & AG_OBSERVE_GROWTH) != 0) {
        json_stacks(&json, observation, AG_SEEN_GROWTH);
    }
    if ((selection->what & AG_OBSERVE_MAPS) != 0) {
        json_maps(&json, observation);
    }
    if ((selection->what & AG_OBSERVE_ALLOCATORS) != 0) {
        json_allocators(&json, observation);
    }
    if ((selection->what & AG_OBSERVE_PROCESSES) != 0) {
        json_processes(&json, observation);
    }
    const size_t n_notes = ag_observation_notes(observation, &notes);
    ag_json_strings(&json, "notes", notes, n_notes);
    ag_json_close(&json, '}');
    fputc('\n', out);
}
