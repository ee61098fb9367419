/* heading.c: the heading of a report: what is missing from the recording, and which process was
 * recorded. What is missing is printed first, so that users read the limits of the numbers before
 * the numbers. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "model/definitions/container_id.h"
#include "report/quantity.h"
#include "report/view.h"

uint64_t ag_heading_lost_events(const struct ag_profile *profile) {
    uint64_t events = 0;
    for (uint32_t cause = 0; ag_profile_lost_name(cause) != NULL; cause++) {
        events += ag_profile_lost(profile, cause);
    }
    return events;
}

/* ---- what is missing ---- */

static void write_damage(const struct ag_profile_identity *identity, ag_missing_write *write,
                         void *context) {
    char line[AG_MISSING_BYTES];
    const char *what = identity->damage.what;
    (void)snprintf(line, sizeof line,
                   "%s%s at byte %" PRIu64 " of %" PRIu64 "; only the readable part is shown",
                   strncmp(what, "damaged", strlen("damaged")) == 0 ? "" : "damaged: ", what,
                   identity->damage.offset, identity->file_bytes);
    write(context, line);
    if (identity->missing.chunks > 0) {
        struct ag_quantity events, bytes;
        (void)snprintf(line, sizeof line,
                       "missing: up to %s events, of %" PRIu64 " damaged chunk%s with %s%s",
                       ag_quantity_count(&events, identity->missing.events),
                       identity->missing.chunks, identity->missing.chunks == 1 ? "" : "s",
                       ag_quantity_bytes(&bytes, identity->missing.bytes),
                       identity->missing.has_sums
                           ? "; sums of the whole recording include them, because the trace has an "
                             "index"
                           : "");
        write(context, line);
    }
    if (identity->is_file_cut) {
        write(context, "missing: the end of the file; its size is not known");
    }
}

/* Writes until when events were recorded, if the recording or the file ends before the program. */
static void write_end(const struct ag_profile *profile, ag_missing_write *write, void *context) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    const bool is_cut = strcmp(identity->end, "cut") == 0;
    char line[AG_MISSING_BYTES];
    struct ag_quantity time;
    ag_quantity_time(&time, ag_profile_recording_ns(profile));
    if (is_cut || strcmp(identity->end, "running") == 0) {
        (void)snprintf(line, sizeof line, "%s; events after %s are missing",
                       !is_cut                ? "running: the program had not ended"
                       : identity->is_damaged ? "cut: the end of the program is not in the trace"
                                              : "cut: recording stopped before the program ended",
                       time.text);
        write(context, line);
    }
}

static void write_lost_stacks(const struct ag_profile *profile, ag_missing_write *write,
                              void *context) {
    const uint64_t lost_stacks = ag_profile_summary(profile)->lost_stacks;
    if (lost_stacks > 0) {
        const bool is_one = lost_stacks == 1;
        struct ag_quantity count;
        char line[AG_MISSING_BYTES];
        (void)snprintf(
            line, sizeof line,
            "not stored: the stack%s of %s block%s, because shared memory was full; %s counted "
            "as [stack not kept]",
            is_one ? "" : "s", ag_quantity_count(&count, lost_stacks), is_one ? "" : "s",
            is_one ? "this block is" : "these blocks are");
        write(context, line);
    }
}

static void write_lost_events(const struct ag_profile *profile, ag_missing_write *write,
                              void *context) {
    const uint64_t lost_events = ag_heading_lost_events(profile);
    if (lost_events == 0) {
        return;
    }
    struct ag_quantity count;
    char line[AG_MISSING_BYTES];
    size_t used =
        (size_t)snprintf(line, sizeof line, "lost: %s event%s",
                         ag_quantity_count(&count, lost_events), lost_events == 1 ? "" : "s");
    const char *separator = " (";
    for (uint32_t cause = 0; ag_profile_lost_name(cause) != NULL; cause++) {
        const uint64_t events = ag_profile_lost(profile, cause);
        if (events != 0 && used < sizeof line) {
            used +=
                (size_t)snprintf(line + used, sizeof line - used, "%s%s %s", separator,
                                 ag_profile_lost_name(cause), ag_quantity_count(&count, events));
            separator = ", ";
        }
    }
    if (used < sizeof line) {
        (void)snprintf(line + used, sizeof line - used, "); all numbers are too low by %s",
                       lost_events == 1 ? "this event" : "these events");
    }
    write(context, line);
}

void ag_missing_lines(const struct ag_profile *profile, ag_missing_write *write, void *context) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    if (identity->is_damaged) {
        write_damage(identity, write, context);
    }
    write_end(profile, write, context);
    write_lost_stacks(profile, write, context);
    write_lost_events(profile, write, context);
}

static void write_warning(void *context, const char *line) {
    ag_page_prose(context, AG_STYLE_WARNING, "%s", line);
}

void ag_heading_missing(struct ag_page *page, const struct ag_profile *profile) {
    ag_missing_lines(profile, write_warning, page);
}

void ag_missing_json(struct ag_json *json, const char *key,
                     const struct ag_profile_identity *identity, uint64_t lost_events,
                     uint64_t lost_stacks, uint64_t recording_ns) {
    const bool has_no_end =
        strcmp(identity->end, "cut") == 0 || strcmp(identity->end, "running") == 0;
    ag_json_open(json, key, '{');
    ag_json_integer(json, "lost_events", lost_events);
    ag_json_integer(json, "lost_stacks", lost_stacks);
    ag_json_integer(json, "damaged_chunks", identity->missing.chunks);
    ag_json_integer(json, "damaged_events", identity->missing.events);
    ag_json_bool(json, "end_of_file", identity->is_file_cut);
    ag_json_integer_if(json, "after_ns", recording_ns, has_no_end);
    ag_json_close(json, '}');
}

void ag_heading_missing_json(struct ag_json *json, const char *key,
                             const struct ag_profile *profile) {
    ag_missing_json(json, key, ag_profile_identity(profile), ag_heading_lost_events(profile),
                    ag_profile_summary(profile)->lost_stacks, ag_profile_recording_ns(profile));
}

const char *ag_heading_end(struct ag_end_text *buffer, const struct ag_profile_identity *identity) {
    const int status = (int)identity->wait_status;
    if (identity->kernel_kill.certainty == AG_KILL_CERTAIN) {
        snprintf(buffer->text, sizeof buffer->text, "killed by the kernel");
    } else if (!identity->wait_status_known) {
        snprintf(buffer->text, sizeof buffer->text, "%s",
                 strcmp(identity->end, "signal") == 0 ? "a signal" : identity->end);
    } else if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        if (name != NULL) {
            snprintf(buffer->text, sizeof buffer->text, "SIG%s", name);
        } else { /* a real-time signal has no name */
            snprintf(buffer->text, sizeof buffer->text, "signal %d", WTERMSIG(status));
        }
    } else {
        snprintf(buffer->text, sizeof buffer->text, "exit %d", WEXITSTATUS(status));
    }
    return buffer->text;
}

static const char *end_words(struct ag_frame_text *buffer,
                             const struct ag_profile_identity *identity) {
    struct ag_end_text end;
    const bool is_killed = identity->kernel_kill.certainty == AG_KILL_CERTAIN;
    const bool has_ended = identity->wait_status_known || strcmp(identity->end, "exit") == 0 ||
                           strcmp(identity->end, "signal") == 0;
    snprintf(buffer->text, sizeof buffer->text, "%s%s", has_ended && !is_killed ? "ended by " : "",
             ag_heading_end(&end, identity));
    return identity->is_end_unseen ? "ended in an unknown way" : buffer->text;
}

/* Writes the filter of the recording, and the heaps for which the filter could not decide by
 * type. */
static void write_recording_filter(struct ag_page *page,
                                   const struct ag_profile_identity *identity) {
    if (identity->filter == NULL) {
        return;
    }
    enum { INDENT = 2 };
    ag_page_prose(page, AG_STYLE_DIM, "recorded: only --filter=%s", identity->filter);
    for (size_t i = 0; i < identity->n_undecided; i++) {
        ag_page_wrap(page, AG_STYLE_WARNING, INDENT, i == 0 ? "the type of a block in " : ", ");
        ag_page_wrap(page, AG_STYLE_WARNING, INDENT, identity->undecided[i]);
    }
    if (identity->n_undecided > 0) {
        ag_page_wrap(page, AG_STYLE_WARNING, INDENT,
                     " is not known when it is allocated: a filter type= excluded all of "
                     "these blocks, and a filter !type= none");
        ag_page_end_line(page);
    }
}

void ag_heading_command(char *to, size_t capacity, const struct ag_profile_identity *identity) {
    size_t used = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < identity->n_arguments && used + 1 < capacity; i++) {
        int more =
            snprintf(to + used, capacity - used, "%s%s", i > 0 ? " " : "", identity->arguments[i]);
        used += more > 0 ? (size_t)more : 0;
    }
    if (identity->n_arguments == 0) {
        snprintf(to, capacity, "%s", identity->exe);
    }
}

/* Writes how a time window (--from, --to) affects the report: the recording had ended before the
 * window; or the recording was reset when the window began; or blocks from before the window are
 * not counted. */
static void write_window(struct ag_page *page, const struct ag_profile *profile) {
    const struct ag_profile_window *window = ag_profile_window(profile);
    if (window == NULL) {
        return;
    }
    struct ag_quantity frees, bytes;
    if (window->recording_ns > 0 && window->from_ns >= window->recording_ns) {
        ag_page_print(page, AG_STYLE_WARNING,
                      "this window is empty: the recording had ended at %s\n",
                      ag_quantity_time(&bytes, window->recording_ns));
        return;
    }
    if (window->is_reset) {
        ag_page_prose(page, AG_STYLE_DIM,
                      "since %s, when the recording was reset; blocks in use at that time are "
                      "included",
                      ag_quantity_time(&bytes, window->from_ns));
    }
    if (window->counts_older) {
        return;
    }
    ag_quantity_bytes(&bytes, window->in_use_bytes_before);
    ag_page_prose(
        page, AG_STYLE_DIM,
        "only blocks allocated in this window; not counted: %s free%s of older blocks%s%s%s",
        ag_quantity_count(&frees, window->older_frees), window->older_frees == 1 ? "" : "s",
        window->knows_before ? ", " : "", window->knows_before ? bytes.text : "",
        window->knows_before ? " in use before" : "");
}

static void write_window_json(struct ag_json *json, const struct ag_profile *profile) {
    const struct ag_profile_window *window = ag_profile_window(profile);
    if (window == NULL) {
        return;
    }
    ag_json_open(json, "window", '{');
    ag_json_integer(json, "from_ns", window->from_ns);
    ag_json_nonzero(json, "to_ns", window->to_ns);
    ag_json_bool(json, "counts_older_blocks", window->counts_older);
    ag_json_integer(json, "frees_of_older_blocks", window->older_frees);
    ag_json_integer_if(json, "in_use_bytes_before", window->in_use_bytes_before,
                       window->knows_before);
    ag_json_close(json, '}');
}

void ag_heading_folded(struct ag_page *page) {
    ag_page_prose(page, AG_STYLE_DIM,
                  "without frames of wrappers and libraries; --fold=none shows all frames");
}

static void write_container(struct ag_page *page, const struct ag_profile_identity *identity) {
    struct ag_container container;
    if (ag_container_of(identity->cgroup, &container)) {
        ag_page_prose(page, AG_STYLE_DIM, "in container %.12s%s%s%s%s%s", container.id,
                      container.engine != NULL ? " (" : "",
                      container.engine != NULL ? container.engine : "",
                      container.engine != NULL ? ")" : "",
                      container.pod[0] != '\0' ? " of pod " : "", container.pod);
    }
}

void ag_heading_cgroup_json(struct ag_json *json, const struct ag_profile_identity *identity) {
    struct ag_container container;
    if (identity->cgroup != NULL) {
        ag_json_string(json, "cgroup", identity->cgroup);
    }
    if (ag_container_of(identity->cgroup, &container)) {
        ag_json_open(json, "container", '{');
        ag_json_string(json, "id", container.id);
        ag_json_string(json, "engine", container.engine);
        ag_json_string(json, "pod", container.pod[0] != '\0' ? container.pod : NULL);
        ag_json_close(json, '}');
    }
}

void ag_heading_text(struct ag_page *page, const struct ag_profile *profile, const char *filter,
                     bool is_folded) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    char command[AG_FITTED_BYTES], facts[1200];
    struct ag_frame_text end;
    struct ag_quantity duration;
    ag_heading_command(command, sizeof command, identity);
    snprintf(facts, sizeof facts, "pid %" PRIu32 ", %s, %s, %s", identity->pid,
             ag_profile_observed(profile)->is_there ? "observed from outside" : identity->mode,
             ag_quantity_time(&duration, ag_profile_recording_ns(profile)),
             end_words(&end, identity));
    size_t facts_columns = ag_page_columns_of(facts);
    size_t room = page->columns > facts_columns + 12 ? page->columns - facts_columns - 2 : 10;
    struct ag_fitted fitted;
    size_t taken = ag_page_fit(&fitted, command, room);
    ag_page_text(page, AG_STYLE_BRIGHT, fitted.text);
    ag_page_spaces(page, room - taken + 2);
    ag_page_text(page, AG_STYLE_DIM, facts);
    ag_page_end_line(page);
    if (identity->n_processes > 1) {
        ag_page_prose(
            page, AG_STYLE_DIM,
            "and %u more process%s, merged; the peak is the sum of the peaks of all processes",
            identity->n_processes - 1, identity->n_processes == 2 ? "" : "es");
    }
    write_container(page, identity);
    if (identity->is_sampled) {
        struct ag_quantity interval;
        const bool has_interval = identity->interval_bytes > 0;
        ag_page_prose(
            page, AG_STYLE_DIM,
            "sampled%s%s%s: the numbers are estimates; ± is the 95 %% confidence interval",
            has_interval ? ", one in " : " (each process has its own interval)",
            has_interval ? ag_quantity_bytes(&interval, identity->interval_bytes) : "",
            has_interval ? " on average" : "");
    }
    write_recording_filter(page, identity);
    if (filter != NULL) {
        ag_page_prose(page, AG_STYLE_DIM, "only %s", filter);
    }
    if (is_folded) {
        ag_heading_folded(page);
    }

    write_window(page, profile);

    const char *const *problems;
    size_t n_problems = ag_profile_problems(profile, &problems);
    for (size_t i = 0; i < n_problems && i < 3; i++) {
        ag_page_prose(page, AG_STYLE_DIM, "names: %s", problems[i]);
    }
    if (n_problems > 3) {
        ag_page_print(page, AG_STYLE_DIM, "names: %zu more problems; --json lists them\n",
                      n_problems - 3);
    }
    ag_page_end_line(page);
}

void ag_heading_trace_json(struct ag_json *json, const char *key,
                           const struct ag_profile *profile) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    const struct ag_summary *summary = ag_profile_summary(profile);
    ag_json_open(json, key, '{');
    ag_json_string(json, "file", identity->file);
    ag_json_integer(json, "format_version", identity->format_version);
    ag_json_integer(json, "pid", identity->pid);
    ag_json_strings(json, "command", identity->arguments, identity->n_arguments);
    ag_json_string(json, "exe", identity->exe);
    if (identity->host[0] != '\0') {
        ag_json_string(json, "host", identity->host);
    }
    ag_heading_cgroup_json(json, identity);
    ag_json_string(json, "mode", identity->mode);
    /* interval_bytes is 0 if several processes have their own intervals. */
    const bool has_interval = identity->is_sampled && identity->interval_bytes > 0;
    ag_json_integer_if(json, "interval_bytes", identity->interval_bytes, has_interval);
    if (has_interval) {
        ag_json_integer(json, "seed", identity->seed);
    }
    if (identity->filter != NULL) {
        ag_json_string(json, "filter", identity->filter);
        ag_json_strings(json, "filter_undecided", identity->undecided, identity->n_undecided);
    }
    ag_json_integer(json, "time_resolution_ns", summary->time_resolution_ns);
    ag_json_integer(json, "duration_ns", ag_profile_recording_ns(profile));
    ag_json_string(json, "end", identity->end);
    ag_kill_json(json, "kernel_kill", &identity->kernel_kill);
    if (identity->n_processes > 1) {
        ag_json_integer(json, "processes", identity->n_processes);
    }
    ag_json_close(json, '}');
}

void ag_heading_json(struct ag_json *json, const struct ag_profile *profile) {
    ag_heading_trace_json(json, "trace", profile);
    write_window_json(json, profile);
}

void ag_heading_damage_json(struct ag_json *json, const char *key,
                            const struct ag_profile *profile) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    if (identity->is_damaged) {
        ag_json_open(json, key, '{');
        ag_json_integer(json, "offset", identity->damage.offset);
        ag_json_string(json, "what", identity->damage.what);
        ag_json_integer(json, "missing_chunks", identity->missing.chunks);
        ag_json_integer(json, "missing_events", identity->missing.events);
        ag_json_integer(json, "missing_bytes", identity->missing.bytes);
        ag_json_close(json, '}');
    }
}

void ag_heading_whole_process(struct ag_view *view) {
    if (!view->options->has_stack_filter) {
        return;
    }
    if (view->options->is_json) {
        ag_json_bool(view->json, "whole_process", true);
    } else {
        ag_page_prose(view->page, AG_STYLE_WARNING,
                      "whole process: --focus, --ignore and --runtime do not apply to this view");
        ag_page_end_line(view->page);
    }
}

void ag_heading_whole_recording(struct ag_view *view) {
    if (!view->options->has_window) {
        return;
    }
    if (view->options->is_json) {
        ag_json_bool(view->json, "whole_recording", true);
    } else {
        ag_page_text(view->page, AG_STYLE_WARNING,
                     "whole recording: --from and --to do not apply to this view\n");
        ag_page_end_line(view->page);
    }
}
