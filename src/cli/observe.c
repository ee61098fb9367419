/* observe.c: `allogram observe PID`: observes a running process from outside for a while, prints
 * tables, and writes the files that the options request. For a NODE and --memory it calls
 * observe_memory.c, for --rss observe_rss.c.
 *
 * Ctrl-C is a normal end: the results cover the time until Ctrl-C. */
#include <allogram/inspector.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error_message.h"
#include "base/runtimes.h"
#include "cli/attach_link.h"
#include "cli/command.h"
#include "cli/end_guard.h"
#include "cli/message.h"
#include "cli/observe_live.h"
#include "cli/observe_memory.h"
#include "cli/observe_report.h"
#include "cli/observe_rss.h"
#include "cli/options.h"
#include "observe/observation.h"
#include "remote/machine_link.h"
#include "report/quantity.h"
#include "text/shell_word.h"
#include "writer/trace_file.h"

enum {
    OPTION_DURATION = AG_OPTION_LONG_ONLY,
    OPTION_RATE,
    OPTION_STACKS,
    OPTION_BLAME,
    OPTION_GC,
    OPTION_GROWTH,
    OPTION_MAPS,
    OPTION_ALLOCATORS,
    OPTION_PROCESSES,
    OPTION_MEMORY,
    OPTION_RSS,
    OPTION_PERF_MAP,
    OPTION_LIVE,
    OPTION_JSON,
    OPTION_LIMIT,
    USUAL_RATE = 99, /* 99 is neither a multiple nor a divisor of common timer rates */
    MOST_RATE = 20000,
    USUAL_LIMIT = 20,
    HURRY_NS = 400 * 1000 * 1000,
};
static const uint64_t usual_duration_ns = UINT64_C(10000000000);

static const struct ag_option table[] = {
    {OPTION_DURATION, "duration", "TIME",
     "how long to observe (default: 10s, with --live 0; 0: until\nCtrl-C)"},
    {OPTION_RATE, "rate", "HERTZ",
     "samples per second of CPU time of a thread\n(default: 99; a sample costs the thread a few us)"},
    {OPTION_STACKS, "stacks", NULL, "the stacks of each thread"},
    {OPTION_BLAME, "blame", "GLOB",
     "only samples below a native function of this name, by\nits caller"},
    {OPTION_GC, "gc", NULL, "garbage collections, by the functions that caused them"},
    {OPTION_GROWTH, "growth", NULL, "stacks that make resident memory grow (page faults)"},
    {OPTION_MAPS, "maps", NULL, "stacks that map memory and keep it, and how much is resident"},
    {OPTION_ALLOCATORS, "allocators", NULL, "the runtime's allocators: in use, taken, resident"},
    {OPTION_PROCESSES, "processes", NULL, "the runtime's own processes: heap, stack, queue"},
    {OPTION_MEMORY, "memory", NULL,
     "what the memory of an Erlang node consists of, with its\nowners: processes, binaries, ETS "
     "tables, code ..."},
    AG_OPTIONS_OF_LINKS,
    {OPTION_RSS, "rss", NULL, "only what the resident memory consists of: heap, stacks, files ..."},
    {OPTION_PERF_MAP, "perf-map", NULL,
     "write a perf map of the runtime's code, so that perf\nnames its functions"},
    {OPTION_LIVE, "live", NULL,
     "show the results in a full-screen display while the\nobservation continues; q ends it"},
    {'o', "output", "TRACE", "write the observations as a trace"},
    {OPTION_LIMIT, "limit", "N", "rows of a table in text (default: 20; 0: all)"},
    {OPTION_JSON, "json", NULL, "print one JSON object instead of text"},
};

struct request {
    struct ag_observe_options options;
    struct ag_observe_selection selection;
    const char *output;
    bool json, live, writes_perf_map;
    bool shows_memory, shows_rss, has_duration;
    const char *link_option; /* the given option of a link to a NODE; NULL: none was given */
    const char *kind_option; /* the value of link_option */
    /* a given option that is valid neither for a NODE nor with --memory or --rss; NULL: none was
     * given */
    const char *other_option;
    struct ag_observation *observation;
    struct ag_observe_live screen; /* of --live */
};

static int set_option(void *context, int id, const char *value) {
    struct request *request = context;
    uint64_t count;
    if (id >= AG_OPTION_OF_LINKS) {
        request->link_option = ag_runtimes[id - AG_OPTION_OF_LINKS].link->option;
        request->kind_option = value;
        return AG_EXIT_OK;
    }
    if (id != OPTION_DURATION && id != OPTION_LIMIT && id != OPTION_JSON && id != OPTION_MEMORY &&
        id != OPTION_RSS) {
        request->other_option = ag_option_name(table, id);
    }
    switch (id) {
    case OPTION_MEMORY:
        request->shows_memory = true;
        break;
    case OPTION_RSS:
        request->shows_rss = true;
        break;
    case OPTION_DURATION:
        request->has_duration = true;
        if (!ag_parse_time(value, &request->options.duration_ns)) {
            return ag_fail(AG_EXIT_USAGE, "observe: --duration=%s: not a time; give " AG_TIME_FORMS,
                           value);
        }
        break;
    case OPTION_RATE:
        if (!ag_parse_count(value, &count) || count == 0 || count > MOST_RATE) {
            return ag_fail(AG_EXIT_USAGE, "observe: --rate=%s: not a number from 1 to %d", value,
                           MOST_RATE);
        }
        request->options.rate = count;
        break;
    case OPTION_LIMIT:
        if (!ag_parse_count(value, &count)) {
            return ag_fail(AG_EXIT_USAGE, "observe: --limit=%s: not a number", value);
        }
        request->selection.limit = count;
        break;
    case OPTION_BLAME:
        if (*value == '\0') {
            return ag_fail(AG_EXIT_USAGE,
                           "observe: --blame=: no function given; for example: --blame='gc_*'");
        }
        request->selection.blame = value;
        break;
    case 'o':
        request->output = value;
        break;
    case OPTION_STACKS:
        request->selection.stacks = true;
        break;
    case OPTION_GC:
        request->selection.what |= AG_OBSERVE_COLLECTIONS;
        break;
    case OPTION_GROWTH:
        request->selection.what |= AG_OBSERVE_GROWTH;
        break;
    case OPTION_MAPS:
        request->selection.what |= AG_OBSERVE_MAPS;
        break;
    case OPTION_ALLOCATORS:
        request->selection.what |= AG_OBSERVE_ALLOCATORS;
        break;
    case OPTION_PROCESSES:
        request->selection.what |= AG_OBSERVE_PROCESSES;
        break;
    case OPTION_PERF_MAP:
        request->writes_perf_map = true;
        break;
    case OPTION_LIVE:
        request->live = true;
        break;
    case OPTION_JSON:
        request->json = true;
        break;
    }
    return AG_EXIT_OK;
}

/* ---- the observation ---- */

static bool keep_screen(void *context) {
    struct request *request = context;
    return ag_observe_live_tick(&request->screen, request->observation);
}

/* The name of the trace in the reports on the screen, which recommend commands with it. */
static const char *name_of_trace(const struct request *request) {
    return request->output != NULL ? request->output : "observed.allogram";
}

static int write_files(struct request *request) {
    char path[4096] = "", message[512] = "", word[AG_SHELL_WORD_BYTES];
    int status = AG_EXIT_OK;
    if (request->output != NULL) {
        const int r =
            ag_observation_write_trace(request->observation, request->output, path, message);
        if (r < 0) {
            status = ag_fail(AG_EXIT_FAILURE, "observe: %s", message);
        } else {
            ag_say("trace %s   ->  allogram report %s", path,
                   ag_shell_word(path, word, sizeof(word)));
        }
    }
    if (request->writes_perf_map) {
        size_t n = 0;
        const int r = ag_observation_write_perf_map(request->observation, path, &n, message);
        if (r < 0) {
            status = ag_fail(AG_EXIT_FAILURE, "observe: %s", message);
        } else {
            ag_say("perf map %s, %zu functions   ->  perf report names them", path, n);
        }
    }
    return status;
}

static bool is_stopped(void) {
    return ag_end_guard_asked_ns(NULL) != 0;
}

/* The results must be printed within a second after a signal (end_guard.h). Returns whether so much
 * of this second has passed that there is only time to read the names of functions from symbol
 * tables, and not from debug information. */
static bool is_hurried(void) {
    const uint64_t asked_ns = ag_end_guard_asked_ns(NULL);
    return asked_ns != 0 && ag_monotonic_ns() - asked_ns > HURRY_NS;
}

/* Checks before the observation whether the trace can be written. The folder is not checked if its
 * name contains a placeholder, such as %p, which is replaced later. */
static int check_output(const char *pattern) {
    char whole[1024], message[512] = "";
    struct stat facts;
    if (ag_trace_pattern_complete(pattern, whole, message) < 0) {
        return ag_fail(AG_EXIT_FAILURE, "observe: %s", message);
    }
    if (stat(whole, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        return ag_fail(AG_EXIT_FAILURE, "observe: %s: is a folder; name a file in it", whole);
    }
    char *name = strrchr(whole, '/');
    /* cuts the file name off; the path is absolute, so NAME is not NULL */
    name[name == whole ? 1 : 0] = '\0';
    if (strchr(whole, '%') == NULL && access(whole, W_OK | X_OK) < 0) {
        return ag_fail(AG_EXIT_FAILURE,
                       "observe: cannot create the trace %s: %s; choose another path with -o",
                       pattern, strerror(errno));
    }
    return AG_EXIT_OK;
}

static int observe_process(struct request *request) {
    char message[512] = "";
    if (request->output != NULL && check_output(request->output) != AG_EXIT_OK) {
        return AG_EXIT_FAILURE;
    }
    if (request->live && ag_observe_live_open(&request->screen, message) < 0) {
        return ag_fail(AG_EXIT_FAILURE, "observe: %s", message);
    }
    int r = ag_end_guard_begin("observe", ag_observe_live_abandon, &request->screen);
    if (r < 0) {
        ag_observe_live_stop(&request->screen);
        return ag_fail(AG_EXIT_FAILURE, "observe: cannot receive signals: %s%s", strerror(-r),
                       ag_open_files_hint(-r));
    }
    r = ag_observation_open(&request->options, &request->observation, message);
    if (r == 0 && request->live) {
        r = ag_observe_live_start(&request->screen, name_of_trace(request));
        if (r < 0) {
            (void)ag_error_message(message, r, "cannot show the screen: %s", strerror(-r));
        }
    }
    r = r < 0 ? r : ag_observation_run(request->observation, message);
    ag_observe_live_stop(&request->screen);
    int status = r < 0 ? ag_fail(AG_EXIT_FAILURE, "observe: %s", message) : AG_EXIT_OK;
    if (r == 0) {
        const struct ag_observation_facts *facts = ag_observation_facts(request->observation);
        if (facts->end == AG_OBSERVED_TARGET_ENDED) {
            struct ag_quantity time;
            ag_say("observe: %d (%s) ended after %s; the results cover the time until then",
                   facts->pid, facts->name, ag_quantity_time(&time, facts->duration_ns));
        }
        if (request->json) {
            ag_observe_report_json(stdout, request->observation, &request->selection);
        } else {
            ag_observe_report_text(stdout, request->observation, &request->selection);
        }
        status = write_files(request);
    }
    request->observation = ag_observation_close(request->observation);
    return status;
}

/* Shows what the memory of a virtual machine consists of. NAME: the name of the machine; NULL: the
 * machine is the process of the request, and the function finds its name. */
static int observe_machine(const struct request *request, const char *name) {
    char found[AG_LINK_NAME_BYTES];
    const struct ag_link_kind *kind = name != NULL ? ag_link_kind_of(name) : NULL;
    for (const struct ag_runtime *row = ag_runtimes; kind == NULL && row->name != NULL; row++) {
        if (row->link != NULL && row->link->name_of != NULL &&
            row->link->name_of((uint32_t)request->options.pid, found)) {
            kind = row->link;
            name = found;
        }
    }
    if (kind == NULL) {
        return ag_fail(
            AG_EXIT_FAILURE,
            "observe: --memory: %d has no node name, so allogram cannot connect to it: it is not an "
            "Erlang node, or was started without -name and -sname; --allocators and "
            "--processes need no name",
            request->options.pid);
    }
    const char *other = request->shows_rss ? "rss" : request->other_option;
    if (other != NULL) {
        return ag_fail(AG_EXIT_USAGE,
                       "observe: --%s is not possible together with %s; give the number of the "
                       "process, without --memory",
                       other, name == found ? "--memory" : name);
    }
    return ag_observe_memory(
        &(struct ag_memory_request){.name = name,
                                    .kind = kind,
                                    .kind_option = request->kind_option,
                                    .duration_ns = request->options.duration_ns,
                                    .limit = request->selection.limit,
                                    .json = request->json});
}

int ag_command_observe(int argc, char **argv) {
    struct request request = {
        .options = {.duration_ns = usual_duration_ns,
                    .rate = USUAL_RATE,
                    .runtimes = ag_runtimes,
                    .is_stopped = is_stopped,
                    .is_hurried = is_hurried},
        .selection = {.limit = USUAL_LIMIT},
        .screen = AG_OBSERVE_LIVE_NONE,
    };
    struct ag_options options = {
        .usage = "observe PID|NODE [OPTIONS]",
        .about =
            "Observes a running program from outside without stopping it: where its threads spend\n"
            "time, which stacks make its memory grow. Ctrl-C ends it early, with a result.\n"
            "An Erlang NODE (name@host) is asked what its memory consists of.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
    };
    if (!ag_options_read(&options, argc, argv, set_option, &request)) {
        return options.status;
    }
    if (options.n_operands != 1) {
        return ag_options_refuse_operands(
            &options, "process", "one process number or node",
            "observe 4711 --duration=10s (`pgrep NAME` prints the number)");
    }
    if (request.live && request.json) {
        return ag_fail(AG_EXIT_USAGE, "observe: --live and --json cannot be combined");
    }
    if (ag_link_kind_of(options.operands[0]) != NULL) {
        return observe_machine(&request, options.operands[0]);
    }
    if (!ag_parse_pid(options.operands[0], &request.options.pid)) {
        return ag_fail(
            AG_EXIT_USAGE,
            "observe: %s: neither a process number (`pgrep NAME` prints it) nor a node's "
            "name@host",
            options.operands[0]);
    }
    if (request.shows_memory) {
        return observe_machine(&request, NULL);
    }
    if (request.link_option != NULL) {
        return ag_fail(AG_EXIT_USAGE, "observe: --%s requires a NODE or --memory",
                       request.link_option);
    }
    if (request.shows_rss && request.other_option != NULL) {
        return ag_fail(AG_EXIT_USAGE,
                       "observe: --rss and --%s cannot be combined; run observe twice",
                       request.other_option);
    }
    if (request.shows_rss && request.has_duration) {
        return ag_fail(
            AG_EXIT_USAGE,
            "observe: --rss and --duration cannot be combined, because --rss reads the memory "
            "once; to record it over time, use allogram attach, then allogram report "
            "--view=timeline");
    }
    if (request.shows_rss) {
        return ag_observe_rss(&(struct ag_rss_request){
            .pid = request.options.pid, .limit = request.selection.limit, .json = request.json});
    }
    request.options.what = request.selection.what;
    if (request.live) {
        request.options.tick = keep_screen;
        request.options.context = &request;
        request.options.duration_ns = request.has_duration ? request.options.duration_ns : 0;
    }
    return observe_process(&request);
}
