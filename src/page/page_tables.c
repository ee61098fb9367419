/* page_tables.c: numbers the frames, nodes and groups that the page needs, without gaps, and writes
 * the tables of the page, each as a block (data_block.h). The nodes are those of the outline: the
 * call tree without its small parts (model/answers/outline.h). A group is the stacks that end in
 * one node, of one process, with one allocation function ("via"), one blamed line, one type and one
 * label. A slice is one of up to 256 equal parts of the recording.
 *
 * frames, nodes, groups, totals, history, calls and paths are written column by column, because
 * similar values next to each other compress better. u is a varint (LEB128), s a signed one
 * (zigzag); n is a u, the number of rows; a minus sign means that the difference of two numbers is
 * stored:
 *
 *     names     see name_table.c
 *     frames    n; u function, u file, u line, u image, u column, u end_column, u flags (1 inlined,
 *               2 the function's name is known; plus 4 times the owner of the code: 0 a library or
 *               language, 1 unknown, 2 the program)
 *     nodes     n; u number of the node - number of its parent, u frame + 2 (0 the root, 1 a node
 *               "other", which collects small groups), u flags (1: ag_profile_fold leaves the
 *               frame out, see ag_profile_left_out); node 0 is the root
 *     groups    n; s node - previous node, u frame + 2 of the blamed line (blamed_lines.h), u
 *               node - node at which the folded stack begins (ag_outline_folded_start), u flags (1
 *               the blocks are known, see known_blocks.h; 2 a garbage collector frees them), u via,
 *               u type, u label (0 none, 1 the sum of all labels that are too small to be listed,
 *               else its name + 2), u process, then u each metric of struct ag_metrics; in a
 *               sampled trace also the variance of each, and the members heaviest and portion_bytes
 *               of struct ag_metrics, all as the bits of a float
 *     totals    only if nodes "other" replace callers: the totals over the whole recording, as
 *               `report --view=sites` shows them, in six tables: by function, by line and by image
 *               of whole stacks, then the same of folded stacks (ag_profile_fold); each table: n;
 *               s frame - previous frame, then u each metric
 *     history   for each slice u number of its entries; then columns of all entries: u group -
 *               previous group in the slice, s allocated_blocks, s allocated_bytes, s freed_blocks,
 *               s freed_bytes, s temporary_blocks, s rise_blocks, s rise_bytes (change of what is
 *               in use from the start of the slice to its peak)
 *     counts    see write_counts
 *     leaks     n; u slice of the allocation - that of the previous row, u group, u blocks,
 *               u bytes: the blocks that were never freed
 *     threads   see write_threads
 *     processes see write_processes; only of a merged profile
 *     calls     see call_tables.c
 *     paths     see call_tables.c
 *
 * viewer/src/trace.js reads the tables. */
#include "page/page_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "model/answers/blamed_lines.h"
#include "model/metric.h"
#include "page/call_tables.h"

struct numbering {
    struct ag_page_trace *trace;
    const uint32_t *target;
    bool *is_node_used;
    uint32_t *node_number;
    uint32_t *group_number;  /* by group of the outline after folding (slice_log.h): the group's
                              * number on the page; UINT32_MAX: none */
    uint32_t *frame_numbers; /* by frame of the profile: the frame's number on the page + 1; 0:
                              * none */
    uint32_t *frames;        /* by number on the page: the frame of the profile */
    size_t n_frames, frame_capacity, n_nodes; /* frame_capacity: length of frame_numbers */
};

static void end_numbering(struct numbering *numbering) {
    free(numbering->is_node_used);
    free(numbering->node_number);
    free(numbering->group_number);
    free(numbering->frame_numbers);
    free(numbering->frames);
}

static size_t frames_most(const struct ag_outline *outline) {
    uint32_t most = 0;
    for (size_t i = 0; i < outline->n_groups; i++) {
        most = outline->groups[i].line > most ? outline->groups[i].line : most;
    }
    for (size_t i = 0; i < outline->n_nodes; i++) {
        const uint32_t frame = outline->nodes[i].frame;
        if (frame < AG_OUTLINE_OTHER && frame > most) {
            most = frame;
        }
    }
    return (size_t)most + 1;
}

/* The tables of sites whose totals the page has. */
static const enum ag_site_key totals_by[] = {AG_BY_FUNCTION, AG_BY_LINE, AG_BY_IMAGE};

/* Returns the frame of a finding; UINT32_MAX: the finding has no frame, or its frame belongs to the
 * profile of the mappings, whose frames the page does not have. */
static uint32_t frame_of_finding(const struct ag_finding *finding) {
    return finding->mappings ? UINT32_MAX : finding->frame;
}

/* Raises *MOST, the length of an array by frame, so that the array has room for each frame that the
 * page needs for totals and findings. */
static int add_frames_most(struct ag_page_trace *trace, size_t *most) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(totals_by) && trace->folded_rows > 0; i++) {
        const struct ag_site_row *rows;
        size_t n;
        const int r = ag_profile_sites(trace->profile, totals_by[i], &rows, &n);
        if (r < 0) {
            return r;
        }
        for (size_t k = 0; k < n; k++) {
            *most = rows[k].frame >= *most ? (size_t)rows[k].frame + 1 : *most;
        }
    }
    for (size_t i = 0; i < trace->findings.count; i++) {
        const uint32_t frame = frame_of_finding(&trace->findings.rows[i]);
        *most = frame != UINT32_MAX && frame >= *most ? (size_t)frame + 1 : *most;
    }
    return 0;
}

static void number_frame(struct numbering *numbering, uint32_t frame) {
    if (numbering->frame_numbers[frame] == 0) {
        numbering->frames[numbering->n_frames++] = frame;
        numbering->frame_numbers[frame] = (uint32_t)numbering->n_frames;
    }
}

static void number_groups(struct numbering *numbering) {
    struct ag_page_trace *trace = numbering->trace;
    const struct ag_outline *outline = &trace->outline;
    for (size_t i = 0; i < outline->n_groups; i++) {
        numbering->group_number[i] = UINT32_MAX;
        if (!ag_metrics_are_empty(&outline->groups[i].metrics)) {
            numbering->group_number[i] = (uint32_t)trace->n_numbers++;
            numbering->is_node_used[outline->groups[i].node] = true;
        }
    }
    for (size_t i = 0; i < trace->log.n_groups; i++) {
        const uint32_t number = numbering->group_number[numbering->target[i]];
        /* A group without metrics has no entry in the history; its number is not used. */
        trace->number_of[i] = number != UINT32_MAX ? number : 0;
    }
}

static void number_nodes(struct numbering *numbering) {
    const struct ag_outline *outline = &numbering->trace->outline;
    numbering->is_node_used[0] = true;
    /* Parents have smaller indices than their children, also among nodes that folding added. */
    for (size_t i = outline->n_nodes; i-- > 1;) {
        if (numbering->is_node_used[i]) {
            numbering->is_node_used[outline->nodes[i].parent] = true;
        }
    }
    for (size_t i = 0; i < outline->n_nodes; i++) {
        if (!numbering->is_node_used[i]) {
            continue;
        }
        numbering->node_number[i] = (uint32_t)numbering->n_nodes++;
        const uint32_t frame = outline->nodes[i].frame;
        if (frame < AG_OUTLINE_OTHER) {
            number_frame(numbering, frame);
        }
    }
    for (size_t i = 0; i < outline->n_groups; i++) { /* the blamed line of a group may have no node,
                                                      * because folding replaced it by a node
                                                      * "other" */
        if (numbering->group_number[i] != UINT32_MAX) {
            number_frame(numbering, outline->groups[i].line);
        }
    }
}

/* Numbers the frames of functions, lines and images that have totals, and the lines of findings. */
static int number_sites(struct numbering *numbering) {
    struct ag_page_trace *trace = numbering->trace;
    for (size_t i = 0; i < AG_ARRAY_SIZE(totals_by) && trace->folded_rows > 0; i++) {
        const struct ag_site_row *rows;
        size_t n;
        const int r = ag_profile_sites(trace->profile, totals_by[i], &rows, &n);
        for (size_t k = 0; k < n && r == 0; k++) {
            number_frame(numbering, rows[k].frame);
        }
        if (r < 0) {
            return r;
        }
    }
    for (size_t i = 0; i < trace->findings.count; i++) {
        const uint32_t frame = frame_of_finding(&trace->findings.rows[i]);
        if (frame != UINT32_MAX) {
            number_frame(numbering, frame);
            trace->finding_frames[i] = numbering->frame_numbers[frame];
        }
    }
    return 0;
}

static int start_numbering(struct numbering *numbering) {
    struct ag_page_trace *trace = numbering->trace;
    const struct ag_outline *outline = &trace->outline;
    numbering->frame_capacity = frames_most(outline);
    const int r = add_frames_most(trace, &numbering->frame_capacity);
    if (r < 0) {
        return r;
    }
    numbering->is_node_used = calloc(outline->n_nodes + 1, sizeof(bool));
    numbering->node_number = calloc(outline->n_nodes + 1, sizeof(uint32_t));
    numbering->group_number = calloc(outline->n_groups + 1, sizeof(uint32_t));
    numbering->frame_numbers = calloc(numbering->frame_capacity, sizeof(uint32_t));
    numbering->frames = calloc(numbering->frame_capacity, sizeof(uint32_t));
    trace->number_of = calloc(trace->log.n_groups + 1, sizeof(uint32_t));
    if (!numbering->is_node_used || !numbering->node_number || !numbering->group_number ||
        !numbering->frame_numbers || !numbering->frames || !trace->number_of) {
        return -ENOMEM;
    }
    number_groups(numbering);
    number_nodes(numbering);
    return number_sites(numbering);
}

/* ---- frames, nodes, groups ---- */

static int write_frames(const struct numbering *numbering, FILE *out) {
    struct ag_page_trace *trace = numbering->trace;
    struct ag_byte_list columns[7] = {{0}}, all = {0};
    for (size_t i = 0; i < numbering->n_frames; i++) {
        const struct ag_frame *frame = ag_profile_frame(trace->profile, numbering->frames[i]);
        ag_byte_list_number(&columns[0], ag_name_table_number(&trace->names, frame->label));
        ag_byte_list_number(&columns[1], ag_name_table_number(&trace->names, frame->file));
        ag_byte_list_number(&columns[2], frame->line);
        ag_byte_list_number(&columns[3], ag_name_table_number(&trace->names, frame->image));
        ag_byte_list_number(&columns[4], frame->column);
        ag_byte_list_number(&columns[5], frame->end_column);
        ag_byte_list_number(&columns[6], (uint64_t)frame->is_inlined | frame->is_known * 2u |
                                             (uint64_t)ag_frame_owner(trace->profile, frame) * 4u);
    }
    ag_byte_list_number(&all, numbering->n_frames);
    ag_byte_list_join(&all, columns, 7);
    return ag_data_block_write(out, trace->number, "frames", &all);
}

static int write_nodes(const struct numbering *numbering, FILE *out) {
    const struct ag_outline *outline = &numbering->trace->outline;
    struct ag_byte_list parents = {0}, columns[2] = {{0}};
    ag_byte_list_number(&parents, numbering->n_nodes);
    for (size_t i = 0; i < outline->n_nodes; i++) {
        if (!numbering->is_node_used[i]) {
            continue;
        }
        const struct ag_outline_node *node = &outline->nodes[i];
        ag_byte_list_number(&parents,
                            numbering->node_number[i] - numbering->node_number[node->parent]);
        ag_byte_list_number(&columns[0], node->frame == AG_OUTLINE_ROOT ? 0
                                         : node->frame == AG_OUTLINE_OTHER
                                             ? 1
                                             : numbering->frame_numbers[node->frame] + 1);
        ag_byte_list_number(&columns[1], node->is_left_out);
    }
    ag_byte_list_join(&parents, columns, 2);
    return ag_data_block_write(out, numbering->trace->number, "nodes", &parents);
}

/* The metrics in the order of struct ag_metrics. */
static const enum ag_metric metrics_of_groups[] = {
    AG_METRIC_ALLOCATED_BLOCKS, AG_METRIC_ALLOCATED_BYTES, AG_METRIC_FREED_BLOCKS,
    AG_METRIC_FREED_BYTES,      AG_METRIC_IN_USE_BLOCKS,   AG_METRIC_IN_USE_BYTES,
    AG_METRIC_PEAK_BLOCKS,      AG_METRIC_PEAK_BYTES,      AG_METRIC_TEMPORARY_BLOCKS};
enum { N_COLUMNS = 2 * AG_METRICS + 2 };

static void add_float(struct ag_byte_list *list, double number) {
    const float rounded = (float)number;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof(bits));
    ag_byte_list_number(list, bits);
}

static void add_metrics(struct ag_byte_list columns[N_COLUMNS], const struct ag_metrics *metrics,
                        bool is_sampled) {
    for (size_t k = 0; k < AG_METRICS; k++) {
        const enum ag_metric metric = metrics_of_groups[k];
        ag_byte_list_number(&columns[k], ag_metric_of(metrics, metric));
        if (is_sampled) {
            add_float(&columns[AG_METRICS + k], ag_metric_variance(metrics, metric));
        }
    }
    if (is_sampled) {
        add_float(&columns[N_COLUMNS - 2], metrics->heaviest);
        add_float(&columns[N_COLUMNS - 1], metrics->portion_bytes);
    }
}

static uint64_t label_number(struct ag_page_trace *trace, const char *label) {
    return label == NULL ? 0
           : label == ag_outline_other_labels
               ? 1
               : 2u + (uint64_t)ag_name_table_number(&trace->names, label);
}

static int write_groups(const struct numbering *numbering, FILE *out) {
    struct ag_page_trace *trace = numbering->trace;
    const struct ag_outline *outline = &trace->outline;
    struct ag_byte_list nodes = {0}, lines = {0}, starts = {0}, flags = {0}, vias = {0},
                        types = {0}, labels = {0}, processes = {0}, columns[N_COLUMNS] = {{0}};
    const bool is_sampled = ag_profile_identity(trace->profile)->is_sampled;
    int64_t before = 0;
    ag_byte_list_number(&nodes, trace->n_numbers);
    for (size_t i = 0; i < outline->n_groups; i++) {
        const struct ag_outline_group *group = &outline->groups[i];
        if (numbering->group_number[i] == UINT32_MAX) {
            continue;
        }
        const int64_t node = numbering->node_number[group->node];
        ag_byte_list_signed(&nodes, node - before);
        before = node;
        ag_byte_list_number(&lines, numbering->frame_numbers[group->line] + 1);
        ag_byte_list_number(&flags, group->is_known | group->is_collected * 2u);
        ag_byte_list_number(&starts,
                            (uint64_t)node -
                                numbering->node_number[ag_outline_folded_start(outline, group)]);
        ag_byte_list_number(&vias, ag_name_table_number(&trace->names, group->via_name));
        ag_byte_list_number(&types, ag_name_table_number(&trace->names, group->type));
        ag_byte_list_number(&labels, label_number(trace, group->label));
        ag_byte_list_number(&processes, group->process);
        add_metrics(columns, &group->metrics, is_sampled);
        if (outline->nodes[outline->nodes[group->node].parent].frame == AG_OUTLINE_OTHER) {
            trace->other_bytes += group->metrics.allocated_bytes;
        }
    }
    ag_byte_list_join(&nodes, &lines, 1);
    ag_byte_list_join(&nodes, &starts, 1);
    ag_byte_list_join(&nodes, &flags, 1);
    ag_byte_list_join(&nodes, &vias, 1);
    ag_byte_list_join(&nodes, &types, 1);
    ag_byte_list_join(&nodes, &labels, 1);
    ag_byte_list_join(&nodes, &processes, 1);
    ag_byte_list_join(&nodes, columns, N_COLUMNS);
    return ag_data_block_write(out, trace->number, "groups", &nodes);
}

/* ---- totals ---- */

/* Adds the totals of functions, lines and images to LIST, as the profile has them now. */
static int add_totals(const struct numbering *numbering, struct ag_byte_list *list) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(totals_by); i++) {
        struct ag_byte_list frames = {0}, columns[AG_METRICS] = {{0}};
        const struct ag_site_row *rows;
        size_t n;
        const int r = ag_profile_sites(numbering->trace->profile, totals_by[i], &rows, &n);
        if (r < 0) {
            return r;
        }
        int64_t before = 0;
        ag_byte_list_number(list, n);
        for (size_t k = 0; k < n; k++) {
            const int64_t frame = (int64_t)numbering->frame_numbers[rows[k].frame] - 1;
            ag_byte_list_signed(&frames, frame - before);
            before = frame;
            for (size_t m = 0; m < AG_METRICS; m++) {
                ag_byte_list_number(&columns[m],
                                    ag_metric_of(&rows[k].total, metrics_of_groups[m]));
            }
        }
        ag_byte_list_join(list, &frames, 1);
        ag_byte_list_join(list, columns, AG_METRICS);
    }
    return 0;
}

/* Writes the block "totals". Folded stacks contain only frames that the whole stacks contain, so
 * all frames have numbers. */
static int write_totals(const struct numbering *numbering, FILE *out) {
    struct ag_byte_list list = {0};
    bool is_folded;
    int r = add_totals(numbering, &list);
    r = r < 0 ? r : ag_profile_fold(numbering->trace->profile, &is_folded);
    r = r < 0 ? r : add_totals(numbering, &list);
    r = r < 0 ? r : ag_data_block_write(out, numbering->trace->number, "totals", &list);
    ag_byte_list_done(&list);
    return r;
}

/* ---- sizes, lifetimes, leaks, threads ---- */

/* Adds the number of entries with blocks, then for each of these entries u index - previous index,
 * u blocks, u bytes. An index is row * AG_HISTORY_ORDERS + order; order i stands for sizes in bytes
 * (or lifetimes in nanoseconds) from 2^i to 2^(i+1) - 1, order 0 also for 0. */
static void add_counts(struct ag_byte_list *list, const struct ag_history_count *counts, size_t n) {
    size_t used = 0, before = 0;
    for (size_t i = 0; i < n; i++) {
        used += counts[i].blocks > 0;
    }
    ag_byte_list_number(list, used);
    for (size_t i = 0; i < n; i++) {
        if (counts[i].blocks > 0) {
            ag_byte_list_number(list, i - before);
            ag_byte_list_number(list, counts[i].blocks);
            ag_byte_list_number(list, counts[i].bytes);
            before = i;
        }
    }
}

/* Adds entries like those of add_counts, but a row is the number of a group on the page, and the
 * bytes are left out. */
static int add_group_counts(struct ag_byte_list *list, const struct ag_page_trace *trace,
                            bool of_lifetimes) {
    const size_t n = trace->n_numbers * AG_HISTORY_ORDERS;
    uint64_t *sums = calloc(n + 1, sizeof(*sums));
    if (!sums) {
        return -ENOMEM;
    }
    for (size_t group = 0; group < trace->history.n_groups; group++) {
        const struct ag_history_orders *orders = &trace->history.groups[group];
        const uint64_t *counts = of_lifetimes ? orders->lifetimes : orders->sizes;
        for (size_t order = 0; order < AG_HISTORY_ORDERS; order++) {
            sums[(size_t)trace->number_of[group] * AG_HISTORY_ORDERS + order] += counts[order];
        }
    }
    size_t used = 0, before = 0;
    for (size_t i = 0; i < n; i++) {
        used += sums[i] > 0;
    }
    ag_byte_list_number(list, used);
    for (size_t i = 0; i < n; i++) {
        if (sums[i] > 0) {
            ag_byte_list_number(list, i - before);
            ag_byte_list_number(list, sums[i]);
            before = i;
        }
    }
    free(sums);
    return 0;
}

/* The block "counts": sizes and lifetimes of blocks by slice (see add_counts), then sizes and
 * lifetimes by group. */
static int write_counts(const struct ag_page_trace *trace, FILE *out) {
    const struct ag_history *history = &trace->history;
    const size_t n = history->n_slices * AG_HISTORY_ORDERS;
    struct ag_byte_list list = {0};
    add_counts(&list, history->sizes, n);
    add_counts(&list, history->lifetimes, n);
    int r = add_group_counts(&list, trace, /* of_lifetimes= */ false);
    r = r < 0 ? r : add_group_counts(&list, trace, /* of_lifetimes= */ true);
    r = r < 0 ? r : ag_data_block_write(out, trace->number, "counts", &list);
    ag_byte_list_done(&list);
    return r;
}

static int write_leaks(const struct ag_page_trace *trace, FILE *out) {
    const struct ag_history *history = &trace->history;
    struct ag_byte_list list = {0};
    uint32_t before = 0;
    ag_byte_list_number(&list, history->n_leaks);
    for (size_t i = 0; i < history->n_leaks; i++) {
        const struct ag_history_leak *leak = &history->leaks[i];
        ag_byte_list_number(&list, leak->slice - before);
        ag_byte_list_number(&list, trace->number_of[leak->group]);
        ag_byte_list_number(&list, leak->blocks);
        ag_byte_list_number(&list, leak->bytes);
        before = leak->slice;
    }
    return ag_data_block_write(out, trace->number, "leaks", &list);
}

/* The block "threads": n; u name and u kernel id of each thread; for each slice and thread u
 * allocated_blocks, u allocated_bytes, u freed_blocks, u freed_bytes; then u number of pairs; for
 * each pair u slice, u thread that allocated, u thread that freed, u blocks, u bytes. */
static int write_threads(struct ag_page_trace *trace, FILE *out) {
    const struct ag_history *history = &trace->history;
    const struct ag_thread_row *rows;
    (void)ag_profile_threads(trace->profile, &rows);
    struct ag_byte_list list = {0};
    ag_byte_list_number(&list, history->n_threads);
    for (size_t i = 0; i < history->n_threads; i++) {
        const struct ag_thread_row *row = &rows[history->thread_rows[i]];
        const bool is_other = history->has_other_threads && i + 1 == history->n_threads;
        ag_byte_list_number(&list,
                            ag_name_table_number(&trace->names, is_other ? NULL : row->name));
        ag_byte_list_number(&list, is_other ? 0 : row->thread_id);
    }
    for (size_t i = 0; i < history->n_slices * history->n_threads; i++) {
        const struct ag_history_thread *thread = &history->threads[i];
        ag_byte_list_number(&list, thread->allocated_blocks);
        ag_byte_list_number(&list, thread->allocated_bytes);
        ag_byte_list_number(&list, thread->freed_blocks);
        ag_byte_list_number(&list, thread->freed_bytes);
    }
    ag_byte_list_number(&list, history->n_pairs);
    for (size_t i = 0; i < history->n_pairs; i++) {
        const struct ag_history_pair *pair = &history->pairs[i];
        ag_byte_list_number(&list, pair->slice);
        ag_byte_list_number(&list, pair->allocated_by);
        ag_byte_list_number(&list, pair->freed_by);
        ag_byte_list_number(&list, pair->blocks);
        ag_byte_list_number(&list, pair->bytes);
    }
    return ag_data_block_write(out, trace->number, "threads", &list);
}

/* The block "processes": for each process u first slice in which it lived, u number of these slices;
 * then columns of all these slices: u bytes in use at the end of the slice, u bytes in use at the
 * peak of the slice, u blocks in use at the peak, u 1 if the peak was reached in the slice, 0 if it
 * is what was in use when the slice began. */
static int write_processes(const struct ag_page_trace *trace, FILE *out) {
    const struct ag_history *history = &trace->history;
    struct ag_byte_list list = {0}, columns[4] = {{0}};
    for (size_t p = 0; p < history->n_processes; p++) {
        const struct ag_history_process *process = &history->processes[p];
        const size_t n_slices = process->end_slice - process->first_slice;
        ag_byte_list_number(&list, process->first_slice);
        ag_byte_list_number(&list, n_slices);
        for (size_t i = 0; i < n_slices; i++) {
            const struct ag_history_slice *slice = &process->slices[i];
            const uint64_t start_ns = (process->first_slice + i) * history->slice_ns;
            ag_byte_list_number(&columns[0], slice->in_use_bytes);
            ag_byte_list_number(&columns[1], slice->peak_bytes);
            ag_byte_list_number(&columns[2], slice->peak_blocks);
            ag_byte_list_number(&columns[3], slice->peak_time_ns >= start_ns);
        }
    }
    ag_byte_list_join(&list, columns, 4);
    return ag_data_block_write(out, trace->number, "processes", &list);
}

int ag_page_tables_write(struct ag_page_trace *trace, const uint32_t *target, FILE *out) {
    struct numbering numbering = {.trace = trace, .target = target};
    int r = start_numbering(&numbering);
    r = r < 0 ? r : write_frames(&numbering, out);
    r = r < 0 ? r : write_nodes(&numbering, out);
    r = r < 0 ? r : write_groups(&numbering, out);
    if (r == 0 && trace->folded_rows > 0) {
        r = write_totals(&numbering, out);
    }
    end_numbering(&numbering);
    if (trace->history.n_slices > 0) {
        r = r < 0 ? r : write_threads(trace, out);
        r = r < 0 ? r
                  : ag_slice_log_write(&trace->log, trace->number_of, trace->n_numbers,
                                       trace->number, out);
        r = r < 0 ? r : write_counts(trace, out);
        r = r < 0 ? r : write_leaks(trace, out);
        r = r < 0 || trace->history.n_processes == 0 ? r : write_processes(trace, out);
    }
    if (trace->number == 0) { /* the page does not compare calls of two traces */
        r = r < 0 ? r : ag_call_tables_write(trace, out);
    }
    return r < 0 ? r : ag_name_table_write(&trace->names, trace->number, out);
}
