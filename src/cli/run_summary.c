/* run_summary.c: prints the closing lines of `run` and `attach`: first problems, then the counted
 * calls, if any, then a line with the main numbers, then lines for what applies (other processes,
 * mappings, a kill ...), and at the end the name of the trace. The numbers are rounded; `report`
 * shows them exactly. */
#include "cli/run_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/runtimes.h"
#include "cli/message.h"
#include "model/answers/findings.h"
#include "model/answers/functions.h"
#include "model/answers/program_mappings.h"
#include "model/interval.h"
#include "model/profile.h"
#include "remote/glibc_heap.h"
#include "report/quantity.h"
#include "report/report.h"
#include "symbol/symbol.h"
#include "text/shell_word.h"

/* If the file PATH is in the current folder or below it, returns the path relative to the current
 * folder, which is easier to type; otherwise PATH. */
static const char *short_path(const char *path) {
    char folder[4096];
    const size_t length = getcwd(folder, sizeof(folder)) ? strlen(folder) : 0;
    return length > 1 && strncmp(path, folder, length) == 0 && path[length] == '/'
               ? path + length + 1
               : path;
}

/* Returns the short path, quoted for a shell, for the commands that messages suggest. */
static const char *command_path(const char *path, char word[AG_SHELL_WORD_BYTES]) {
    return ag_shell_word(short_path(path), word, AG_SHELL_WORD_BYTES);
}

/* Returns a text that says what is missing from the trace, or that nothing is missing. */
static const char *loss_text(const struct ag_writer_report *report, char ret_text[256]) {
    struct ag_quantity events, stacks;
    const bool has_events = report->lost_events > 0, has_stacks = report->lost_stacks > 0;
    if (has_events || has_stacks) {
        (void)snprintf(ret_text, 256, "%s%s%s%s%s%s",
                       has_events ? ag_quantity_count(&events, report->lost_events) : "",
                       has_events ? " events lost" : "", has_events && has_stacks ? ", " : "",
                       has_stacks ? "the stacks of " : "",
                       has_stacks ? ag_quantity_count(&stacks, report->lost_stacks) : "",
                       has_stacks ? " blocks lost: shared memory was full" : "");
    } else if (report->unseen[0] != '\0') {
        (void)snprintf(ret_text, 256, "not recorded: allocations of %.96s", report->unseen);
    } else if (ag_findings_miss_frees(report->unseen_frees, report->freed_blocks)) {
        (void)snprintf(ret_text, 256, "not recorded: the frees of %s%s blocks",
                       ag_quantity_count(&events, report->unseen_frees),
                       report->is_sampled ? " sampled" : "");
    } else if (report->n_strangers + report->n_refused + report->is_closed > 0) {
        (void)snprintf(ret_text, 256, "no loss in what was recorded");
    } else {
        (void)snprintf(ret_text, 256, "nothing lost");
    }
    return ret_text;
}

static void print_strangers(const struct ag_writer_report *report) {
    if (report->n_strangers > 0) {
        ag_say("%u process%s not recorded, because the agent did not start in %s: %s",
               report->n_strangers, report->n_strangers == 1 ? " was" : "es were",
               report->n_strangers == 1 ? "it" : "them", report->strangers);
    }
}

static void print_closed(const struct ag_writer_report *report) {
    if (report->is_closed) {
        ag_say(
            "the live file in /dev/shm was removed while the program ran: programs executed after "
            "that were not recorded");
    }
}

static void print_cost(const struct ag_profile *profile) {
    const struct ag_profile_cost *cost = ag_profile_cost(profile);
    const struct ag_profile_sampler *sampler = ag_profile_sampler(profile);
    const double spent_ns = (double)sampler->cpu_ns + (double)cost->cpu_ns;
    struct ag_quantity samples, writer, program, spent, least, most;
    if (sampler->budget_percent > 0 && cost->target_cpu_ns > 0) {
        ag_say("spent %.2f %% of the program's CPU, budget %.2f %%: %s of %s (samples %s, writer "
               "%s); one sample in %s to %s",
               100 * spent_ns / (double)cost->target_cpu_ns, sampler->budget_percent,
               ag_quantity_time(&spent, (uint64_t)spent_ns),
               ag_quantity_time(&program, cost->target_cpu_ns),
               ag_quantity_time(&samples, sampler->cpu_ns), ag_quantity_time(&writer, cost->cpu_ns),
               ag_quantity_bytes(&least, sampler->least_interval_bytes),
               ag_quantity_bytes(&most, sampler->most_interval_bytes));
    }
}

/* Prints the main numbers of a sampled trace. They are estimates, so they are computed from the
 * trace and not from REPORT. */
static void print_sampled(const struct ag_writer_report *report) {
    const struct ag_symbol_options symbol = {.size = sizeof(symbol), .runtimes = ag_runtimes};
    const struct ag_profile_options options = {
        .size = sizeof(options), .thread = -1, .symbol = &symbol};
    struct ag_profile *profile = NULL;
    char message[512];
    struct ag_quantity blocks, bytes, time, peak, left, interval, lost;
    if (ag_profile_open(report->path, &options, &profile, message) < 0) {
        ag_say("%s", message);
        return;
    }
    const struct ag_metrics *all = ag_profile_total(profile);
    char missing[256];
    const char *loss = loss_text(report, missing);
    const struct ag_interval between = ag_interval_of_metric(all, AG_METRIC_ALLOCATED_BYTES);
    const double spread =
        100 * (double)(between.high - between.low) / 2 / (double)(all->allocated_bytes + 1);
    if (all->allocated_blocks == 0) {
        ag_say("0 samples, one in %s: at most %s allocated in %s; %s",
               ag_quantity_bytes(&interval, report->interval_bytes),
               ag_quantity_bytes(&bytes, between.high),
               ag_quantity_time(&time, report->duration_ns), loss);
    } else {
        ag_say("about %s allocations, %s (±%.*f %%) in %s; peak %s; %s in use at the end; "
               "%s samples, one in %s; %s",
               ag_quantity_count(&blocks, all->allocated_blocks),
               ag_quantity_bytes(&bytes, all->allocated_bytes), spread < 1, spread,
               ag_quantity_time(&time, report->duration_ns),
               ag_quantity_bytes(&peak, all->peak_bytes),
               ag_quantity_bytes(&left, all->in_use_bytes),
               ag_quantity_count(&lost, report->allocated_blocks),
               ag_quantity_bytes(&interval, report->interval_bytes), loss);
    }
    print_cost(profile);
    (void)ag_profile_close(profile);
}

/* If the program mapped most of its memory itself, prints how much, and which line mapped most. */
static void print_mapped(const struct ag_writer_report *report) {
    const struct ag_symbol_options symbol = {.size = sizeof(symbol), .runtimes = ag_runtimes};
    const struct ag_profile_options options = {
        .size = sizeof(options), .thread = -1, .symbol = &symbol};
    struct ag_profile *profile = NULL;
    struct ag_mapped_memory_note note = {.is_there = false};
    char message[512], words[AG_MAPPED_WORDS_BYTES], word[AG_SHELL_WORD_BYTES];
    struct ag_quantity resident;
    if (!ag_mappings_may_explain(report->rss_peak_bytes, report->peak_bytes) ||
        ag_profile_open(report->path, &options, &profile, message) < 0) {
        return;
    }
    if (ag_profile_mapped_memory_note(profile, AG_MAPPINGS_QUICK, &note) == 0 && note.is_there) {
        ag_say("resident at most %s; %s   ->  allogram report %s --view=mappings",
               ag_quantity_bytes(&resident, report->rss_peak_bytes),
               ag_report_mapped_words(&note, words), command_path(report->path, word));
    }
    (void)ag_profile_close(profile);
}

/* If the kernel killed the process for lack of memory, prints the reason, and how much memory the
 * process had. Also prints how many processes of the session were killed. */
static void print_kill(const struct ag_writer_report *report) {
    const struct ag_profile_options options = {.size = sizeof(options), .thread = -1};
    struct ag_profile *profile = NULL;
    char message[512], reason[AG_KILL_WORDS_BYTES], memory[AG_KILL_WORDS_BYTES];
    char word[AG_SHELL_WORD_BYTES];
    if (report->n_killed > 1 || (report->n_killed == 1 && !report->is_killed)) {
        ag_say("%u process%s killed by the kernel for lack of memory: %s", report->n_killed,
               report->n_killed == 1 ? " was" : "es were", report->killed);
    }
    if (!report->is_killed || ag_profile_open(report->path, &options, &profile, message) < 0) {
        return;
    }
    const struct ag_profile_kill *kill = &ag_profile_identity(profile)->kernel_kill;
    if (kill->certainty != 0) {
        (void)ag_kill_memory_words(kill, ag_profile_recording_ns(profile), memory);
        ag_say("%s%s%s   ->  allogram report %s --view=leaks", ag_kill_reason_words(kill, reason),
               memory[0] != '\0' ? "; " : "", memory, command_path(report->path, word));
    }
    (void)ag_profile_close(profile);
}

/* Prints what the functions of a runtime allocated, if their calls were counted. */
static void print_counts(const struct ag_writer_report *report) {
    const struct ag_symbol_options symbol = {.size = sizeof(symbol), .runtimes = ag_runtimes};
    const struct ag_profile_options options = {
        .size = sizeof(options), .thread = -1, .symbol = &symbol};
    struct ag_profile *profile = NULL;
    const struct ag_functions *functions;
    const struct ag_profile_runtime *runtimes;
    struct ag_quantity calls, count, words, bytes, time;
    char message[512], text[160] = "";
    if (!report->has_counts || ag_profile_open(report->path, &options, &profile, message) < 0) {
        return;
    }
    if (ag_profile_functions(profile, &functions) == 0 && functions->total.calls > 0) {
        size_t n_called = 0, most = 0;
        for (size_t i = 0; i < functions->n_rows; i++) {
            n_called += functions->rows[i].counts.calls > 0;
            most = functions->rows[i].counts.calls > functions->rows[most].counts.calls ? i : most;
        }
        const char *name = ag_profile_frame(profile, functions->rows[most].frame)->runtime;
        const char *version = "";
        for (size_t i = ag_profile_runtimes(profile, &runtimes); i-- > 0;) {
            version = strcmp(runtimes[i].name, name) == 0 ? runtimes[i].version : version;
        }
        if (functions->total.own_words > 0) {
            (void)snprintf(text, sizeof(text), " allocated %s words (%s)",
                           ag_quantity_short(&words, functions->total.own_words),
                           ag_quantity_bytes(&bytes, functions->total.own_bytes));
        }
        ag_say("%s%s%s: %s calls of %s functions%s in %s", name, *version ? " " : "", version,
               ag_quantity_count(&calls, functions->total.calls),
               ag_quantity_count(&count, n_called), text,
               ag_quantity_time(&time, report->duration_ns));
    }
    (void)ag_profile_close(profile);
}

/* Prints the filter of the recording. Also prints the heaps whose blocks have no known type when
 * they are allocated, because a filter by type cannot decide about these blocks. */
static void print_filter(const struct ag_writer_report *report) {
    const struct ag_profile_options options = {.size = sizeof(options), .thread = -1};
    struct ag_profile *profile = NULL;
    char message[512], heaps[256] = "";
    if (!report->is_filtered || ag_profile_open(report->path, &options, &profile, message) < 0) {
        return;
    }
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    size_t used = 0;
    for (size_t i = 0; i < identity->n_undecided && used < sizeof(heaps); i++) {
        const int n = snprintf(heaps + used, sizeof(heaps) - used, "%s%s", i > 0 ? ", " : "",
                               identity->undecided[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    ag_say("recorded only --filter=%s", identity->filter ? identity->filter : "");
    if (identity->n_undecided > 0) {
        ag_say("the type of a block in %s is not known when it is allocated: a filter type= "
               "excluded all of these blocks, and a filter !type= none",
               heaps);
    }
    (void)ag_profile_close(profile);
}

static const char *remedy_of(uint32_t error) {
    switch (error) {
    case EMFILE:
    case ENFILE:
        return ag_open_files_hint((int)error);
    case ENAMETOOLONG:
        return "; choose a shorter name with -o";
    case ENOSPC:
    case EDQUOT:
        return "; with -o, choose a path on a disk with free space";
    default:
        return "; choose another path with -o";
    }
}

static void print_others_missing(const struct ag_writer_report *report) {
    const char *have = report->n_without_trace == 1 ? "process has" : "processes have";
    if (report->n_without_trace > 0 && report->without_error == 0) {
        ag_say("%u %s no trace: the file was deleted while it was written", report->n_without_trace,
               have);
    } else if (report->n_without_trace > 0) {
        ag_say("%u %s no trace: %s%s", report->n_without_trace, have,
               strerror((int)report->without_error), remedy_of(report->without_error));
    }
}

/* Fills the buffer with the names of the programs whose traces are complete, those with the most
 * allocated bytes first: "cc1 4711 82.1 MiB, as 4712 3.07 MiB and 310 more". The bytes of a sampled
 * trace are those of its samples, so they only determine the order and are not printed. */
enum { LARGEST_BYTES = 512 };
static const char *largest_text(const struct ag_writer_report *report, char text[LARGEST_BYTES]) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < report->n_largest && used < LARGEST_BYTES; i++) {
        const struct ag_trace_size *trace = &report->largest[i];
        struct ag_quantity bytes;
        const int n =
            snprintf(text + used, LARGEST_BYTES - used, "%s%s %" PRIu32 "%s%s", i > 0 ? ", " : "",
                     trace->program[0] != '\0' ? trace->program : "unknown", trace->pid,
                     report->is_sampled ? "" : " ",
                     report->is_sampled ? "" : ag_quantity_bytes(&bytes, trace->allocated_bytes));
        used += n > 0 ? (size_t)n : 0;
    }
    if (report->n_complete > report->n_largest && used < LARGEST_BYTES) {
        (void)snprintf(text + used, LARGEST_BYTES - used, " and %" PRIu32 " more",
                       report->n_complete - report->n_largest);
    }
    return text;
}

/* If there are traces of other processes than the first one, prints a line that names the programs
 * with the largest traces, and a line about the traces of the other processes, with the command
 * that shows all traces. */
static void print_others(const struct ag_writer_report *report) {
    struct ag_quantity blocks, bytes;
    char sums[256] = "", largest[LARGEST_BYTES], word[AG_SHELL_WORD_BYTES];
    const uint32_t n_running = report->n_others_running;
    if (report->n_other_traces == 0) {
        return;
    }
    if (!report->is_sampled) { /* the sums of a sampled trace are those of the samples */
        (void)snprintf(sums, sizeof(sums), ": %s allocations, %s",
                       ag_quantity_count(&blocks, report->others_blocks),
                       ag_quantity_bytes(&bytes, report->others_bytes));
    }
    if (n_running > 0) {
        const size_t used = strlen(sums);
        (void)snprintf(sums + used, sizeof(sums) - used, "; %u still %s (%s)", n_running,
                       n_running == 1 ? "runs" : "run", report->incomplete);
    }
    if (report->n_others_unseen > 0) {
        const size_t used = strlen(sums);
        (void)snprintf(sums + used, sizeof(sums) - used, "; allocations of %.15s%s not recorded",
                       report->other_unseen, report->n_others_unseen > 1 ? " and others" : "");
    }
    if (report->n_largest > 1) {
        ag_say("most allocated%s: %s", report->is_sampled ? " (sampled)" : "",
               largest_text(report, largest));
    }
    ag_say("%llu other trace%s%s   ->  allogram report %s --view=process_tree",
           (unsigned long long)report->n_other_traces, report->n_other_traces == 1 ? "" : "s", sums,
           ag_shell_pattern(short_path(report->others_glob), word, sizeof(word)));
}

/* Called if the first process has no trace, in place of printing its numbers. */
static void print_missing(const struct ag_writer_report *report) {
    if (report->missing_error == 0) {
        ag_say("trace %s was deleted while it was written: it cannot be recovered",
               short_path(report->path));
    } else {
        ag_say("trace %s could not be created: %s%s", short_path(report->path),
               strerror((int)report->missing_error), remedy_of(report->missing_error));
    }
    if (report->n_other_traces > 0) {
        ag_say("traces of other processes: %llu", (unsigned long long)report->n_other_traces);
    }
}

/* Prints a warning if the trace ends before the program, or if the trace could not be sealed
 * (completed). An unsealed trace has all events, but no index. */
static void print_incomplete(const struct ag_writer_report *report) {
    if (report->is_cut && report->missing_error == 0) {
        ag_say("recording stopped: %s; the program continued without being recorded",
               report->error ? strerror((int)report->error) : "the trace has reached --max-size");
    }
    if (!report->is_cut && !report->is_missing && report->error != 0) {
        ag_say("the trace could not be sealed: %s; `allogram report` reads all of its events, and "
               "`allogram check` says that it is not sealed",
               strerror((int)report->error));
    }
}

void ag_run_summary_print_trace(const struct ag_writer_report *report, const char *view) {
    struct ag_quantity time, size;
    char lost[256], word[AG_SHELL_WORD_BYTES];
    const char *path = short_path(report->path);
    if (report->is_missing) {
        print_missing(report);
        return;
    }
    print_incomplete(report);
    ag_say("trace %s, %s of %s%s%s   ->  allogram report %s --view=%s", path,
           ag_quantity_bytes(&size, report->trace_bytes),
           ag_quantity_time(&time, report->duration_ns),
           report->lost_events || report->lost_stacks ? ", " : "",
           report->lost_events || report->lost_stacks ? loss_text(report, lost) : "",
           command_path(report->path, word), view);
}

void ag_run_summary_print(const struct ag_writer_report *report, const char *program) {
    struct ag_quantity blocks, bytes, time, peak, left, left_bytes, size;
    char missing[256], word[AG_SHELL_WORD_BYTES];
    if (!report->registered) {
        ag_say("nothing was recorded: the agent did not start in %s", program);
        print_strangers(report);
        print_closed(report);
        return;
    }
    print_incomplete(report);
    if (report->n_refused > 0) {
        ag_say(
            "%u processes were not recorded: too many ran at once, or there was no memory for them",
            report->n_refused);
    }
    print_strangers(report);
    print_closed(report);
    print_others_missing(report);
    if (report->is_missing) {
        print_missing(report);
        return;
    }
    print_counts(report);
    if (report->is_sampled) {
        print_sampled(report);
    } else {
        ag_say("%s%s allocations, %s in %s; peak %s; %s block%s, %s in use at the end; %s",
               report->has_counts ? "blocks: " : "",
               ag_quantity_count(&blocks, report->allocated_blocks),
               ag_quantity_bytes(&bytes, report->allocated_bytes),
               ag_quantity_time(&time, report->duration_ns),
               ag_quantity_bytes(&peak, report->peak_bytes),
               ag_quantity_count(&left, report->in_use_blocks),
               report->in_use_blocks == 1 ? "" : "s",
               ag_quantity_bytes(&left_bytes, report->in_use_bytes), loss_text(report, missing));
        if (report->is_reset) {
            ag_say("totals include the time before the reset; reports begin at the reset");
        }
    }
    print_filter(report);
    print_mapped(report);
    print_kill(report);
    const char *path = short_path(report->path);
    print_others(report);
    ag_say("trace %s, %s   ->  allogram report %s%s", path,
           ag_quantity_bytes(&size, report->trace_bytes), command_path(report->path, word),
           report->has_counts ? " --view=functions" : "");
}

void ag_run_summary_print_before(const struct ag_glibc_heap *heap) {
    struct ag_quantity blocks, bytes, free_bytes, size;
    unsigned most = 0;
    for (unsigned i = 1; i < AG_GLIBC_HEAP_CLASSES; i++) {
        most = heap->class_bytes[i] > heap->class_bytes[most] ? i : most;
    }
    ag_say(
        "allocated before attach: %s blocks, %s in use in glibc's main heap, the largest part in "
        "blocks of up to %s; %s free",
        ag_quantity_count(&blocks, heap->n_blocks), ag_quantity_bytes(&bytes, heap->bytes),
        ag_quantity_bytes(&size, UINT64_C(1) << most),
        ag_quantity_bytes(&free_bytes, heap->free_bytes));
}
