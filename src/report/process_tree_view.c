/* process_tree_view.c: `report --view=process_tree`: the recorded processes, each below the process
 * that started it, with what each allocated and how it ended.
 *
 *      peak MiB  allocated MiB  resident MiB   pid  started  end       process
 *           1.2           30.4           5.1  4711  0 s      exit 0    make -j2
 *           0.4            1.1           3.8  4712  12 ms    executed  ├─ sh -c cc
 *          81.0          402.7          96.2  4712  13 ms    exit 0    │  cc -c big.c
 *          22.5           64.0          31.9  4713  14 ms    SIGKILL   └─ cc -c small.c
 *
 * Siblings are sorted by the sums over each process and all its descendants, so that the branch
 * that took most memory comes first. The numbers of a row are those of its process alone, so that
 * the rows add up to the last row. All traces are one tree, so the view has no heading for each
 * trace. What is missing from the traces comes first, as in all views. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "model/answers/process_tree.h"
#include "model/interval.h"
#include "report/branch_walk.h"
#include "report/quantity.h"
#include "report/table.h"
#include "report/view.h"
#include "table/array.h"

struct ag_processes_shown {
    struct ag_process_tree *tree;
    struct missing_line {
        char *text;
        uint32_t pid;
        size_t process; /* number in the tree; AG_PROCESS_ROOT: several processes */
    } * missing;        /* lines of ag_missing_lines of all traces */
    size_t n_missing;
    bool is_short; /* no memory for a line */
};

struct ag_processes_shown *ag_processes_shown_new(void) {
    struct ag_processes_shown *shown = calloc(1, sizeof *shown);
    if (shown != NULL) {
        shown->tree = ag_process_tree_new();
    }
    return shown != NULL && shown->tree == NULL ? ag_processes_shown_free(shown) : shown;
}

struct ag_processes_shown *ag_processes_shown_free(struct ag_processes_shown *shown) {
    if (shown != NULL) {
        for (size_t i = 0; i < shown->n_missing; i++) {
            free(shown->missing[i].text);
        }
        free(shown->missing);
        ag_process_tree_free(shown->tree);
        free(shown);
    }
    return NULL;
}

struct missing_of_trace {
    struct ag_processes_shown *shown;
    struct missing_line line; /* `text` is set for each line */
};

static void keep_missing(void *context, const char *text) {
    const struct missing_of_trace *of = context;
    struct ag_processes_shown *shown = of->shown;
    struct missing_line line = of->line;
    line.text = strdup(text);
    if (line.text == NULL || AG_ARRAY_ADD(shown->missing, shown->n_missing, line) < 0) {
        free(line.text);
        shown->is_short = true;
    }
}

int ag_processes_shown_add(struct ag_processes_shown *shown, struct ag_profile *profile) {
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    const struct ag_process *processes;
    const size_t number = ag_process_tree_list(shown->tree, &processes);
    struct missing_of_trace of = {
        .shown = shown,
        .line = {.pid = identity->pid,
                 .process = identity->n_processes == 1 ? number : AG_PROCESS_ROOT}};
    const int r = ag_process_tree_add(shown->tree, profile);
    ag_missing_lines(profile, keep_missing, &of);
    return r < 0 ? r : shown->is_short ? -ENOMEM : 0;
}

/* ---- both forms ---- */

struct shown_walk {
    struct ag_view *view;
    const struct ag_process *processes;
    struct ag_branch_walk branches;
    size_t n_programs;  /* traces, without those that are repeated */
    size_t n_processes; /* a process that executes a program stays one process */
    /* traces of processes that another trace shows for a longer time */
    size_t n_repeated;
    uint32_t largest;           /* the process with the highest peak; AG_PROCESS_ROOT: none */
    uint64_t first_realtime_ns; /* when the first process started */
    uint64_t end_realtime_ns;   /* when the last recording ended */
    bool is_sampled;            /* some of the traces are sampled */
    bool is_different;          /* the processes are of several recordings */
    bool has_lost;
    /* text: the table, and the units of its columns */
    struct ag_table *table;
    struct ag_unit sort_unit, other_unit, rss_unit;
    size_t process_columns; /* width of the last column */
    bool is_short;
};

static struct ag_branch process_branch_of(const void *context, uint32_t number) {
    const struct shown_walk *walk = context;
    const struct ag_process *process = &walk->processes[number];
    const enum ag_metric sort = walk->view->sort;
    return (struct ag_branch){
        .first_child = process->first_child,
        .next_sibling = process->next_sibling,
        .value = ag_metric_of(&process->all, sort),
        .is_shown = ag_metric_of(&process->all, ag_metric_blocks_of(sort)) >=
                    walk->view->options->min_count,
        /* A program that its parent executed is in the same process as the parent, so it is not
         * indented. */
        .is_indented = process->parent != AG_PROCESS_ROOT && !process->was_executed,
    };
}

static int start_shown_walk(struct shown_walk *walk, struct ag_view *view) {
    const struct ag_processes_shown *shown = view->processes;
    *walk = (struct shown_walk){.view = view, .first_realtime_ns = UINT64_MAX};
    const int r = ag_process_tree_link(shown->tree);
    const size_t n = ag_process_tree_list(shown->tree, &walk->processes);
    walk->branches = (struct ag_branch_walk){
        .get = process_branch_of, .context = walk, .view = view, .n_nodes = n};
    for (size_t i = AG_PROCESS_ROOT + 1; i < n; i++) {
        const struct ag_process *process = &walk->processes[i];
        const struct ag_profile_identity *identity = &process->identity;
        const uint64_t end_ns = identity->start_realtime_ns + process->recording_ns;
        walk->n_repeated += process->is_repeated;
        if (process->is_repeated) {
            continue;
        }
        walk->first_realtime_ns = identity->start_realtime_ns < walk->first_realtime_ns
                                      ? identity->start_realtime_ns
                                      : walk->first_realtime_ns;
        walk->end_realtime_ns = end_ns > walk->end_realtime_ns ? end_ns : walk->end_realtime_ns;
        walk->is_sampled |= identity->is_sampled;
        walk->is_different |= identity->session != walk->processes[1].identity.session;
        walk->has_lost |= process->lost_events > 0;
        walk->n_programs++;
        walk->n_processes += !process->was_executed;
        const bool is_larger =
            walk->largest == AG_PROCESS_ROOT ||
            process->own.peak_bytes > walk->processes[walk->largest].own.peak_bytes;
        walk->largest = is_larger ? (uint32_t)i : walk->largest;
    }
    return r;
}

/* ---- JSON ---- */

static void process_metrics_json(struct ag_json *json, const struct ag_metrics *metrics,
                                 bool is_sampled) {
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        const uint64_t value = ag_metric_of(metrics, metric);
        if (is_sampled) {
            const struct ag_interval interval = ag_interval_of_metric(metrics, metric);
            ag_json_estimate(json, ag_metric_name(metric), value,
                             metric != AG_METRIC_TEMPORARY_BLOCKS, interval.low, interval.high);
        } else {
            ag_json_integer(json, ag_metric_name(metric), value);
        }
    }
}

static void visit_process_json(void *context, uint32_t number) {
    const struct shown_walk *walk = context;
    const struct ag_process *process = &walk->processes[number];
    const struct ag_profile_identity *identity = &process->identity;
    struct ag_json *json = walk->view->json;
    const int status = (int)identity->wait_status;
    const bool has_exited = identity->wait_status_known && !WIFSIGNALED(status);
    const bool has_signal = identity->wait_status_known && WIFSIGNALED(status);
    char session[17];
    snprintf(session, sizeof session, "%016" PRIx64, identity->session);
    ag_json_open(json, NULL, '{');
    ag_json_integer(json, "pid", identity->pid);
    ag_json_nonzero(json, "parent_pid", identity->parent_pid);
    char own_identity[17];
    snprintf(own_identity, sizeof own_identity, "%016" PRIx64, identity->process_identity);
    ag_json_string(json, "identity", identity->process_identity != 0 ? own_identity : NULL);
    ag_json_string(json, "file", identity->file);
    ag_json_string(
        json, "parent_file",
        process->parent != AG_PROCESS_ROOT ? walk->processes[process->parent].identity.file : NULL);
    ag_json_bool(json, "was_executed", process->was_executed);
    ag_json_string(json, "session", identity->session != 0 ? session : NULL);
    ag_json_strings(json, "command", identity->arguments, identity->n_arguments);
    ag_json_string(json, "title", identity->title);
    ag_json_string(json, "exe", identity->exe);
    ag_json_string(json, "user",
                   identity->user != NULL && *identity->user != '\0' ? identity->user : NULL);
    ag_json_integer_if(json, "user_id", identity->user_id, identity->user != NULL);
    ag_json_integer_if(json, "address_space_limit_bytes", identity->address_space_limit_bytes,
                       identity->user != NULL && identity->address_space_limit_bytes != UINT64_MAX);
    ag_heading_cgroup_json(json, identity);
    ag_json_string(json, "mode", identity->mode);
    ag_json_integer(json, "start_ns", identity->start_ns);
    ag_json_integer(json, "duration_ns", process->recording_ns);
    ag_json_string(json, "end", process->has_executed ? "executed" : identity->end);
    ag_json_integer_if(json, "exit_status", has_exited ? (uint64_t)WEXITSTATUS(status) : 0,
                       has_exited);
    ag_json_integer_if(json, "signal", has_signal ? (uint64_t)WTERMSIG(status) : 0, has_signal);
    ag_kill_json(json, "kernel_kill", &identity->kernel_kill);
    process_metrics_json(json, &process->own, identity->is_sampled);
    ag_json_integer(json, "ghost_frees", process->ghost_frees);
    ag_json_integer(json, "inherited_frees", process->inherited_frees);
    ag_json_nonzero(json, "rss_peak_bytes", process->rss_peak_bytes);
    ag_json_open(json, "with_descendants", '{');
    process_metrics_json(json, &process->all, walk->is_sampled);
    ag_json_close(json, '}');
    ag_missing_json(json, "missing", identity, process->lost_events, process->lost_stacks,
                    process->recording_ns);
    ag_json_close(json, '}');
}

int ag_process_tree_view_json(struct ag_view *view) {
    struct shown_walk walk;
    int r = start_shown_walk(&walk, view);
    if (r < 0) {
        return r;
    }
    const struct ag_process *root = &walk.processes[AG_PROCESS_ROOT];
    ag_json_open(view->json, "processes", '[');
    walk.branches.visit = visit_process_json;
    r = ag_branch_walk_run(&walk.branches);
    ag_json_close(view->json, ']');
    ag_json_open(view->json, "total", '{');
    ag_json_integer(view->json, "processes", walk.n_processes);
    ag_json_integer(view->json, "programs", walk.n_programs);
    process_metrics_json(view->json, &root->all, walk.is_sampled);
    ag_json_integer(view->json, "lost_events", root->lost_events);
    ag_json_integer(view->json, "lost_stacks", root->lost_stacks);
    ag_json_close(view->json, '}');
    ag_json_integer(view->json, "repeated_traces", walk.n_repeated);
    return r;
}

/* ---- text ---- */

/* The first column shows the metric of --sort. The second column shows the allocated bytes, or the
 * peak if the first column shows the allocated bytes. */
static enum ag_metric second_metric(const struct ag_view *view) {
    return view->sort == AG_METRIC_ALLOCATED_BYTES ? AG_METRIC_PEAK_BYTES
                                                   : AG_METRIC_ALLOCATED_BYTES;
}

/* Writes the command with the name of the program in place of its path, or the title if the program
 * has changed it. */
static void write_short_command(char *to, size_t capacity,
                                const struct ag_profile_identity *identity) {
    if (identity->title != NULL) {
        snprintf(to, capacity, "%s", identity->title);
        return;
    }
    const char *name = identity->n_arguments > 0 ? identity->arguments[0] : identity->exe;
    char command[AG_FITTED_BYTES];
    ag_heading_command(command, sizeof command, identity);
    const size_t folder_bytes = (size_t)(ag_base_name(name) - name);
    /* a path that does not fit into the command stays as it is */
    snprintf(to, capacity, "%s", command + (folder_bytes < strlen(command) ? folder_bytes : 0));
}

/* Fills the last column: the lines of the tree, and the command. If they need too many columns, the
 * outermost lines and the middle of the command are left out. */
static void add_process_cell(struct shown_walk *walk, const struct ag_process *process) {
    enum { COMMAND_LEAST_COLUMNS = 12 };
    const size_t columns = walk->process_columns;
    const size_t room = columns > COMMAND_LEAST_COLUMNS ? columns - COMMAND_LEAST_COLUMNS : 0;
    char command[AG_FITTED_BYTES];
    struct ag_fitted fitted;
    char *text = NULL;
    size_t n_text = 0;
    FILE *out = open_memstream(&text, &n_text);
    if (out == NULL) {
        walk->is_short = true;
        return;
    }
    struct ag_page page = {.out = out, .columns = AG_PAGE_MOST_COLUMNS};
    const size_t taken = ag_branch_walk_lines(&walk->branches, &page, room);
    write_short_command(command, sizeof command, &process->identity);
    ag_page_fit(&fitted, command, columns > taken ? columns - taken : 1);
    fputs(fitted.text, out);
    walk->is_short |= fclose(out) != 0;
    ag_table_cell(walk->table, text != NULL ? text : "");
    free(text);
}

static void visit_process_text(void *context, uint32_t number) {
    struct shown_walk *walk = context;
    const struct ag_process *process = &walk->processes[number];
    const struct ag_profile_identity *identity = &process->identity;
    struct ag_quantity text;
    struct ag_end_text end;
    ag_table_cell(walk->table, ag_quantity_in(&text, ag_metric_of(&process->own, walk->view->sort),
                                              walk->sort_unit));
    ag_table_cell(walk->table,
                  ag_quantity_in(&text, ag_metric_of(&process->own, second_metric(walk->view)),
                                 walk->other_unit));
    ag_table_cell(walk->table, process->rss_peak_bytes > 0
                                   ? ag_quantity_in(&text, process->rss_peak_bytes, walk->rss_unit)
                                   : "");
    if (walk->has_lost) {
        ag_table_cell(walk->table, ag_quantity_count(&text, process->lost_events));
    }
    snprintf(text.text, sizeof text.text, "%" PRIu32, identity->pid);
    ag_table_cell(walk->table, text.text);
    ag_table_cell(walk->table,
                  ag_quantity_time(&text, identity->start_realtime_ns - walk->first_realtime_ns));
    ag_table_cell(walk->table, process->has_executed     ? "executed"
                               : identity->is_end_unseen ? "unknown"
                                                         : ag_heading_end(&end, identity));
    add_process_cell(walk, process);
}

struct count_words {
    char text[128];
};
/* Fills the buffer with "54 processes, 91 programs", and returns its text. */
static const char *count_words(struct count_words *buffer, const struct shown_walk *walk) {
    struct ag_quantity processes, programs;
    ag_quantity_count(&processes, walk->n_processes);
    ag_quantity_count(&programs, walk->n_programs);
    const bool is_one = walk->n_processes == 1;
    snprintf(buffer->text, sizeof buffer->text, "%s process%s%s%s%s", processes.text,
             is_one ? "" : "es", walk->n_programs > walk->n_processes ? ", " : "",
             walk->n_programs > walk->n_processes ? programs.text : "",
             walk->n_programs > walk->n_processes ? " programs" : "");
    return buffer->text;
}

static void add_sums(struct shown_walk *walk) {
    const struct ag_process *root = &walk->processes[AG_PROCESS_ROOT];
    struct ag_quantity text;
    ag_table_rule(walk->table);
    ag_table_cell(walk->table, ag_quantity_in(&text, ag_metric_of(&root->all, walk->view->sort),
                                              walk->sort_unit));
    ag_table_cell(walk->table,
                  ag_quantity_in(&text, ag_metric_of(&root->all, second_metric(walk->view)),
                                 walk->other_unit));
    ag_table_cell(walk->table, ""); /* processes share memory, so a sum would be too large */
    if (walk->has_lost) {
        ag_table_cell(walk->table, ag_quantity_count(&text, root->lost_events));
    }
    ag_table_cell(walk->table, "");
    ag_table_cell(walk->table, "");
    ag_table_cell(walk->table, "");
    struct count_words words;
    ag_table_cell(walk->table, count_words(&words, walk));
}

static void write_tree_heading(struct shown_walk *walk) {
    enum { MISSING_MOST = 10 };
    const struct ag_processes_shown *shown = walk->view->processes;
    struct ag_page *page = walk->view->page;
    struct ag_quantity count, time;
    struct count_words words;
    size_t n_missing = 0;
    for (size_t i = 0; i < shown->n_missing; i++) {
        const struct missing_line *line = &shown->missing[i];
        if (!walk->processes[line->process].is_repeated && n_missing++ < MISSING_MOST) {
            char pid[24] = "";
            if (line->process != AG_PROCESS_ROOT) {
                snprintf(pid, sizeof pid, "pid %" PRIu32 ": ", line->pid);
            }
            ag_page_prose(page, AG_STYLE_WARNING, "%s%s", pid, line->text);
        }
    }
    if (n_missing > MISSING_MOST) {
        ag_page_prose(page, AG_STYLE_WARNING,
                      "%s more lines about what is missing; --json shows them for each process",
                      ag_quantity_count(&count, n_missing - MISSING_MOST));
    }
    ag_page_prose(page, AG_STYLE_BRIGHT, "%s%s, %s", count_words(&words, walk),
                  walk->is_different ? " of several recordings" : "",
                  ag_quantity_time(&time, walk->end_realtime_ns > walk->first_realtime_ns
                                              ? walk->end_realtime_ns - walk->first_realtime_ns
                                              : 0));
    if (walk->n_programs > 1) {
        const struct ag_process *largest = &walk->processes[walk->largest];
        char command[AG_FITTED_BYTES];
        struct ag_fitted fitted;
        write_short_command(command, sizeof command, &largest->identity);
        ag_page_fit(&fitted, command, page->columns / 2);
        ag_page_prose(page, AG_STYLE_PLAIN, "highest peak: %s of pid %" PRIu32 ", %s",
                      ag_quantity_bytes(&count, largest->own.peak_bytes), largest->identity.pid,
                      fitted.text);
    }
    if (walk->is_sampled) {
        ag_page_prose(page, AG_STYLE_DIM,
                      "sampled: the numbers are estimates; --json has their intervals");
    }
    if (walk->n_repeated > 0) {
        ag_page_prose(page, AG_STYLE_DIM,
                      "not counted: %s trace%s of a process that another trace shows for a longer "
                      "time",
                      ag_quantity_count(&count, walk->n_repeated),
                      walk->n_repeated == 1 ? "" : "s");
    }
    if (walk->view->options->filter != NULL) {
        ag_page_prose(page, AG_STYLE_DIM, "only %s", walk->view->options->filter);
    }
    ag_page_end_line(page);
}

static struct ag_unit unit_of(enum ag_metric metric, uint64_t largest) {
    return ag_metric_is_bytes(metric) ? ag_unit_of_bytes(largest) : ag_unit_of_blocks(largest);
}

static void write_head(char head[48], enum ag_metric metric, const struct ag_unit *unit) {
    snprintf(head, 48, "%s%s%s", metric == AG_METRIC_PEAK_BYTES ? "peak" : ag_metric_words(metric),
             *unit->name != '\0' ? " " : "", unit->name);
}

/* The width of the last column. All other columns of the table are about 70 columns wide. On a
 * narrow page the last column keeps a least width, and the table leaves out some of the others. */
static size_t width_of_processes(size_t page_columns) {
    enum { OTHERS = 70, LEAST = 30 };
    return page_columns >= OTHERS + LEAST ? page_columns - OTHERS
           : page_columns >= 2 * LEAST    ? LEAST
                                          : page_columns / 2 - 4;
}

static int write_tree_table(struct shown_walk *walk) {
    struct ag_view *view = walk->view;
    const struct ag_process *root = &walk->processes[AG_PROCESS_ROOT];
    const enum ag_metric second = second_metric(view);
    uint64_t most_rss = 0;
    for (size_t i = 0; i < walk->branches.n_nodes; i++) {
        const uint64_t rss = walk->processes[i].rss_peak_bytes;
        most_rss = rss > most_rss ? rss : most_rss;
    }
    walk->sort_unit = unit_of(view->sort, ag_metric_of(&root->all, view->sort));
    walk->other_unit = unit_of(second, ag_metric_of(&root->all, second));
    walk->rss_unit = ag_unit_of_bytes(most_rss);
    walk->process_columns = width_of_processes(view->page->columns);
    char heads[3][48];
    write_head(heads[0], view->sort, &walk->sort_unit);
    write_head(heads[1], second, &walk->other_unit);
    snprintf(heads[2], sizeof heads[2], "resident %s", walk->rss_unit.name);
    struct ag_column columns[8];
    size_t n = 0;
    columns[n++] = (struct ag_column){.head = heads[0], .style = AG_STYLE_BRIGHT};
    columns[n++] = (struct ag_column){.head = heads[1], .spare = 1};
    columns[n++] = (struct ag_column){.head = heads[2], .spare = 3};
    if (walk->has_lost) {
        columns[n++] = (struct ag_column){.head = "lost", .style = AG_STYLE_WARNING};
    }
    columns[n++] = (struct ag_column){.head = "pid", .style = AG_STYLE_DIM, .spare = 2};
    columns[n++] = (struct ag_column){
        .head = "started", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .spare = 4};
    columns[n++] = (struct ag_column){.head = "end", .align = AG_ALIGN_LEFT};
    columns[n++] = (struct ag_column){.head = "process",
                                      .align = AG_ALIGN_LEFT,
                                      .style = AG_STYLE_BRIGHT,
                                      .least_columns = (unsigned)walk->process_columns};
    walk->table = ag_table_new(columns, n);
    walk->branches.visit = visit_process_text;
    int r = ag_branch_walk_run(&walk->branches);
    add_sums(walk);
    r = r < 0 ? r : walk->is_short ? -ENOMEM : ag_table_write(walk->table, view->page);
    walk->table = ag_table_free(walk->table);
    if (r == 0) {
        ag_branch_walk_write_hidden(&walk->branches, view->page,
                                    ag_metric_of(&root->all, view->sort));
    }
    return r;
}

int ag_process_tree_view_text(struct ag_view *view) {
    struct shown_walk walk;
    const int r = start_shown_walk(&walk, view);
    if (r < 0 || walk.n_programs == 0) {
        return r;
    }
    write_tree_heading(&walk);
    return write_tree_table(&walk);
}
