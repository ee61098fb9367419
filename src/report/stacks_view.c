/* stacks_view.c: the reports that list stacks: --view=leaks (blocks in use at the end), --view=peak
 * (blocks in use at the peak) and --view=temporary (blocks freed before their thread allocated
 * again). The three reports differ in their metric. --view=leaks also leaves out suppressed stacks:
 * leaks that users have accepted (suppression.h), and blocks that the C and C++ runtime is known to
 * keep until the end (known_blocks.h). Other views list stacks with ag_stacks_write_text and
 * ag_stacks_write_json, such as --view=types with --type. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/blamed_lines.h"
#include "model/answers/collections.h"
#include "model/answers/known_blocks.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/suppression.h"
#include "report/table.h"
#include "report/view.h"
#include "table/array.h"
#include "table/index_map.h"

enum { USUAL_TEXT_FRAMES = 8, STACK_INDENT = 4 };

/* ---- groups: stacks that look the same to a person ----
 *
 * The recorder distinguishes stacks by addresses: two calls on one source line, or one library
 * loaded twice, give two stacks. Here stacks with the same frames (or the same first N frames, with
 * --frames=N) and the same allocation function are one group. The profile gives equal frames the
 * same number, so two stacks are equal if their arrays of frame numbers are. The heading counts the
 * recorded stacks, whose number does not depend on how many frames are shown.
 *
 * With --by=os_process, a group is all stacks of a process. */

struct stack_group {
    const uint32_t *frames;         /* frame numbers of the profile, innermost first */
    size_t n_frames;                /* all frames of the stack, or the first N of --frames=N */
    const struct ag_stack_row *row; /* the first stack of the group */
    uint32_t process; /* with --by=os_process: number for ag_profile_process; otherwise 0 */
    bool is_process;  /* --by=os_process */
    struct ag_metrics metrics;
};
struct stacks {
    struct stack_group *groups;
    size_t count;
    struct ag_metrics total;      /* sum over all groups */
    struct ag_index_map recorded; /* numbers of the recorded stacks (ag_profile_recorded_stack) */
    struct ag_index_map by_hash;
    struct ag_ranking ranking;
};

static uint64_t hash_of(const struct stack_group *group) {
    if (group->is_process) {
        return group->process;
    }
    const char *via = group->row->via_name != NULL ? group->row->via_name : "";
    return ag_keyed_hash_pair(
        ag_keyed_hash_bytes(group->frames, group->n_frames * sizeof *group->frames),
        ag_keyed_hash_bytes(via, strlen(via)));
}

static int same_name(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static int is_same(const struct stack_group *a, const struct stack_group *b) {
    if (a->is_process) {
        return a->process == b->process;
    }
    return a->n_frames == b->n_frames && same_name(a->row->via_name, b->row->via_name) &&
           (a->n_frames == 0 || memcmp(a->frames, b->frames, a->n_frames * sizeof *a->frames) == 0);
}

static int stacks_add(struct stacks *stacks, const struct stack_group *group) {
    const uint64_t hash = hash_of(group);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&stacks->by_hash, hash, &cursor)) != AG_INDEX_NONE &&
           !is_same(&stacks->groups[at], group)) {
    }
    ag_metrics_add(&stacks->total, &group->metrics);
    if (at != AG_INDEX_NONE) {
        ag_metrics_add(&stacks->groups[at].metrics, &group->metrics);
        return 0;
    }
    const int r = ag_index_map_insert(&stacks->by_hash, hash, (uint32_t)stacks->count);
    return r < 0 ? r : AG_ARRAY_ADD(stacks->groups, stacks->count, *group);
}

/* If the report is of a range of time (--from), blocks allocated before the range may count as in
 * use, freed or at the peak. So a stack may matter although it allocated nothing in the range. */
static bool has_any(const struct ag_metrics *metrics, enum ag_metric blocks) {
    return ag_metric_of(metrics, blocks) != 0 ||
           (blocks == AG_METRIC_ALLOCATED_BLOCKS &&
            (metrics->in_use_blocks | metrics->freed_blocks | metrics->peak_blocks) != 0);
}

/* The metric that decides which stacks are shown: a stack whose value is 0 is left out. The view of
 * mappings shows several metrics, so it uses one that is not 0 for any stack. */
static enum ag_metric counted_blocks(const struct ag_view *view) {
    return view->is_of_mappings ? AG_METRIC_ALLOCATED_BLOCKS : ag_metric_blocks_of(view->sort);
}

struct suppressing {
    struct ag_profile *profile;
    struct ag_suppressions *suppressions; /* NULL: none */
    /* what was left out for each entry of known_blocks.def; NULL: no memory */
    struct ag_metrics *known;
};

static bool is_not_suppressed(void *context, const struct ag_stack_row *row, const uint32_t *frames,
                              size_t n_frames) {
    struct suppressing *suppressing = context;
    const struct ag_stack_row *rows;
    (void)ag_profile_stacks(suppressing->profile, &rows);
    const unsigned known = ag_profile_known(suppressing->profile, (size_t)(row - rows));
    if (known != 0) {
        ag_metrics_add(&suppressing->known[known - 1], &row->metrics);
        return false;
    }
    for (size_t i = 0; i < n_frames && suppressing->suppressions != NULL; i++) {
        struct ag_suppression *suppression = ag_suppressions_match(
            suppressing->suppressions, ag_profile_frame(suppressing->profile, frames[i]));
        if (suppression != NULL) {
            suppression->blocks += row->metrics.in_use_blocks;
            suppression->bytes += row->metrics.in_use_bytes;
            return false;
        }
    }
    return true;
}

static void end_stacks(struct stacks *stacks) {
    ag_ranking_end(&stacks->ranking);
    free(stacks->groups);
    ag_index_map_done(&stacks->by_hash);
    ag_index_map_done(&stacks->recorded);
}

static int group_stacks(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context,
                        struct stacks *stacks) {
    const uint64_t most_frames = view->options->frames;
    const struct ag_stack_row *rows;
    const size_t n_rows = ag_profile_stacks(view->profile, &rows);
    int r = 0;
    for (size_t i = 0; i < n_rows && r == 0; i++) {
        /* the metric counts blocks, because a block of 0 bytes can leak, too */
        if (!has_any(&rows[i].metrics, counted_blocks(view))) {
            continue;
        }
        struct stack_group group = {.row = &rows[i], .metrics = rows[i].metrics};
        const size_t n = ag_profile_stack_frames(view->profile, rows[i].stack, &group.frames);
        group.n_frames = most_frames != 0 && most_frames < n ? (size_t)most_frames : n;
        if (view->options->by == AG_BY_OS_PROCESS) {
            group.is_process = true;
            group.process = ag_profile_process_of_row(view->profile, i);
        }
        if (is_wanted == NULL || is_wanted(context, &rows[i], group.frames, n)) {
            r = ag_index_map_number(&stacks->recorded,
                                    ag_profile_recorded_stack(view->profile, &rows[i]), NULL);
            r = r < 0 ? r : stacks_add(stacks, &group);
        }
    }
    return r;
}

/* Returns 0, and then the caller must call end_stacks later; or a negative errno. */
static int rank_stacks(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context,
                       struct stacks *ret_stacks) {
    struct stacks stacks = {.count = 0};
    int r = group_stacks(view, is_wanted, context, &stacks);
    r = r < 0 ? r : ag_ranking_start(&stacks.ranking, stacks.count);
    if (r < 0) {
        end_stacks(&stacks);
        return r;
    }
    const enum ag_metric blocks = counted_blocks(view);
    for (size_t i = 0; i < stacks.count; i++) {
        const struct ag_metrics *metrics = &stacks.groups[i].metrics;
        if (ag_metric_of(metrics, blocks) >= view->options->min_count) {
            ag_ranking_add(&stacks.ranking,
                           (struct ag_rank){.first = ag_metric_of(metrics, view->sort),
                                            .second = ag_metric_of(metrics, blocks),
                                            .row = (uint32_t)i});
        }
    }
    ag_ranking_sort(&stacks.ranking);
    *ret_stacks = stacks;
    return 0;
}

/* Whether the blocks of GROUP are in use at the end, and a garbage collector frees such blocks. */
static bool is_collected(const struct ag_view *view, const struct stack_group *group) {
    const struct ag_stack_row *rows;
    (void)ag_profile_stacks(view->profile, &rows);
    return !view->is_of_mappings && !view->options->is_at_a_time && !view->options->has_window &&
           ag_profile_row_is_collected(view->profile, (size_t)(group->row - rows));
}

static void write_stack_json(struct ag_view *view, const struct stack_group *group) {
    struct ag_json *json = view->json;
    ag_json_open(json, NULL, '{');
    if (view->is_of_mappings) {
        const struct ag_frame *line = ag_profile_blamed_frame(view->profile, group->row);
        ag_json_frame(json, line != NULL ? line : &(struct ag_frame){.runtime = NULL});
        ag_mappings_numbers_json(view, &group->metrics);
    } else {
        ag_json_metrics(view, &group->metrics);
    }
    ag_json_string(json, "via", group->row->via_name);
    ag_json_string(json, "heap", group->row->heap_name);
    ag_json_string(json, "state", ag_stack_state_name(group->row->state));
    if (is_collected(view, group)) {
        ag_json_bool(json, "collected", true);
    }
    ag_json_frames(json, "frames", view->profile, group->frames, group->n_frames);
    ag_json_close(json, '}');
}

static void write_process_json(struct ag_view *view, const struct stack_group *group) {
    ag_json_open(view->json, NULL, '{');
    ag_process_key_json(view->json, view->profile, group->process);
    ag_json_metrics(view, &group->metrics);
    ag_json_close(view->json, '}');
}

static void write_stacks_json(struct ag_view *view, const struct stacks *stacks) {
    const bool is_by_process = view->options->by == AG_BY_OS_PROCESS;
    ag_json_open(view->json, "total", '{');
    if (view->is_of_mappings) {
        ag_mappings_numbers_json(view, &stacks->total);
    } else {
        ag_json_metrics(view, &stacks->total);
    }
    ag_json_close(view->json, '}');
    ag_json_open(view->json,
                 is_by_process          ? "processes"
                 : view->is_of_mappings ? "mappings"
                                        : "stacks",
                 '[');
    for (size_t i = 0; i < stacks->ranking.count && i < view->limit; i++) {
        const struct stack_group *group = &stacks->groups[stacks->ranking.ranks[i].row];
        if (is_by_process) {
            write_process_json(view, group);
        } else {
            write_stack_json(view, group);
        }
    }
    ag_json_close(view->json, ']');
}

/* Writes "80.0 KiB in 3 blocks" for a metric of bytes, "3 blocks" for a metric of blocks. */
static void write_amount(struct ag_page *page, enum ag_style style, enum ag_metric metric,
                         const struct ag_metrics *metrics) {
    struct ag_quantity bytes, count;
    uint64_t blocks = ag_metric_of(metrics, ag_metric_blocks_of(metric));
    const char *noun = ag_blocks_word(blocks);
    if (ag_metric_is_bytes(metric)) {
        ag_page_print(page, style, "%s in %s %s",
                      ag_quantity_bytes(&bytes, ag_metric_of(metrics, metric)),
                      ag_quantity_count(&count, blocks), noun);
    } else {
        ag_page_print(page, style, "%s %s", ag_quantity_count(&count, blocks), noun);
    }
    if (*ag_quantity_spread(&bytes, metrics, metric) != '\0') {
        ag_page_print(page, AG_STYLE_PLAIN, " (%s)", bytes.text);
    }
}

static void write_frame_text(struct ag_page *page, const struct ag_frame *frame) {
    enum { INDENT = 6, MOST_WHERE = 30, INLINED_COLUMNS = 8 };
    struct ag_frame_text text;
    struct ag_fitted fitted;
    /* On a narrow page the location has at most this width, so that the function's name has
     * more. */
    const size_t share = page->columns * 3 / 8;
    const size_t most_where = share < MOST_WHERE ? share : MOST_WHERE;
    size_t where_columns = ag_page_columns_of(ag_frame_where(&text, frame));
    const size_t room_of_where = most_where - (frame->is_inlined ? INLINED_COLUMNS : 0);
    where_columns = where_columns < room_of_where ? where_columns : room_of_where;
    size_t room = page->columns - INDENT - 2 - most_where;
    size_t taken = ag_page_fit(&fitted, ag_frame_function(&text, frame), room);
    ag_page_spaces(page, INDENT);
    ag_page_text(page, frame->is_known ? AG_STYLE_PLAIN : AG_STYLE_DIM, fitted.text);
    if (where_columns > 0) {
        ag_page_spaces(page, room - taken + 2);
        ag_page_fit(&fitted, ag_frame_where(&text, frame), where_columns);
        ag_page_text(page, AG_STYLE_DIM, fitted.text);
    }
    ag_page_text(page, AG_STYLE_DIM, frame->is_inlined ? " inlined\n" : "\n");
}

static void write_stack_text(struct ag_view *view, const struct stack_group *group,
                             uint64_t whole) {
    struct ag_page *page = view->page;
    struct ag_quantity share;
    ag_page_text(page, AG_STYLE_PLAIN, "  ");
    if (view->is_of_mappings) {
        ag_mappings_amounts_text(view, STACK_INDENT, &group->metrics);
    } else {
        write_amount(page, AG_STYLE_BRIGHT, view->sort, &group->metrics);
    }
    char text[64];
    snprintf(text, sizeof text, "  %s  by ",
             ag_quantity_share(&share, ag_metric_of(&group->metrics, view->sort), whole));
    ag_page_wrap(page, AG_STYLE_DIM, STACK_INDENT, text);
    ag_page_wrap(page, AG_STYLE_DIM, STACK_INDENT,
                 group->row->via_name != NULL ? group->row->via_name : "?");
    ag_page_wrap(page, AG_STYLE_DIM, STACK_INDENT,
                 group->row->state == AG_STACK_INCOMPLETE
                     ? ", incomplete: the stack could not be walked to its end"
                 : group->row->state == AG_STACK_CUT ? ", stack cut by --depth"
                                                     : "");
    if (view->sort == AG_METRIC_IN_USE_BYTES || view->sort == AG_METRIC_IN_USE_BLOCKS) {
        ag_page_wrap(page, AG_STYLE_DIM, STACK_INDENT,
                     is_collected(view, group) ? ", not collected at exit" : "");
    }
    ag_page_end_line(page);
    size_t n_frames = group->n_frames;
    if (view->options->frames == 0 && n_frames > USUAL_TEXT_FRAMES + 1) {
        n_frames = USUAL_TEXT_FRAMES;
    }
    for (size_t i = 0; i < n_frames; i++) {
        write_frame_text(page, ag_profile_frame(view->profile, group->frames[i]));
    }
    if (view->options->frames == 0 && n_frames < group->n_frames) {
        ag_page_print(page, AG_STYLE_DIM, "      ... %zu more callers\n",
                      group->n_frames - n_frames);
    }
    ag_page_end_line(page);
}

/* Writes the table of processes. Frees the ranking. */
static int write_processes_text(struct ag_view *view, struct stacks *stacks) {
    const bool is_bytes = ag_metric_is_bytes(view->sort);
    const enum ag_metric blocks = ag_metric_blocks_of(view->sort);
    const uint64_t whole = ag_metric_of(&stacks->total, view->sort);
    const struct ag_unit unit = is_bytes ? ag_unit_of_bytes(whole) : ag_unit_of_blocks(whole);
    const struct ag_unit blocks_unit = ag_unit_of_blocks(ag_metric_of(&stacks->total, blocks));
    const bool is_sampled = ag_profile_identity(view->profile)->is_sampled;
    char heads[2][64];
    snprintf(heads[0], sizeof heads[0], "%s %s", ag_metric_words(view->sort), unit.name);
    snprintf(heads[1], sizeof heads[1], "blocks %s", blocks_unit.name);
    struct ag_column columns[5];
    size_t n = 0;
    columns[n++] = (struct ag_column){.head = heads[0], .style = AG_STYLE_BRIGHT};
    if (is_sampled) {
        columns[n++] = (struct ag_column){.head = "±", .style = AG_STYLE_DIM};
    }
    columns[n++] = (struct ag_column){.head = "share"};
    if (is_bytes) {
        columns[n++] = (struct ag_column){.head = heads[1]};
    }
    columns[n++] = (struct ag_column){.head = ag_report_key_name(AG_BY_OS_PROCESS),
                                      .align = AG_ALIGN_LEFT,
                                      .style = AG_STYLE_BRIGHT,
                                      .least_columns = 16};
    struct ag_table *table = ag_table_new(columns, n);
    for (size_t i = 0; i < stacks->ranking.count && i < view->limit; i++) {
        const struct stack_group *group = &stacks->groups[stacks->ranking.ranks[i].row];
        const uint64_t value = ag_metric_of(&group->metrics, view->sort);
        struct ag_quantity number;
        ag_table_cell(table, ag_quantity_in(&number, value, unit));
        if (is_sampled) {
            ag_table_cell(table, ag_quantity_spread(&number, &group->metrics, view->sort));
        }
        ag_table_cell(table, ag_quantity_share(&number, value, whole));
        if (is_bytes) {
            ag_table_cell(
                table, ag_quantity_in(&number, ag_metric_of(&group->metrics, blocks), blocks_unit));
        }
        ag_table_cell(table, ag_profile_process_name(view->profile, group->process));
    }
    return ag_ranking_write_table(&stacks->ranking, view->limit, table, view->page,
                                  /* what= */ NULL, ag_ranking_sum(&stacks->ranking, view->limit),
                                  whole);
}

static int write_stacks_text(struct ag_view *view, struct stacks *stacks) {
    struct ag_page *page = view->page;
    struct ag_quantity count;
    if (!view->is_of_mappings) { /* the totals of mappings are already written */
        ag_page_print(page, AG_STYLE_PLAIN, "%s: ",
                      view->options->is_at_a_time && view->sort == AG_METRIC_IN_USE_BYTES
                          ? "in use at that time"
                          : ag_metric_words(view->sort));
        write_amount(page, AG_STYLE_BRIGHT, view->sort, &stacks->total);
        const size_t n_recorded = stacks->recorded.count;
        ag_page_print(page, AG_STYLE_PLAIN, ", from %s %s", ag_quantity_count(&count, n_recorded),
                      n_recorded == 1 ? "stack" : "stacks");
        if (view->options->by == AG_BY_OS_PROCESS) {
            ag_page_print(page, AG_STYLE_PLAIN, " of %s %s",
                          ag_quantity_count(&count, stacks->count),
                          stacks->count == 1 ? "process" : "processes");
        } else if (stacks->count < n_recorded) { /* groups of stacks with the same frames */
            ag_page_print(page, AG_STYLE_PLAIN, ", in %s rows",
                          ag_quantity_count(&count, stacks->count));
        }
        ag_page_text(page, AG_STYLE_PLAIN, "\n");
        ag_page_end_line(page);
    }
    if (view->options->by == AG_BY_OS_PROCESS) {
        return write_processes_text(view, stacks);
    }
    uint64_t whole = ag_metric_of(&stacks->total, view->sort);
    uint64_t shown = 0;
    size_t i = 0;
    for (; i < stacks->ranking.count && i < view->limit; i++) {
        const struct stack_group *group = &stacks->groups[stacks->ranking.ranks[i].row];
        shown += ag_metric_of(&group->metrics, view->sort);
        write_stack_text(view, group, whole);
    }
    ag_ranking_write_rest(page, stacks->ranking.count - i, "more stack", whole - shown, whole);
    return 0;
}

int ag_stacks_write_json(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context) {
    struct stacks stacks;
    int r = rank_stacks(view, is_wanted, context, &stacks);
    if (r == 0) {
        write_stacks_json(view, &stacks);
        end_stacks(&stacks);
    }
    return r;
}

int ag_stacks_write_text(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context) {
    struct stacks stacks;
    int r = rank_stacks(view, is_wanted, context, &stacks);
    if (r == 0) {
        r = write_stacks_text(view, &stacks);
        end_stacks(&stacks);
    }
    return r;
}

int ag_stacks_view_json(struct ag_view *view) {
    return ag_stacks_write_json(view, /* is_wanted= */ NULL, NULL);
}

int ag_stacks_view_text(struct ag_view *view) {
    return ag_stacks_write_text(view, /* is_wanted= */ NULL, NULL);
}

/* Ranks the stacks that are not left out. Returns what rank_stacks returns. After success
 * *ret_known has, for each entry of known_blocks.def, what was left out; the caller frees it. */
static int rank_leaks(struct ag_view *view, struct ag_metrics **ret_known,
                      struct stacks *ret_stacks) {
    size_t n_known;
    (void)ag_known_blocks(&n_known);
    struct suppressing suppressing = {.profile = view->profile,
                                      .suppressions = view->suppressions,
                                      .known = calloc(n_known, sizeof(*suppressing.known))};
    const int r = suppressing.known != NULL
                      ? rank_stacks(view, is_not_suppressed, &suppressing, ret_stacks)
                      : -ENOMEM;
    if (r < 0) {
        free(suppressing.known);
    } else {
        *ret_known = suppressing.known;
    }
    return r;
}

static void write_known_json(struct ag_view *view, const struct ag_metrics *left_out) {
    size_t n;
    const struct ag_known_blocks *known = ag_known_blocks(&n);
    ag_json_open(view->json, "known", '[');
    for (size_t i = 0; i < n; i++) {
        if (left_out[i].in_use_blocks > 0 || view->options->known == AG_REPORT_KNOWN_LIST) {
            ag_json_open(view->json, NULL, '{');
            ag_json_string(view->json, "name", known[i].name);
            ag_json_string(view->json, "reason", known[i].reason);
            ag_json_integer(view->json, "blocks", left_out[i].in_use_blocks);
            ag_json_integer(view->json, "bytes", left_out[i].in_use_bytes);
            ag_json_close(view->json, '}');
        }
    }
    ag_json_close(view->json, ']');
}

static void write_known_text(struct ag_view *view, const struct ag_metrics *left_out) {
    size_t n;
    const struct ag_known_blocks *known = ag_known_blocks(&n);
    struct ag_page *page = view->page;
    struct ag_metrics all = {.in_use_blocks = 0};
    struct ag_quantity bytes, blocks;
    for (size_t i = 0; i < n; i++) {
        ag_metrics_add(&all, &left_out[i]);
    }
    if (all.in_use_blocks > 0) {
        ag_page_prose(
            page, AG_STYLE_DIM,
            "  left out: %s in %s block%s that the C and C++ runtime keeps until the end%s",
            ag_quantity_bytes(&bytes, all.in_use_bytes),
            ag_quantity_count(&blocks, all.in_use_blocks), all.in_use_blocks == 1 ? "" : "s",
            view->options->known == AG_REPORT_KNOWN_LIST
                ? ""
                : "; --known=list names them, --known=none lists their stacks");
    }
    for (size_t i = 0; i < n && view->options->known == AG_REPORT_KNOWN_LIST; i++) {
        ag_page_prose(page, AG_STYLE_DIM, "  %s: %s in %s block%s; %s (%s)", known[i].name,
                      ag_quantity_bytes(&bytes, left_out[i].in_use_bytes),
                      ag_quantity_count(&blocks, left_out[i].in_use_blocks),
                      left_out[i].in_use_blocks == 1 ? "" : "s", known[i].reason,
                      strcmp(known[i].functions, "*") == 0 ? "constructors of libstdc++"
                                                           : known[i].functions);
    }
}

int ag_leaks_view_json(struct ag_view *view) {
    struct ag_suppressions *suppressions = view->suppressions;
    struct stacks stacks;
    struct ag_metrics *known;
    int r = rank_leaks(view, &known, &stacks);
    if (r < 0) {
        return r;
    }
    write_stacks_json(view, &stacks);
    if (suppressions != NULL) {
        const struct ag_suppression *list;
        size_t count = ag_suppressions_list(suppressions, &list);
        ag_json_open(view->json, "suppressions", '[');
        for (size_t i = 0; i < count; i++) {
            ag_json_open(view->json, NULL, '{');
            ag_json_string(view->json, "pattern", list[i].pattern);
            ag_json_integer(view->json, "blocks", list[i].blocks);
            ag_json_integer(view->json, "bytes", list[i].bytes);
            ag_json_close(view->json, '}');
        }
        ag_json_close(view->json, ']');
        ag_suppressions_reset(suppressions);
    }
    if (view->options->known != AG_REPORT_KNOWN_NONE) {
        write_known_json(view, known);
    }
    free(known);
    end_stacks(&stacks);
    return 0;
}

int ag_leaks_view_text(struct ag_view *view) {
    struct ag_suppressions *suppressions = view->suppressions;
    struct stacks stacks;
    struct ag_metrics *known;
    int r = rank_leaks(view, &known, &stacks);
    if (r < 0) {
        return r;
    }
    r = write_stacks_text(view, &stacks);
    if (suppressions != NULL) {
        const struct ag_suppression *list;
        size_t count = ag_suppressions_list(suppressions, &list);
        struct ag_quantity blocks, bytes;
        for (size_t i = 0; i < count; i++) {
            ag_page_print(view->page, AG_STYLE_DIM, "  suppressed: %s in %s %s by leak:%s\n",
                          ag_quantity_bytes(&bytes, list[i].bytes),
                          ag_quantity_count(&blocks, list[i].blocks),
                          ag_blocks_word(list[i].blocks), list[i].pattern);
        }
        ag_suppressions_reset(suppressions);
    }
    write_known_text(view, known);
    free(known);
    end_stacks(&stacks);
    return r;
}
