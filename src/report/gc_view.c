/* gc_view.c: `report --view=gc`: the collections of garbage collectors: their number, their pauses,
 * and how much memory they reclaimed. --blame groups collections by the function that caused them,
 * --by=process by the process whose heap was collected. Text lists the longest pauses first; JSON
 * without a limit lists all collections in the order of time. The file also writes what the summary
 * says about garbage collection.
 *
 * With --blame, the column "needed" (in JSON the key "bytes") adds up the sizes of the requests
 * that caused the collections. */

#include "model/answers/collections.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

/* The share of the report's range of time that was spent in pauses. Several heaps can be collected
 * at the same time, so the share can exceed 1. */
static double time_share(const struct ag_view *view, const struct ag_collection_sum *sum) {
    const struct ag_span span = ag_view_span(view);
    const uint64_t all_ns = span.to_ns > span.from_ns ? span.to_ns - span.from_ns : 0;
    return all_ns > 0 ? (double)sum->pause_total_ns / (double)all_ns : 0;
}

/* ---- in the summary ---- */

int ag_gc_summary_json(struct ag_view *view) {
    struct ag_json *json = view->json;
    const struct ag_collections *collections;
    const int r = ag_profile_collections(view->profile, &collections);
    ag_json_open(json, "gc", '[');
    for (size_t i = 0; r == 0 && i < collections->n_runtimes; i++) {
        const struct ag_collection_sum *sum = &collections->runtimes[i];
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "runtime", sum->runtime);
        ag_json_integer(json, "collections", sum->collections);
        ag_json_integer(json, "pause_total_ns", sum->pause_total_ns);
        ag_json_integer(json, "pause_max_ns", sum->pause_max_ns);
        ag_json_decimal(json, "time_share", time_share(view, sum), /* decimals= */ 6);
        ag_json_integer_if(json, "promoted_bytes", sum->promoted_bytes, sum->has_promoted);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    return r;
}

/* Returns RUNTIME for people. RUNTIME is empty if the program registered the heap without a
 * runtime. */
static const char *runtime_words(const char *runtime) {
    return runtime[0] != '\0' ? runtime : "the program";
}

/* Writes how much the process allocated since the start of the runtime's last collection that was
 * not minor. These bytes count as in use at the end, although some may be garbage that no
 * collection has found. Writes nothing if the trace has no heap of the runtime, or no timeline. */
static void write_since_last(const struct ag_view *view, const struct ag_collection_sum *sum,
                             char words[96]) {
    const struct ag_heap_row *heaps;
    const struct ag_timeline_point *points;
    const size_t n_heaps = ag_profile_heaps(view->profile, &heaps);
    const size_t n = ag_profile_timeline(view->profile, &points);
    bool has_heap = false;
    for (size_t i = 0; i < n_heaps; i++) {
        has_heap |= strcmp(heaps[i].runtime, sum->runtime) == 0;
    }
    size_t at = n;
    while (at > 0 && points[at - 1].time_ns > sum->last_ns) {
        at--;
    }
    words[0] = '\0';
    if (has_heap && n > 0 && sum->last_ns == 0) {
        snprintf(words, 96, "; all were minor collections");
    } else if (has_heap && n > 0) {
        struct ag_quantity bytes;
        const uint64_t all = ag_profile_point_metrics(view->profile, n - 1).allocated_bytes;
        const uint64_t before =
            at > 0 ? ag_profile_point_metrics(view->profile, at - 1).allocated_bytes : 0;
        const char *after = ag_quantity_bytes(&bytes, all > before ? all - before : 0);
        snprintf(words, 96, "; %s%s %s allocated after the last one began",
                 all > before ? "about " : "", all > before ? after : "nothing",
                 all > before ? "were" : "was");
    }
}

int ag_gc_summary_text(struct ag_view *view) {
    const struct ag_collections *collections;
    const int r = ag_profile_collections(view->profile, &collections);
    for (size_t i = 0; r == 0 && i < collections->n_runtimes; i++) {
        const struct ag_collection_sum *sum = &collections->runtimes[i];
        struct ag_quantity count, total, longest;
        char since_last[96];
        write_since_last(view, sum, since_last);
        ag_page_prose(view->page, AG_STYLE_PLAIN,
                      "  %-15s %10s by %s, paused %s (%.1f %% of the time), the longest %s%s",
                      "collections", ag_quantity_count(&count, sum->collections),
                      runtime_words(sum->runtime), ag_quantity_time(&total, sum->pause_total_ns),
                      100 * time_share(view, sum), ag_quantity_time(&longest, sum->pause_max_ns),
                      since_last);
    }
    return r;
}

/* ---- order ---- */

static int rank_pauses(const struct ag_collections *collections, struct ag_ranking *ranking) {
    const int r = ag_ranking_start(ranking, collections->n_rows);
    for (size_t i = 0; r == 0 && i < collections->n_rows; i++) {
        const struct ag_collection_row *row = &collections->rows[i];
        ag_ranking_add(ranking, (struct ag_rank){.first = row->known & AG_GC_KNOWN_END
                                                              ? row->pause_ns
                                                              /* a collection without a known end
                                                               * comes first */
                                                              : UINT64_MAX,
                                                 .row = (uint32_t)i});
    }
    ag_ranking_sort(ranking);
    return r;
}

/* Whether the bytes allocated before a collection are known. They are known only for collections
 * observed from outside. */
static bool has_allocated(const struct ag_collections *collections) {
    for (size_t i = 0; i < collections->n_runtimes; i++) {
        if (collections->runtimes[i].allocated_bytes != 0) {
            return true;
        }
    }
    return false;
}

/* Sorts by allocated bytes if any sum has them, otherwise by the number of collections. */
static int rank_sums(const struct ag_collection_sum *sums, size_t count,
                     struct ag_ranking *ranking) {
    const int r = ag_ranking_start(ranking, count);
    bool is_by_bytes = false;
    for (size_t i = 0; i < count; i++) {
        is_by_bytes |= sums[i].allocated_bytes != 0;
    }
    for (size_t i = 0; r == 0 && i < count; i++) {
        ag_ranking_add(ranking, (struct ag_rank){.first = is_by_bytes ? sums[i].allocated_bytes
                                                                      : sums[i].collections,
                                                 .second = sums[i].pause_total_ns,
                                                 .row = (uint32_t)i});
    }
    ag_ranking_sort(ranking);
    return r;
}

/* ---- JSON ---- */

static void write_row_json(struct ag_json *json, const struct ag_collection_row *row) {
    const bool has_heap = row->known & AG_GC_KNOWN_HEAP;
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "runtime", row->runtime);
    ag_json_string(json, "kind", row->kind);
    ag_json_integer(json, "start_ns", row->start_ns);
    ag_json_integer_if(json, "pause_ns", row->pause_ns, row->known & AG_GC_KNOWN_END);
    ag_json_integer_if(json, "heap_before_bytes", row->heap_before_bytes, has_heap);
    ag_json_integer_if(json, "heap_after_bytes", row->heap_after_bytes, has_heap);
    ag_json_integer_if(json, "needed_bytes", row->needed_bytes, row->known & AG_GC_KNOWN_NEED);
    ag_json_integer_if(json, "promoted_bytes", row->promoted_bytes,
                       row->known & AG_GC_KNOWN_PROMOTED);
    if (row->known & AG_GC_KNOWN_ALLOCATED) { /* only known for collections observed from outside */
        ag_json_integer(json, "allocated_bytes", row->allocated_bytes);
        ag_json_integer(json, "weight_bytes", row->weight_bytes);
    }
    ag_json_string(json, "process", row->process);
    ag_json_close(json, '}');
}

static int write_collections_json(struct ag_view *view, const struct ag_collections *collections) {
    struct ag_ranking ranking;
    const int r = rank_pauses(collections, &ranking);
    const bool has_all = collections->n_rows <= view->limit;
    ag_json_open(view->json, "collections", '[');
    for (size_t i = 0; r == 0 && i < collections->n_rows && i < view->limit; i++) {
        write_row_json(view->json, &collections->rows[has_all ? i : ranking.ranks[i].row]);
    }
    ag_json_close(view->json, ']');
    ag_ranking_end(&ranking);
    return r;
}

static const char *function_of(const struct ag_view *view, uint32_t frame) {
    return frame != UINT32_MAX ? ag_profile_frame(view->profile, frame)->function : NULL;
}

static int write_blame_json(struct ag_view *view, const struct ag_collections *collections) {
    struct ag_json *json = view->json;
    struct ag_ranking ranking;
    const int r = rank_sums(collections->causes, collections->n_causes, &ranking);
    ag_json_open(json, "blame", '[');
    for (size_t i = 0; r == 0 && i < ranking.count && i < view->limit; i++) {
        const struct ag_collection_sum *sum = &collections->causes[ranking.ranks[i].row];
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", function_of(view, sum->cause_frame));
        ag_json_string(json, "runtime", sum->runtime);
        ag_json_integer(json, "collections", sum->collections);
        ag_json_integer(json, "bytes", sum->needed_bytes);
        ag_json_integer(json, "reclaimed_bytes", sum->reclaimed_bytes);
        if (has_allocated(collections)) {
            ag_json_integer(json, "allocated_bytes", sum->allocated_bytes);
        }
        ag_json_integer(json, "pause_ns", sum->pause_total_ns);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_ranking_end(&ranking);
    return r;
}

static int write_processes_json(struct ag_view *view, const struct ag_collections *collections) {
    struct ag_json *json = view->json;
    struct ag_ranking ranking;
    const int r = rank_sums(collections->processes, collections->n_processes, &ranking);
    ag_json_open(json, "processes", '[');
    for (size_t i = 0; r == 0 && i < ranking.count && i < view->limit; i++) {
        const struct ag_collection_sum *sum = &collections->processes[ranking.ranks[i].row];
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "process", sum->process);
        ag_json_string(json, "runtime", sum->runtime);
        ag_json_integer(json, "collections", sum->collections);
        ag_json_integer(json, "pause_ns", sum->pause_total_ns);
        ag_json_integer(json, "pause_max_ns", sum->pause_max_ns);
        ag_json_integer(json, "reclaimed_bytes", sum->reclaimed_bytes);
        ag_json_string(json, "longest_in", function_of(view, sum->cause_frame));
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_ranking_end(&ranking);
    return r;
}

int ag_gc_view_json(struct ag_view *view) {
    const struct ag_collections *collections;
    int r = ag_profile_collections(view->profile, &collections);
    r = r < 0 ? r : write_collections_json(view, collections);
    if (r == 0 && view->options->by == AG_BY_PROCESS) {
        r = write_processes_json(view, collections);
    }
    return r < 0 ? r : write_blame_json(view, collections);
}

/* ---- text ---- */

static const char *cause_name(struct ag_frame_text *buffer, const struct ag_view *view,
                              uint32_t frame) {
    return frame != UINT32_MAX ? ag_frame_function(buffer, ag_profile_frame(view->profile, frame))
                               : "unknown";
}

/* The runtime's name for the kind of collection; with several runtimes, the runtime's name comes
 * first. */
static const char *kind_name(struct ag_frame_text *buffer, const struct ag_collections *collections,
                             const struct ag_collection_row *row) {
    const bool has_several = collections->n_runtimes > 1;
    snprintf(buffer->text, sizeof buffer->text, "%s%s%s", has_several ? row->runtime : "",
             has_several ? " " : "", row->kind);
    return buffer->text;
}

static void add_bytes(struct ag_table *table, uint64_t bytes, bool is_known) {
    struct ag_quantity number;
    ag_table_cell(table, is_known ? ag_quantity_bytes(&number, bytes) : "");
}

/* Columns that not every runtime fills. A column is shown if any collection fills it. */
struct pause_columns {
    bool has_needed, has_promoted, has_process;
};

static struct pause_columns pause_columns_of(const struct ag_collections *collections) {
    struct pause_columns columns = {.has_needed = false};
    for (size_t i = 0; i < collections->n_runtimes; i++) {
        columns.has_promoted |= collections->runtimes[i].has_promoted;
    }
    for (size_t i = 0; i < collections->n_rows; i++) {
        columns.has_needed |= (collections->rows[i].known & AG_GC_KNOWN_NEED) != 0;
        columns.has_process |= collections->rows[i].process != NULL;
    }
    return columns;
}

static void add_collection(struct ag_table *table, struct ag_view *view,
                           const struct ag_collections *collections,
                           const struct pause_columns *columns,
                           const struct ag_collection_row *row) {
    struct ag_quantity number;
    struct ag_frame_text text;
    const bool has_heap = row->known & AG_GC_KNOWN_HEAP, has_end = row->known & AG_GC_KNOWN_END;
    ag_table_cell(table, ag_quantity_time(&number, row->start_ns));
    ag_table_cell(table, has_end ? ag_quantity_time(&number, row->pause_ns) : "no end");
    ag_table_cell(table, kind_name(&text, collections, row));
    add_bytes(table, row->heap_before_bytes, has_heap);
    add_bytes(table, row->heap_after_bytes, has_heap);
    if (columns->has_needed) {
        add_bytes(table, row->needed_bytes, row->known & AG_GC_KNOWN_NEED);
    }
    if (columns->has_promoted) {
        add_bytes(table, row->promoted_bytes, row->known & AG_GC_KNOWN_PROMOTED);
    }
    if (columns->has_process) {
        ag_table_cell(table, row->process != NULL ? row->process : "");
    }
    ag_table_cell(table, cause_name(&text, view, row->cause_frame));
}

enum { PAUSE_COLUMNS = 9, NEEDED_COLUMN = 5, PROMOTED_COLUMN = 6, PROCESS_COLUMN = 7 };

static struct ag_table *new_pauses(const struct pause_columns *shown) {
    static const struct ag_column all[PAUSE_COLUMNS] = {
        {.head = "at"},
        {.head = "pause", .style = AG_STYLE_BRIGHT},
        {.head = "kind", .align = AG_ALIGN_LEFT, .least_columns = 8},
        {.head = "before"},
        {.head = "after"},
        {.head = "needed"},
        {.head = "promoted"},
        {.head = "process", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 8},
        {.head = "because of", .align = AG_ALIGN_LEFT, .least_columns = 12},
    };
    struct ag_column columns[PAUSE_COLUMNS];
    size_t n = 0;
    for (size_t i = 0; i < PAUSE_COLUMNS; i++) {
        const bool is_shown = i == NEEDED_COLUMN     ? shown->has_needed
                              : i == PROMOTED_COLUMN ? shown->has_promoted
                              : i == PROCESS_COLUMN  ? shown->has_process
                                                     : true;
        if (is_shown) {
            columns[n++] = all[i];
        }
    }
    return ag_table_new(columns, n);
}

static int write_pauses(struct ag_view *view, const struct ag_collections *collections) {
    struct ag_ranking ranking;
    const int r = rank_pauses(collections, &ranking);
    if (r < 0) {
        return r;
    }
    const struct pause_columns columns = pause_columns_of(collections);
    struct ag_table *table = new_pauses(&columns);
    uint64_t hidden_ns = 0, all_ns = 0;
    for (size_t i = 0; i < ranking.count; i++) {
        const struct ag_collection_row *row = &collections->rows[ranking.ranks[i].row];
        const uint64_t pause_ns = row->known & AG_GC_KNOWN_END ? row->pause_ns : 0;
        all_ns += pause_ns;
        if (i < view->limit) {
            add_collection(table, view, collections, &columns, row);
        } else {
            hidden_ns += pause_ns;
        }
    }
    return ag_ranking_write_table(&ranking, view->limit, table, view->page, "more collection",
                                  hidden_ns, all_ns);
}

typedef void add_sum(struct ag_table *table, struct ag_view *view,
                     const struct ag_collections *collections, const struct ag_collection_sum *sum);

/* Writes the largest sums as rows of TABLE, and frees TABLE. */
static int write_ranked(struct ag_view *view, const struct ag_collections *collections,
                        const struct ag_collection_sum *sums, size_t n_sums, struct ag_table *table,
                        add_sum *add, const char *what) {
    struct ag_ranking ranking;
    const int r = rank_sums(sums, n_sums, &ranking);
    if (r < 0) {
        ag_table_free(table);
        return r;
    }
    for (size_t i = 0; i < ranking.count && i < view->limit; i++) {
        add(table, view, collections, &sums[ranking.ranks[i].row]);
    }
    return ag_ranking_write_table(&ranking, view->limit, table, view->page, what,
                                  ag_ranking_sum(&ranking, view->limit),
                                  ag_ranking_sum(&ranking, 0));
}

static void add_cause(struct ag_table *table, struct ag_view *view,
                      const struct ag_collections *collections,
                      const struct ag_collection_sum *sum) {
    struct ag_quantity number;
    struct ag_frame_text text;
    ag_table_cell(table, ag_quantity_count(&number, sum->collections));
    ag_table_cell(table, ag_quantity_share(&number, sum->collections, collections->n_rows));
    ag_table_cell(table, ag_quantity_time(&number, sum->pause_total_ns));
    if (has_allocated(collections)) {
        add_bytes(table, sum->allocated_bytes, true);
    }
    add_bytes(table, sum->needed_bytes, sum->needed_bytes > 0);
    add_bytes(table, sum->reclaimed_bytes, sum->reclaimed_bytes > 0);
    ag_table_cell(table, cause_name(&text, view, sum->cause_frame));
}

static int write_blame(struct ag_view *view, const struct ag_collections *collections) {
    enum { ALLOCATED = 3 };
    static const struct ag_column columns[] = {
        {.head = "collections", .style = AG_STYLE_BRIGHT},
        {.head = "share"},
        {.head = "paused"},
        [ALLOCATED] = {.head = "allocated", .style = AG_STYLE_BRIGHT},
        {.head = "needed"},
        {.head = "reclaimed"},
        {.head = "because of",
         .align = AG_ALIGN_LEFT,
         .style = AG_STYLE_BRIGHT,
         .least_columns = 16},
    };
    struct ag_column shown[sizeof columns / sizeof columns[0]];
    size_t n = 0;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if (i != ALLOCATED || has_allocated(collections)) {
            shown[n++] = columns[i];
        }
    }
    return write_ranked(view, collections, collections->causes, collections->n_causes,
                        ag_table_new(shown, n), add_cause, "more function");
}

static void add_process(struct ag_table *table, struct ag_view *view,
                        const struct ag_collections *collections,
                        const struct ag_collection_sum *sum) {
    struct ag_quantity number;
    struct ag_frame_text text;
    ag_table_cell(table, sum->process);
    ag_table_cell(table, ag_quantity_count(&number, sum->collections));
    ag_table_cell(table, ag_quantity_share(&number, sum->collections, collections->n_rows));
    ag_table_cell(table, ag_quantity_time(&number, sum->pause_total_ns));
    ag_table_cell(table, ag_quantity_time(&number, sum->pause_max_ns));
    add_bytes(table, sum->reclaimed_bytes, sum->reclaimed_bytes > 0);
    ag_table_cell(table, cause_name(&text, view, sum->cause_frame));
}

static int write_processes(struct ag_view *view, const struct ag_collections *collections) {
    static const struct ag_column columns[] = {
        {.head = "process", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 12},
        {.head = "collections", .style = AG_STYLE_BRIGHT},
        {.head = "share"},
        {.head = "paused"},
        {.head = "longest"},
        {.head = "reclaimed"},
        {.head = "longest because of", .align = AG_ALIGN_LEFT, .least_columns = 12},
    };
    return write_ranked(view, collections, collections->processes, collections->n_processes,
                        ag_table_new(columns, sizeof columns / sizeof columns[0]), add_process,
                        "more process");
}

/* Writes how many collections were recorded, if there were too many to record all. */
static void write_sampled(struct ag_view *view, const struct ag_collections *collections) {
    const uint64_t n_seen = ag_profile_observed(view->profile)->collections_seen;
    struct ag_quantity seen, reported;
    if (view->options->filter == NULL && n_seen > collections->n_rows + collections->n_rows / 8) {
        ag_page_prose(
            view->page, AG_STYLE_PLAIN,
            "  %s collections, of which %s were recorded, sampled by the bytes allocated before "
            "them",
            ag_quantity_count(&seen, n_seen), ag_quantity_count(&reported, collections->n_rows));
    }
}

static void write_sums(struct ag_view *view, const struct ag_collections *collections) {
    write_sampled(view, collections);
    for (size_t i = 0; i < collections->n_runtimes; i++) {
        const struct ag_collection_sum *sum = &collections->runtimes[i];
        struct ag_quantity count, total, longest, reclaimed, promoted, unended;
        ag_quantity_bytes(&promoted, sum->promoted_bytes);
        ag_quantity_count(&unended, sum->unended);
        ag_page_prose(view->page, sum->unended > 0 ? AG_STYLE_WARNING : AG_STYLE_PLAIN,
                      "  %s: %s %s paused %s, %.1f %% of the time, the longest %s; %s "
                      "reclaimed%s%s%s%s%s%s",
                      runtime_words(sum->runtime), ag_quantity_count(&count, sum->collections),
                      sum->collections == 1 ? "collection" : "collections",
                      ag_quantity_time(&total, sum->pause_total_ns), 100 * time_share(view, sum),
                      ag_quantity_time(&longest, sum->pause_max_ns),
                      ag_quantity_bytes(&reclaimed, sum->reclaimed_bytes),
                      sum->has_promoted ? ", " : "", sum->has_promoted ? promoted.text : "",
                      sum->has_promoted ? " promoted" : "", sum->unended > 0 ? "; " : "",
                      sum->unended > 0 ? unended.text : "", sum->unended > 0 ? " did not end" : "");
    }
    ag_page_end_line(view->page);
}

int ag_gc_view_text(struct ag_view *view) {
    const struct ag_collections *collections;
    const int r = ag_profile_collections(view->profile, &collections);
    if (r < 0) {
        return r;
    }
    if (collections->n_rows == 0) {
        ag_page_prose(view->page, AG_STYLE_PLAIN,
                      "no collection in %s: this view needs a runtime that reports its collections",
                      view->options->filter != NULL ? "what was selected" : "this process");
        return 0;
    }
    write_sums(view, collections);
    return view->options->has_blame             ? write_blame(view, collections)
           : view->options->by == AG_BY_PROCESS ? write_processes(view, collections)
                                                : write_pauses(view, collections);
}
