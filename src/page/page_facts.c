/* page_facts.c: writes the block "facts" of the page: the process and its end, damage of the trace,
 * the summary with the keys of `report --json`, what was lost, the memory that the program mapped
 * itself, the timeline, and the numbers of each slice (one of up to 256 equal parts of the
 * recording). For trace number 0 of the page it also writes the resident memory, the findings and
 * the sums of function counters; for a merged profile also its processes.
 *
 * The JSON is inside of HTML, where "<", ">" and "&" could be read as markup. JSON contains them
 * only in strings, so each is written as an escape such as \u003c. */
#include "page/page_facts.h"

#include <errno.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "model/answers/program_mappings.h"
#include "model/interval.h"
#include "page/call_tables.h"
#include "page/resident_facts.h"
#include "report/view.h"
#include "text/json_writer.h"

static void write_identity(struct ag_json *json, const struct ag_profile *profile) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    ag_json_string(json, "file", identity->file);
    ag_json_string(json, "allogram_version", AG_VERSION);
    ag_json_integer(json, "start_realtime_ns", identity->start_realtime_ns);
    ag_json_integer(json, "format_version", identity->format_version);
    ag_json_integer(json, "file_bytes", identity->file_bytes);
    ag_json_integer(json, "pid", identity->pid);
    ag_json_strings(json, "command", identity->arguments, identity->n_arguments);
    ag_json_string(json, "exe", identity->exe);
    if (identity->host[0] != '\0') {
        ag_json_string(json, "host", identity->host);
    }
    ag_json_string(json, "mode", identity->mode);
    if (identity->is_sampled) {
        ag_json_integer(json, "interval_bytes", identity->interval_bytes);
    }
    if (identity->filter) {
        ag_json_string(json, "filter", identity->filter);
        ag_json_strings(json, "filter_undecided", identity->undecided, identity->n_undecided);
    }
    ag_json_bool(json, "is_observed", ag_profile_observed(profile)->is_there);
    ag_json_bool(json, "has_only_samples", ag_profile_has_only_samples(profile));
    ag_json_string(json, "end", identity->end);
    ag_json_bool(json, "is_end_unseen", identity->is_end_unseen);
    if (identity->wait_status_known) {
        ag_json_integer(json, "wait_status", identity->wait_status);
    }
    if (identity->kernel_kill.certainty != 0) {
        char words[AG_KILL_WORDS_BYTES];
        ag_kill_json(json, "kernel_kill", &identity->kernel_kill);
        ag_json_string(json, "kill_reason", ag_kill_reason_words(&identity->kernel_kill, words));
        ag_json_string(
            json, "kill_memory",
            ag_kill_memory_words(&identity->kernel_kill, ag_profile_recording_ns(profile), words));
    }
    if (identity->is_damaged) {
        ag_json_open(json, "damage", '{');
        ag_json_integer(json, "offset", identity->damage.offset);
        ag_json_string(json, "what", identity->damage.what);
        ag_json_integer(json, "missing_chunks", identity->missing.chunks);
        ag_json_integer(json, "missing_events", identity->missing.events);
        ag_json_integer(json, "missing_bytes", identity->missing.bytes);
        ag_json_bool(json, "has_sums", identity->missing.has_sums);
        ag_json_bool(json, "is_file_cut", identity->is_file_cut);
        ag_json_close(json, '}');
    }
}

/* Writes the 95 % intervals of the sums of a sampled trace as NAME_ci95, as in `report --json`. */
static void write_intervals(struct ag_json *json, const struct ag_metrics *total) {
    static const struct {
        const char *name;
        enum ag_metric metric;
    } sums[] = {
        {"allocated_blocks_ci95", AG_METRIC_ALLOCATED_BLOCKS},
        {"allocated_bytes_ci95", AG_METRIC_ALLOCATED_BYTES},
        {"freed_blocks_ci95", AG_METRIC_FREED_BLOCKS},
        {"freed_bytes_ci95", AG_METRIC_FREED_BYTES},
        {"in_use_blocks_at_end_ci95", AG_METRIC_IN_USE_BLOCKS},
        {"in_use_bytes_at_end_ci95", AG_METRIC_IN_USE_BYTES},
        {"peak_blocks_ci95", AG_METRIC_PEAK_BLOCKS},
        {"peak_bytes_ci95", AG_METRIC_PEAK_BYTES},
    };
    for (size_t i = 0; i < AG_ARRAY_SIZE(sums); i++) {
        const struct ag_interval interval = ag_interval_of_metric(total, sums[i].metric);
        ag_json_open(json, sums[i].name, '[');
        ag_json_integer(json, NULL, interval.low);
        ag_json_integer(json, NULL, interval.high);
        ag_json_close(json, ']');
    }
}

static void write_summary(struct ag_json *json, const struct ag_profile *profile) {
    const struct ag_summary *summary = ag_profile_summary(profile);
    const struct ag_metrics incomplete = ag_profile_incomplete(profile);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"duration_ns", summary->duration_ns},
        {"time_resolution_ns", summary->time_resolution_ns},
        {"allocated_blocks", summary->allocated_blocks},
        {"allocated_bytes", summary->allocated_bytes},
        {"freed_blocks", summary->freed_blocks},
        {"freed_bytes", summary->freed_bytes},
        {"in_use_blocks_at_end", summary->in_use_blocks},
        {"in_use_bytes_at_end", summary->in_use_bytes},
        {"peak_blocks", summary->peak_blocks},
        {"peak_bytes", summary->peak_bytes},
        {"peak_low_bytes", summary->peak_low_bytes},
        {"peak_high_bytes", summary->peak_high_bytes},
        {"peak_time_ns", summary->peak_time_ns},
        {"temporary_blocks", summary->temporary_blocks},
        {"ghost_frees", summary->ghost_frees},
        {"inherited_frees", summary->inherited_frees},
        {"unique_stacks", summary->unique_stacks},
        {"truncated_stacks", summary->truncated_stacks},
        {"incomplete_stacks", summary->incomplete_stacks},
        {"incomplete_blocks", incomplete.allocated_blocks},
        {"incomplete_bytes", incomplete.allocated_bytes},
        {"threads", summary->threads},
        {"order_repairs", summary->order_repairs},
        {"rss_peak_bytes", summary->rss_peak_bytes},
        {"events", summary->events},
    };
    ag_json_open(json, "summary", '{');
    for (size_t i = 0; i < AG_ARRAY_SIZE(numbers); i++) {
        ag_json_integer(json, numbers[i].name, numbers[i].value);
    }
    if (ag_profile_identity(profile)->is_sampled) {
        write_intervals(json, ag_profile_total(profile));
    }
    ag_json_close(json, '}');
}

static void write_losses(struct ag_json *json, const struct ag_profile *profile) {
    ag_json_open(json, "lost", '{');
    for (uint32_t cause = 0; ag_profile_lost_name(cause); cause++) {
        ag_json_integer(json, ag_profile_lost_name(cause), ag_profile_lost(profile, cause));
    }
    ag_json_close(json, '}');
    ag_json_integer(json, "lost_stacks", ag_profile_summary(profile)->lost_stacks);
    const char *const *problems;
    const size_t n_problems = ag_profile_problems(profile, &problems);
    ag_json_strings(json, "problems", problems, n_problems);
    const struct ag_profile_runtime *runtimes;
    const size_t n_runtimes = ag_profile_runtimes(profile, &runtimes);
    ag_json_open(json, "runtimes", '[');
    for (size_t i = 0; i < n_runtimes; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "name", runtimes[i].name);
        ag_json_string(json, "version", runtimes[i].version);
        ag_json_bool(json, "hooked", runtimes[i].hooked);
        ag_json_string(json, "note", runtimes[i].note);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

/* Writes what the summary of `report` says about memory that the program mapped itself. */
static int write_program_mappings(struct ag_json *json, struct ag_profile *profile) {
    struct ag_mapped_memory_note note;
    const int r = ag_profile_mapped_memory_note(profile, AG_MAPPINGS_ALL, &note);
    if (r < 0 || !note.is_there) {
        return r;
    }
    const struct ag_frame *frame = ag_profile_frame(note.mappings, note.frame);
    ag_json_open(json, "program_mappings", '{');
    ag_json_integer(json, "peak_bytes", note.peak_bytes);
    ag_json_integer(json, "line_bytes", note.line_bytes);
    ag_json_bool(json, "without_access", note.with_reserved);
    ag_json_string(json, "function", frame->label);
    ag_json_string(json, "file", frame->file ? ag_base_name(frame->file) : NULL);
    ag_json_integer(json, "line", frame->line);
    ag_json_close(json, '}');
    return 0;
}

/* Writes the number at OFFSET of each of N rows as an array. */
static void write_column(struct ag_json *json, const char *name, const void *rows, size_t n,
                         size_t row_bytes, size_t offset) {
    ag_json_open(json, name, '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_integer(json, NULL,
                        *(const uint64_t *)((const char *)rows + i * row_bytes + offset));
    }
    ag_json_close(json, ']');
}

static void write_timeline(struct ag_json *json, const struct ag_profile *profile) {
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(profile, &points);
    ag_json_open(json, "timeline", '{');
    write_column(json, "time_ns", points, n, sizeof(*points),
                 offsetof(struct ag_timeline_point, time_ns));
    write_column(json, "rss_bytes", points, n, sizeof(*points),
                 offsetof(struct ag_timeline_point, rss_bytes));
    ag_json_close(json, '}');
}

static void write_slices(struct ag_json *json, const struct ag_history *history) {
    ag_json_open(json, "slices", '{');
    ag_json_integer(json, "count", history->n_slices);
    ag_json_integer(json, "slice_ns", history->slice_ns);
    ag_json_integer(json, "orders", AG_HISTORY_ORDERS);
    ag_json_bool(json, "has_other_threads", history->has_other_threads);
    static const struct {
        const char *name;
        size_t offset;
    } columns[] = {
        {"peak_bytes", offsetof(struct ag_history_slice, peak_bytes)},
        {"peak_blocks", offsetof(struct ag_history_slice, peak_blocks)},
        {"peak_time_ns", offsetof(struct ag_history_slice, peak_time_ns)},
        {"in_use_bytes", offsetof(struct ag_history_slice, in_use_bytes)},
        {"allocated_bytes", offsetof(struct ag_history_slice, allocated_bytes)},
    };
    for (size_t i = 0; i < AG_ARRAY_SIZE(columns); i++) {
        write_column(json, columns[i].name, history->slices, history->n_slices,
                     sizeof(*history->slices), columns[i].offset);
    }
    ag_json_close(json, '}');
}

/* Writes the findings of `report --json`. "frame" is the number of the finding's line as the block
 * "groups" writes it: the number in "frames" + 2; 0: the finding has no line. */
static void write_findings(struct ag_json *json, const struct ag_page_trace *trace) {
    ag_json_open(json, "findings", '[');
    for (size_t i = 0; i < trace->findings.count; i++) {
        const uint32_t frame = trace->finding_frames[i];
        ag_json_open(json, NULL, '{');
        ag_finding_json(json, trace->profile, &trace->findings.rows[i]);
        ag_json_integer(json, "frame", frame > 0 ? frame + UINT64_C(1) : 0);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_bool(json, "findings_complete", !trace->findings.is_partial);
}

/* Writes the processes of a merged profile: "process_tree" is what `report --view=process_tree
 * --json` prints, "process_files" has the file of each process, by the numbers of processes in the
 * other blocks of the page. */
static int write_process_tree(struct ag_json *json, struct ag_profile *profile) {
    static const struct ag_report_options options = {.size = sizeof(options), .is_json = true};
    char message[512];
    struct ag_view view = {.options = &options,
                           .sort = AG_METRIC_PEAK_BYTES,
                           .limit = UINT64_MAX,
                           .json = json,
                           .message = message,
                           .processes = ag_processes_shown_new()};
    int r = view.processes != NULL ? ag_processes_shown_add(view.processes, profile) : -ENOMEM;
    if (r == 0) {
        ag_json_open(json, "process_tree", '{');
        r = ag_process_tree_view_json(&view);
        ag_json_close(json, '}');
    }
    ag_json_open(json, "process_files", '[');
    for (uint32_t i = 0; i < ag_profile_n_processes(profile); i++) {
        ag_json_string(json, NULL, ag_profile_process(profile, i)->file);
    }
    ag_json_close(json, ']');
    ag_processes_shown_free(view.processes);
    return r;
}

static int write_all(struct ag_json *json, const struct ag_page_trace *trace) {
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "schema", "allogram-page/1");
    write_identity(json, trace->profile);
    write_summary(json, trace->profile);
    write_losses(json, trace->profile);
    int r = write_program_mappings(json, trace->profile);
    r = r == 0 && trace->number == 0 ? ag_resident_facts_write(json, trace->profile) : r;
    if (r == 0 && ag_profile_identity(trace->profile)->n_processes > 1) {
        r = write_process_tree(json, trace->profile);
    }
    write_timeline(json, trace->profile);
    if (trace->history.n_slices > 0) {
        write_slices(json, &trace->history);
    }
    if (trace->number == 0) {
        write_findings(json, trace);
        ag_call_facts_write(trace, json);
    }
    ag_json_open(json, "folded", '{');
    ag_json_integer(json, "stacks", trace->folded_rows);
    ag_json_integer(json, "allocated_bytes", trace->other_bytes);
    ag_json_close(json, '}');
    ag_json_close(json, '}');
    return r;
}

int ag_page_facts_write(const struct ag_page_trace *trace, FILE *out) {
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (!memory) {
        return -ENOMEM;
    }
    struct ag_json json = {.out = memory};
    int r = write_all(&json, trace);
    r = fclose(memory) != 0 && r == 0 ? -ENOMEM : r;
    if (r < 0) {
        free(text);
        return r;
    }
    fprintf(out, "<script type=\"application/json\" id=\"b%u-facts\">", trace->number);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '<' || text[i] == '>' || text[i] == '&') {
            fprintf(out, "\\u%04x", (unsigned)text[i]);
        } else {
            putc_unlocked(text[i], out);
        }
    }
    fputs("</script>\n", out);
    free(text);
    return 0;
}
