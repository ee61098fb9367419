/* html_page.c: writes the HTML file of `allogram view`, see html_page.h.
 *
 *     profile -> outline (model/answers/outline.h): the call tree, without its small parts; a group
 *                is the stacks that end in one node and have one allocation function, blamed line,
 *                type and label
 *             -> history (model/answers/history.h): what each group did in each slice of time
 *             -> fold (slice_log.h): small groups move up the tree until the history fits
 *             -> blocks (data_block.h): compressed tables in the HTML file
 *
 * The limits below keep the file under 10 MB for traces of any length, unless names are very long:
 * names and nodes take about 20 bytes each when they are compressed, an entry of the history about
 * 6. */
#include "page/html_page.h"

#include <errno.h>
#include <stdlib.h>

#include "model/answers/known_blocks.h"
#include "page/page_facts.h"
#include "page/page_template.h"

enum {
    SLICES_MOST = 256,
    NODES_MOST = 120000,
    GROUPS_MOST = 12000,
    GROUPS_OF_PROCESS = 300, /* more for each process, if several traces are merged */
    GROUPS_OF_PROCESSES_MOST = 100000,
    ENTRIES_MOST = 1000000,
};

const char *ag_html_page_missing(void) {
    return ag_page_template_missing[0] ? ag_page_template_missing : NULL;
}

/* The recording is divided into slices of equal length. A short recording has fewer slices: at most
 * one for each tick, the resolution of the times in the trace. */
static size_t n_slices_of(const struct ag_profile *profile) {
    const struct ag_summary *summary = ag_profile_summary(profile);
    const uint64_t tick_ns = summary->time_resolution_ns > 0 ? summary->time_resolution_ns : 1;
    const uint64_t ticks = summary->duration_ns / tick_ns + 1;
    return ticks < SLICES_MOST ? (size_t)ticks : SLICES_MOST;
}

/* A group belongs to one process, so the number of groups that folding leaves grows with the number
 * of processes. */
static size_t most_groups_of(const struct ag_profile *profile) {
    const size_t of_processes = (ag_profile_n_processes(profile) - 1) * GROUPS_OF_PROCESS;
    return GROUPS_MOST +
           (of_processes < GROUPS_OF_PROCESSES_MOST ? of_processes : GROUPS_OF_PROCESSES_MOST);
}

static void end_trace(struct ag_page_trace *trace) {
    ag_outline_done(&trace->outline);
    ag_history_done(&trace->history);
    ag_slice_log_done(&trace->log);
    ag_name_table_done(&trace->names);
    free(trace->number_of);
}

static int write_trace(struct ag_page_trace *trace, FILE *out) {
    const bool has_history = trace->number == 0;
    const size_t n_slices = has_history ? n_slices_of(trace->profile) : 0;
    uint32_t *target = NULL;
    int r = ag_profile_find_known(trace->profile);
    r = r < 0 ? r
              : ag_outline_make(trace->profile, NODES_MOST, most_groups_of(trace->profile),
                                &trace->outline);
    r = r < 0 ? r : ag_slice_log_init(&trace->log, n_slices, trace->outline.n_groups);
    if (r == 0 && has_history) {
        r = ag_history_make(trace->profile, &trace->outline, n_slices, ag_slice_log_add,
                            &trace->log, &trace->history);
    }
    if (r == 0) {
        target = calloc(trace->outline.n_groups + 1, sizeof(*target));
        r = target ? ag_slice_log_fold(&trace->log, &trace->outline, ENTRIES_MOST, target)
                   : -ENOMEM;
    }
    for (size_t i = 0; i < trace->outline.n_rows && r == 0; i++) {
        const uint32_t group = target[trace->outline.group_of_row[i]];
        const uint32_t node = trace->outline.groups[group].node;
        const uint32_t parent = trace->outline.nodes[node].parent;
        trace->folded_rows += trace->outline.nodes[parent].frame == AG_OUTLINE_OTHER;
    }
    if (r == 0 && trace->number == 0) {
        r = ag_profile_findings(trace->profile, AG_FINDINGS_USUAL, &trace->findings);
    }
    r = r < 0 ? r : ag_page_tables_write(trace, target, out);
    r = r < 0 ? r : ag_page_facts_write(trace, out);
    free(target);
    end_trace(trace);
    return r;
}

int ag_html_page_write(FILE *out, struct ag_profile *profile, struct ag_profile *before) {
    fwrite(ag_page_template_head, 1, ag_page_template_head_bytes, out);
    int r = write_trace(&(struct ag_page_trace){.profile = profile, .number = 0}, out);
    if (r == 0 && before) {
        r = write_trace(&(struct ag_page_trace){.profile = before, .number = 1}, out);
    }
    fwrite(ag_page_template_tail, 1, ag_page_template_tail_bytes, out);
    return r;
}
