/* lifetimes_view.c: `report --view=lifetimes`: how long blocks live, as a histogram of all blocks,
 * and as percentiles for each function (or line, image, type, label or process; an image is a
 * program or library; a label is a name that the program gave to a part of its work). Only freed
 * blocks have a lifetime, so the numbers of allocated and of ended blocks are shown, too. */
#include <math.h>
#include <string.h>

#include "model/answers/lifetimes.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/table.h"
#include "report/view.h"

static uint64_t value_of(const struct ag_lifetime *lifetime, enum ag_metric metric) {
    switch (metric) {
    case AG_METRIC_ALLOCATED_BLOCKS:
        return lifetime->blocks;
    case AG_METRIC_IN_USE_BYTES:
        return lifetime->bytes - lifetime->ended_bytes;
    case AG_METRIC_IN_USE_BLOCKS:
        return lifetime->blocks - lifetime->ended;
    case AG_METRIC_FREED_BYTES:
        return lifetime->ended_bytes;
    case AG_METRIC_FREED_BLOCKS:
        return lifetime->ended;
    case AG_METRIC_DEFAULT:
    case AG_METRIC_ALLOCATED_BYTES:
    case AG_METRIC_PEAK_BYTES: /* struct ag_lifetime has no sums of these metrics */
    case AG_METRIC_PEAK_BLOCKS:
    case AG_METRIC_TEMPORARY_BLOCKS:
    case AG_METRIC_END:
        break;
    }
    return lifetime->bytes;
}

static int rank_lifetimes(struct ag_view *view, const struct ag_lifetimes **ret_lifetimes,
                          struct ag_ranking *ranking) {
    int r = ag_profile_lifetimes(view->profile, view->options->by, ret_lifetimes);
    r = r < 0 ? r : ag_ranking_start(ranking, (*ret_lifetimes)->n_rows);
    for (size_t i = 0; r == 0 && i < (*ret_lifetimes)->n_rows; i++) {
        const struct ag_lifetime *lifetime = &(*ret_lifetimes)->rows[i].lifetime;
        if (lifetime->blocks >= view->options->min_count) {
            ag_ranking_add(ranking, (struct ag_rank){.first = value_of(lifetime, view->sort),
                                                     .second = lifetime->blocks,
                                                     .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(ranking);
    return r;
}

/* ---- JSON ---- */

/* Writes how blocks survived garbage collections. All values are null for native blocks, which are
 * not collected, and if the collector does not report which blocks it moves or promotes. */
static void write_survival_json(struct ag_json *json, const struct ag_survival *survival) {
    static const char *const counts[] = {"young_blocks", "survived_blocks", "died_young_blocks",
                                         "promoted_blocks", "promoted_bytes"};
    const uint64_t values[] = {survival->blocks, survival->survived_blocks,
                               survival->died_young_blocks, survival->promoted_blocks,
                               survival->promoted_bytes};
    const bool is_known = survival->blocks > 0;
    ag_json_open(json, "survived_collections", '{');
    if (is_known) {
        ag_json_decimal(json, "mean", survival->mean_collections, /* decimals= */ 6);
    } else {
        ag_json_null(json, "mean");
    }
    ag_json_integer_if(json, "max", survival->max_collections, is_known);
    ag_json_close(json, '}');
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        ag_json_integer_if(json, counts[i], values[i], is_known);
    }
}

static void write_number(struct ag_view *view, const char *key, uint64_t number,
                         const struct ag_lifetime *lifetime, enum ag_metric metric) {
    if (lifetime->has_intervals) {
        ag_json_metric(view, key, &lifetime->metrics, metric);
    } else {
        ag_json_integer(view->json, key, number);
    }
}

static void write_site_json(struct ag_view *view, const struct ag_lifetime_row *row) {
    struct ag_json *json = view->json;
    const struct ag_frame none = {.runtime = "c"};
    struct ag_frame key = none;
    if (!ag_site_key_is_named(view->options->by)) {
        key = *ag_profile_frame(view->profile, row->frame);
    }
    if (view->options->by == AG_BY_IMAGE) {
        key = (struct ag_frame){.image = key.image, .runtime = key.runtime};
    }
    ag_json_open(json, NULL, '{');
    ag_json_frame(json, &key);
    ag_json_string(json, "type", row->type);
    if (view->options->by == AG_BY_LABEL) {
        ag_json_string(json, "label", row->label);
    } else if (view->options->by == AG_BY_OS_PROCESS) {
        ag_process_key_json(json, view->profile, row->process);
    }
    write_number(view, "blocks", row->lifetime.blocks, &row->lifetime, AG_METRIC_ALLOCATED_BLOCKS);
    write_number(view, "bytes", row->lifetime.bytes, &row->lifetime, AG_METRIC_ALLOCATED_BYTES);
    write_number(view, "ended", row->lifetime.ended, &row->lifetime, AG_METRIC_FREED_BLOCKS);
    ag_json_lifetime(json, &row->lifetime, /* has_p90= */ true);
    write_survival_json(json, &row->survival);
    ag_json_close(json, '}');
}

int ag_lifetimes_view_json(struct ag_view *view) {
    const struct ag_lifetimes *lifetimes;
    struct ag_ranking ranking = {.ranks = NULL};
    const int r = rank_lifetimes(view, &lifetimes, &ranking);
    if (r == 0) {
        ag_json_open(view->json, "sites", '[');
        for (size_t i = 0; i < ranking.count && i < view->limit; i++) {
            write_site_json(view, &lifetimes->rows[ranking.ranks[i].row]);
        }
        ag_json_close(view->json, ']');
        ag_json_open(view->json, "histogram", '[');
        for (size_t i = 0; i < lifetimes->n_steps; i++) {
            const struct ag_lifetime_step *step = &lifetimes->steps[i];
            ag_json_open(view->json, NULL, '{');
            ag_json_integer(view->json, "from_ns", step->from_ns);
            ag_json_integer(view->json, "to_ns", step->to_ns);
            ag_json_integer(view->json, "blocks", step->blocks);
            ag_json_integer(view->json, "bytes", step->bytes);
            ag_json_close(view->json, '}');
        }
        ag_json_close(view->json, ']');
    }
    ag_ranking_end(&ranking);
    return r;
}

/* ---- text ---- */

/* Formats a time. A time below the resolution of the trace's times becomes "<" and the
 * resolution. */
static const char *time_text(struct ag_quantity *buffer, const struct ag_view *view,
                             uint64_t time_ns, bool is_known) {
    const uint64_t resolution_ns = ag_profile_summary(view->profile)->time_resolution_ns;
    if (!is_known || time_ns == AG_LIFETIME_UNKNOWN) {
        return strcpy(buffer->text, "-");
    }
    if (time_ns < resolution_ns) {
        struct ag_quantity resolution;
        snprintf(buffer->text, sizeof buffer->text, "<%s",
                 ag_quantity_time(&resolution, resolution_ns));
        return buffer->text;
    }
    return ag_quantity_time(buffer, time_ns);
}

enum { BAR_MOST_COLUMNS = 40, BAR_LEAST_COLUMNS = 8, BESIDE_BAR_COLUMNS = 58 };

/* The width of the bars. It is chosen to fit the page, because a table shortens longer cells in
 * their middle. */
static size_t bar_columns(const struct ag_page *page) {
    const size_t room = page->columns > BESIDE_BAR_COLUMNS + BAR_LEAST_COLUMNS
                            ? page->columns - BESIDE_BAR_COLUMNS
                            : BAR_LEAST_COLUMNS;
    return room < BAR_MOST_COLUMNS ? room : BAR_MOST_COLUMNS;
}

static void add_step(struct ag_table *table, const struct ag_lifetime_step *step, uint64_t most,
                     uint64_t all, size_t columns) {
    struct ag_quantity number, other;
    char bar[BAR_MOST_COLUMNS * 3 + 1] = "", range[96];
    snprintf(range, sizeof range, "%s to %s", ag_quantity_time(&number, step->from_ns),
             step->to_ns == UINT64_MAX ? "any" : ag_quantity_time(&other, step->to_ns));
    const size_t length = (size_t)ceil((double)step->blocks / (double)most * (double)columns);
    for (size_t k = 0; k < length && k < columns; k++) {
        memcpy(bar + 3 * k, "\xe2\x96\x88", 4);
    }
    ag_table_cell(table, range);
    ag_table_cell(table, ag_quantity_count(&number, step->blocks));
    ag_table_cell(table, ag_quantity_share(&number, step->blocks, all));
    ag_table_cell(table, ag_quantity_bytes(&number, step->bytes));
    ag_table_cell(table, bar);
}

/* Writes the histogram, with a bar for each step (a range of lifetimes). Steps that end below the
 * trace's resolution become one step, because the trace cannot distinguish them. */
static int write_histogram(struct ag_view *view, const struct ag_lifetimes *lifetimes) {
    static const struct ag_column columns[] = {
        {.head = "lived"}, {.head = "blocks", .style = AG_STYLE_BRIGHT}, {.head = "share"},
        {.head = "bytes"}, {.head = "", .align = AG_ALIGN_LEFT},
    };
    struct ag_table *table = ag_table_new(columns, sizeof columns / sizeof columns[0]);
    const uint64_t resolution_ns = ag_profile_summary(view->profile)->time_resolution_ns;
    struct ag_lifetime_step below = {0};
    uint64_t most = 1;
    const size_t bar = bar_columns(view->page);
    size_t first = 0;
    for (; first < lifetimes->n_steps && lifetimes->steps[first].to_ns <= resolution_ns; first++) {
        below.to_ns = lifetimes->steps[first].to_ns;
        below.blocks += lifetimes->steps[first].blocks;
        below.bytes += lifetimes->steps[first].bytes;
    }
    most = below.blocks > most ? below.blocks : most;
    for (size_t i = first; i < lifetimes->n_steps; i++) {
        most = lifetimes->steps[i].blocks > most ? lifetimes->steps[i].blocks : most;
    }
    if (first > 0) {
        add_step(table, &below, most, lifetimes->all.ended, bar);
    }
    for (size_t i = first; i < lifetimes->n_steps; i++) {
        add_step(table, &lifetimes->steps[i], most, lifetimes->all.ended, bar);
    }
    const int r = ag_table_write(table, view->page);
    ag_table_free(table);
    if (r == 0 && first > 0 && first < lifetimes->n_steps &&
        lifetimes->steps[first].from_ns < resolution_ns) {
        struct ag_quantity resolution;
        ag_page_print(view->page, AG_STYLE_DIM,
                      "  lifetimes below %s, the trace's resolution, are not distinguished\n",
                      ag_quantity_time(&resolution, resolution_ns));
    }
    return r;
}

/* Adds two cells: the share of blocks that survived a collection, among those that survived a
 * collection or died before their first collection; and the bytes promoted to an older
 * generation. */
static void add_survival(struct ag_table *table, const struct ag_survival *survival) {
    struct ag_quantity number;
    const uint64_t decided = survival->survived_blocks + survival->died_young_blocks;
    ag_table_cell(
        table, decided > 0 ? ag_quantity_share(&number, survival->survived_blocks, decided) : "");
    ag_table_cell(table,
                  survival->blocks > 0 ? ag_quantity_bytes(&number, survival->promoted_bytes) : "");
}

enum { INTERVAL_BYTES = 96 };

static const char *interval_words(char words[INTERVAL_BYTES], const struct ag_view *view,
                                  const uint64_t interval_ns[2], bool is_known) {
    struct ag_quantity low, high;
    snprintf(
        words, INTERVAL_BYTES, "%.40s to %.40s", time_text(&low, view, interval_ns[0], is_known),
        interval_ns[1] == AG_LIFETIME_UNKNOWN ? "any"
                                              : time_text(&high, view, interval_ns[1], is_known));
    return is_known && interval_ns[0] != AG_LIFETIME_UNKNOWN ? words : "";
}

static void add_row(struct ag_view *view, struct ag_table *table, const struct ag_lifetime_row *row,
                    bool has_survival) {
    const struct ag_lifetime *lifetime = &row->lifetime;
    const bool is_known = lifetime->ended > 0;
    struct ag_quantity number;
    ag_table_cell(table, ag_quantity_bytes(&number, lifetime->bytes));
    if (lifetime->has_intervals) {
        ag_table_cell(table,
                      ag_quantity_spread(&number, &lifetime->metrics, AG_METRIC_ALLOCATED_BYTES));
    }
    ag_table_cell(table, ag_quantity_count(&number, lifetime->blocks));
    ag_table_cell(table, ag_quantity_count(&number, lifetime->ended));
    ag_table_cell(table, time_text(&number, view, lifetime->p50_ns, is_known));
    if (lifetime->has_intervals) {
        char words[INTERVAL_BYTES];
        ag_table_cell(table, interval_words(words, view, lifetime->p50_interval_ns, is_known));
    }
    ag_table_cell(table, time_text(&number, view, lifetime->p90_ns, is_known));
    ag_table_cell(table, time_text(&number, view, lifetime->p99_ns, is_known));
    ag_table_cell(table, time_text(&number, view, lifetime->max_ns, is_known));
    if (has_survival) {
        add_survival(table, &row->survival);
    }
    ag_table_key_cells(table, view->options->by, row->label,
                       ag_profile_frame(view->profile, row->frame));
}

/* HAS_SURVIVAL: there are blocks that a collector moves or promotes. IS_SAMPLED: the numbers have
 * intervals. On a narrow page, columns are left out in the order of their spare values, the highest
 * first. */
static struct ag_table *new_table(enum ag_site_key by, bool has_survival, bool is_sampled) {
    const struct ag_column all[] = {
        {.head = "allocated", .style = AG_STYLE_BRIGHT},
        {.head = "±", .style = AG_STYLE_DIM},
        {.head = "blocks"},
        {.head = "ended", .spare = 4},
        {.head = "p50"},
        {.head = "95 % of p50", .style = AG_STYLE_DIM, .spare = 6},
        {.head = "p90", .spare = 5},
        {.head = "p99", .spare = 1},
        {.head = "max", .spare = 3},
        {.head = "survived"},
        {.head = "promoted", .spare = 2},
        {.head = by == AG_BY_LINE ? "function" : ag_report_key_name(by),
         .align = AG_ALIGN_LEFT,
         .style = AG_STYLE_BRIGHT,
         .least_columns = 16},
        {.head = by == AG_BY_FUNCTION || by == AG_BY_LINE ? "where" : "",
         .align = AG_ALIGN_LEFT,
         .style = AG_STYLE_DIM,
         .least_columns = 10},
    };
    enum { SPREAD = 1, INTERVAL = 5, SURVIVED = 9, NAMES = 11 };
    struct ag_column columns[AG_ARRAY_SIZE(all)];
    size_t n = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(all); i++) {
        if ((has_survival || i < SURVIVED || i >= NAMES) &&
            (is_sampled || (i != SPREAD && i != INTERVAL))) {
            columns[n++] = all[i];
        }
    }
    return ag_table_new(columns, n);
}

static int write_sites(struct ag_view *view, const struct ag_lifetimes *lifetimes,
                       struct ag_ranking *ranking) {
    const bool has_survival = lifetimes->all_survival.blocks > 0;
    struct ag_table *table =
        new_table(view->options->by, has_survival, lifetimes->all.has_intervals);
    for (size_t i = 0; i < ranking->count && i < view->limit; i++) {
        add_row(view, table, &lifetimes->rows[ranking->ranks[i].row], has_survival);
    }
    const uint64_t whole = value_of(&lifetimes->all, view->sort);
    return ag_ranking_write_table(ranking, view->limit, table, view->page, /* what= */ NULL,
                                  ag_ranking_sum(ranking, view->limit), whole);
}

static void write_survival(struct ag_view *view, const struct ag_survival *survival) {
    struct ag_quantity kept, dead, blocks, bytes;
    if (survival->blocks > 0) {
        ag_page_print(view->page, AG_STYLE_PLAIN,
                      "%s survived a collection, %s died before one; %s promoted, %s\n",
                      ag_quantity_count(&kept, survival->survived_blocks),
                      ag_quantity_count(&dead, survival->died_young_blocks),
                      ag_quantity_count(&blocks, survival->promoted_blocks),
                      ag_quantity_bytes(&bytes, survival->promoted_bytes));
    }
}

int ag_lifetimes_view_text(struct ag_view *view) {
    const struct ag_lifetimes *lifetimes;
    struct ag_ranking ranking = {.ranks = NULL};
    int r = rank_lifetimes(view, &lifetimes, &ranking);
    if (r == 0) {
        struct ag_quantity ended, blocks;
        ag_page_print(view->page, AG_STYLE_PLAIN, "%s of %s blocks ended\n",
                      ag_quantity_count(&ended, lifetimes->all.ended),
                      ag_quantity_count(&blocks, lifetimes->all.blocks));
        write_survival(view, &lifetimes->all_survival);
        ag_page_end_line(view->page);
        r = write_histogram(view, lifetimes);
    }
    if (r == 0) {
        ag_page_end_line(view->page);
        r = write_sites(view, lifetimes, &ranking);
    }
    ag_ranking_end(&ranking);
    return r;
}
