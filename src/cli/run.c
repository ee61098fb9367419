/* run.c: `allogram run`: creates a session, starts the program in it, and prints the summary. A
 * session consists of memory that allogram shares with the program (the live segment), and a
 * process that makes traces from this memory (the writer). The agent is the library that records
 * inside the program.
 *
 * Steps; each failure undoes the steps before it:
 *
 *     options, program, agent      if one is invalid, prints one line and exits
 *     live segment                 on failure its file is removed
 *     fork: the child waits        (its pid is in the trace's name)
 *     trace file                   if the folder is unusable, `run` ends before the program runs
 *     fork: the writer
 *     the child executes           on failure the trace and the segment are removed
 *     wait, seal, summary          exits with the program's status */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/runtimes.h"
#include "cli/agent_place.h"
#include "cli/command.h"
#include "cli/endpoint.h"
#include "cli/launch.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/options.h"
#include "cli/recording_options.h"
#include "cli/run_summary.h"
#include "cli/supervisor.h"
#include "cli/target.h"
#include "symbol/decoder.h"
#include "text/shell_word.h"

enum { MAX_STAMP_EVERY = 1 << 20, FIRST_TRACE_BYTES = 4096, AG_SELECTION_BYTES = 4096 };

/* ---- options ---- */

enum {
    OPTION_FOLLOW = AG_OPTION_LONG_ONLY,
    OPTION_STAMP_EVERY,
    OPTION_DUMP_AT,
    OPTION_SERVE,
    OPTION_LIVE,
    OPTION_CALLS,
    OPTION_PROCESS,
    OPTION_TRACE,
};

static const struct ag_option option_table[] = {
    {'o', "output", "PATTERN",
     "the trace's name; %e program, %p pid, %h host, %t time\n(default: allogram.%e.%p.allogram in the current folder)"},
    {AG_OPTION_MODE, "mode", "exact|sample",
     "record every allocation (default), or a sample, which costs\nvery little and gives each number with its interval"},
    AG_OPTIONS_OF_SAMPLING,
    {AG_OPTION_DEPTH, "depth", "N", "largest number of frames of a stack (default: 256)"},
    {OPTION_FOLLOW, "follow", "all|none",
     "record child processes too, each in its own trace (default: all)"},
    {AG_OPTION_MAX_SIZE, "max-size", "BYTES", "limit of the trace's size; suffixes K, M, G"},
    {OPTION_STAMP_EVERY, "stamp-every", "N",
     "events of a thread between two time stamps (default: 64; 1 gives\nthe most exact order between "
     "threads, at the highest cost)"},
    {AG_OPTION_FREE_STACKS, "free-stacks", NULL,
     "record the stack of every free too, for report --view=blocks;\na free then costs as much as an allocation"},
    {AG_OPTION_ADAPTERS, "adapters", "auto|none|LIST",
     "which runtimes' adapters may be used (default: auto, all)"},
    {AG_OPTION_FILTER, "filter", "EXPR", ag_filter_option_help},
    {OPTION_CALLS, "calls", NULL,
     "count calls and words of functions, for report --view=functions\n(Lua; adds a cost to every call)"},
    {OPTION_TRACE, "trace", "WHICH",
     "count only these functions of Erlang nodes: M:F/A, M:F, M:_\n(default: all); separated by commas, may be repeated"},
    {OPTION_PROCESS, "process", "WHICH",
     "count only these processes of Erlang nodes: registered name, pid\nor initial:M:F/A (default: all); separated by commas, may be repeated"},
    {OPTION_DUMP_AT, "dump-at", "WHEN",
     "write a trace of the recording so far, next to the trace, at: gc,\npeak, every=BYTES, every=TIME, signal=NAME (sent to allogram),\nmemory=90% (of the cgroup's limit), pressure=20% (of 10 s, in which\nprocesses waited for memory); may be given several times"},
    {OPTION_SERVE, "serve", "PORT",
     "on loopback while the program runs: the page of `allogram view`,\nand for pprof /debug/pprof/heap, allocs, growth; 0: any free port;\nthe token is printed once"},
    {OPTION_LIVE, "live", NULL,
     "show the views of `allogram report` on this terminal while the\nprogram runs; what the program writes to the terminal meanwhile is\nin the view output, and on the terminal when the screen is closed;\nits input from the terminal is empty"},
    {AG_OPTION_DELAY, "delay", "TIME",
     "start recording after this time: seconds, or a number with ms,\ns, m, h"},
    {AG_OPTION_DURATION, "duration", "TIME",
     "stop recording after this time; the program continues"},
    {AG_OPTION_SIGNAL, "signal", "NAME",
     "signal to allogram that starts, pauses and resumes the recording:\nHUP, QUIT, USR1 or USR2"},
    AG_OPTIONS_OF_DECODERS,
    {'q', "quiet", NULL, "print no closing summary"},
};

struct run_request {
    struct ag_session_options session;
    bool is_exact; /* --mode=exact was given */
    /* name of a given option that is valid only in sample mode; NULL: none was given */
    const char *sampling_option;
    const char *adapters; /* value of --adapters: the runtimes to record; NULL: all */
    bool serves, is_live;
    uint16_t port;
    bool has_calls;
    /* values of --trace and --process, joined by commas; "": not given */
    char functions[AG_SELECTION_BYTES], processes[AG_SELECTION_BYTES];
    /* whether --trace and --process were given on the command line; their values then replace those
     * of the environment variables */
    bool has_typed_functions, has_typed_processes;
    bool is_quiet;
    struct ag_recording_times times;
};

static int add_dump(struct run_request *request, const char *name, const char *value) {
    static const char pressure[] = "/proc/pressure/memory";
    struct ag_session_options *session = &request->session;
    if (session->n_dumps == AG_DUMPS_MOST) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "%s=%s: given more than %d times", name, value,
                       AG_DUMPS_MOST);
    }
    if (!ag_dump_trigger_parse(value, &session->dumps[session->n_dumps])) {
        return ag_fail(
            AG_EXIT_OWN_FAILURE,
            "%s=%s: not one of gc, peak, every=64M, every=10s, memory=90%%, pressure=20%% (1%% to "
            "99%%), signal=USR1 (HUP, QUIT, USR1 or USR2)",
            name, value);
    }
    if (session->dumps[session->n_dumps].kind == AG_DUMP_PRESSURE && access(pressure, R_OK) < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE,
                       "%s=%s: %s: %s; this kernel does not measure how long "
                       "processes wait for memory",
                       name, value, pressure, strerror(errno));
    }
    session->has_requests |= session->dumps[session->n_dumps].kind == AG_DUMP_SIGNAL;
    session->n_dumps++;
    return 0;
}

static int set_port(struct run_request *request, const char *name, const char *value) {
    uint64_t number = 0;
    if (!ag_parse_count(value, &number) || number > UINT16_MAX) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "%s=%s: not a port from 0 to 65535", name, value);
    }
    request->serves = request->session.has_requests = true;
    request->port = (uint16_t)number;
    return 0;
}

/* Reports an error if dumps at a peak, or after a number of bytes, are requested in sample mode,
 * because sample mode does not know the exact number of bytes. */
static int refuse_bytes_of_samples(const struct ag_session_options *session) {
    for (size_t i = 0; i < session->n_dumps; i++) {
        const enum ag_dump_kind kind = session->dumps[i].kind;
        if (session->is_sampling && (kind == AG_DUMP_PEAK || kind == AG_DUMP_BYTES)) {
            return ag_fail(AG_EXIT_OWN_FAILURE,
                           "run: --dump-at=%s requires exact mode: omit --mode=sample, or use "
                           "--dump-at=every=TIME",
                           kind == AG_DUMP_PEAK ? "peak" : "every=BYTES");
        }
    }
    return 0;
}

/* Converts the name of an option to the name of its environment variable: max-size to
 * ALLOGRAM_MAX_SIZE. */
static void twin_name(const char *option, char ret_name[64]) {
    size_t length = (size_t)snprintf(ret_name, 64, "ALLOGRAM_");
    for (const char *at = option; *at && length < 63; at++) {
        ret_name[length++] = (char)(*at == '-'                 ? '_'
                                    : *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A'
                                                               : *at);
    }
    ret_name[length] = '\0';
}

/* Checks a file with type names, and passes its path to the agent by an environment variable. The
 * agent writes the names into the trace. */
static int set_types_file(int id, const char *value) {
    struct ag_profile_options unused = {.size = sizeof(unused)};
    const int status = ag_types_file_read("run", id, value, AG_EXIT_OWN_FAILURE, &unused);
    char *path = status == AG_EXIT_OK ? realpath(value, NULL) : NULL;
    if (path) {
        char name[64];
        twin_name(ag_types_option_name(id), name);
        (void)setenv(name, path, /* overwrite= */ 1);
    }
    free(path);
    return status;
}

static int set_times(struct run_request *request, int id, const char *name, const char *value) {
    if (ag_recording_times_set(&request->times, (enum ag_times_option)id, value)) {
        return 0;
    }
    return ag_fail(AG_EXIT_OWN_FAILURE,
                   id == AG_OPTION_SIGNAL ? "%s=%s: not one of HUP, QUIT, USR1, USR2"
                                          : "%s=%s: not a time such as 10s, 500ms or 2m",
                   name, value);
}

/* Reports an error if --signal and --dump-at have the same signal. */
static int refuse_one_signal_for_two(const struct run_request *request) {
    for (size_t i = 0; i < request->session.n_dumps; i++) {
        const struct ag_dump_when *dump = &request->session.dumps[i];
        if (dump->kind == AG_DUMP_SIGNAL && dump->every == (uint64_t)request->times.signal) {
            return ag_fail(AG_EXIT_OWN_FAILURE,
                           "run: --signal and --dump-at=signal need different signals");
        }
    }
    return 0;
}

static int set_recording_option(struct run_request *request, enum ag_recording_option option,
                                const char *name, const char *value) {
    char message[1024];
    if (!ag_recording_option_set(&request->session, option, value, message)) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "%s=%s", name, message);
    }
    if (option <= AG_OPTION_SEED) {
        request->sampling_option = ag_option_name(option_table, (int)option);
    } else if (option == AG_OPTION_MODE) {
        request->is_exact = !request->session.is_sampling;
    } else if (option == AG_OPTION_ADAPTERS) {
        request->adapters = value;
    }
    return 0;
}

/* Whether TEXT has the form of M:F/A, M:F, M:_, or Elixir's M.F/A. */
static bool is_function_pattern(const char *text) {
    const char *slash = strrchr(text, '/'), *mark = strrchr(text, ':');
    mark = mark ? mark : strrchr(text, '.');
    const char *arity = slash ? slash + 1 : "_";
    const bool has_arity =
        strcmp(arity, "_") == 0 || (arity[0] && strspn(arity, "0123456789") == strlen(arity));
    return strcmp(text, "_") == 0 ||
           (has_arity && mark && mark > text && mark[1] && mark[1] != '/');
}

static bool is_process_choice(const char *text) {
    static const char initial[] = "initial:";
    unsigned first, number, serial;
    char end;
    if (strncmp(text, initial, sizeof(initial) - 1) == 0) {
        return is_function_pattern(text + sizeof(initial) - 1);
    }
    return text[0] != '<' || (sscanf(text, "<%u.%u.%u%c", &first, &number, &serial, &end) == 4 &&
                              end == '>' && text[strlen(text) - 1] == '>');
}

/* Adds the parts of VALUE, which commas separate, to LIST. */
static int add_selected(char list[AG_SELECTION_BYTES], int id, const char *name,
                        const char *value) {
    char part[AG_SELECTION_BYTES];
    size_t n_parts = 0;
    for (const char *at = value;; at++) {
        const size_t length = strcspn(at, ","), used = strlen(list);
        (void)snprintf(part, sizeof(part), "%.*s", (int)length, at);
        if (length > 0 &&
            !(id == OPTION_TRACE ? is_function_pattern(part) : is_process_choice(part))) {
            return ag_fail(
                AG_EXIT_OWN_FAILURE, "%s=%.200s: '%.200s' is not %s", name, value, part,
                id == OPTION_TRACE
                    ? "of the form module:function/arity, module:function or module:_"
                    : "a registered name, a pid such as <0.88.0>, or initial:module:function/arity");
        }
        if (length > 0) {
            (void)snprintf(list + used, AG_SELECTION_BYTES - used, "%s%s", used > 0 ? "," : "",
                           part);
            n_parts++;
        }
        at += length;
        if (*at == '\0') {
            break;
        }
    }
    return n_parts > 0 && strlen(list) < AG_SELECTION_BYTES - 1
               ? 0
               : ag_fail(AG_EXIT_OWN_FAILURE, "%s=%.200s: no item given, or the list is too long",
                         name, value);
}

/* Sets one option, from the command line or from its environment variable. NAME: name of the option
 * or variable, for error messages. Returns 0 or the exit status. */
static int set_option(struct run_request *request, int id, const char *name, const char *value) {
    uint64_t number = 0;
    if (id >= AG_OPTION_OF_DECODERS) {
        return set_types_file(id, value);
    }
    switch (id) {
    case 'o':
        request->session.output_pattern = value;
        return 0;
    case 'q':
        request->is_quiet = true;
        return 0;
    case OPTION_CALLS:
        request->has_calls = true;
        return 0;
    case OPTION_TRACE:
        return add_selected(request->functions, id, name, value);
    case OPTION_PROCESS:
        return add_selected(request->processes, id, name, value);
    case AG_OPTION_INTERVAL:
    case AG_OPTION_BUDGET:
    case AG_OPTION_SEED:
    case AG_OPTION_MODE:
    case AG_OPTION_DEPTH:
    case AG_OPTION_MAX_SIZE:
    case AG_OPTION_FREE_STACKS:
    case AG_OPTION_FILTER:
    case AG_OPTION_ADAPTERS:
        return set_recording_option(request, (enum ag_recording_option)id, name, value);
    case OPTION_FOLLOW:
        if (strcmp(value, "all") != 0 && strcmp(value, "none") != 0) {
            return ag_fail(AG_EXIT_OWN_FAILURE, "%s=%s: neither all nor none", name, value);
        }
        request->session.no_children = strcmp(value, "none") == 0;
        return 0;
    case OPTION_STAMP_EVERY:
        if (!ag_parse_count(value, &number) || number == 0 || number > MAX_STAMP_EVERY) {
            return ag_fail(AG_EXIT_OWN_FAILURE, "%s=%s: not a number from 1 to %d", name, value,
                           MAX_STAMP_EVERY);
        }
        request->session.stamp_every = (uint32_t)number;
        return 0;
    case OPTION_DUMP_AT:
        return add_dump(request, name, value);
    case OPTION_SERVE:
        return set_port(request, name, value);
    case OPTION_LIVE:
        request->is_live = request->session.has_requests = true;
        return 0;
    case AG_OPTION_DELAY:
    case AG_OPTION_DURATION:
    case AG_OPTION_SIGNAL:
        return set_times(request, id, name, value);
    }
    return ag_fail(AG_EXIT_OWN_FAILURE, "%s: not supported by this build", name);
}

static int read_variable(struct run_request *request, int id, const char *option, bool has_value) {
    char name[64];
    twin_name(option, name);
    const char *value = getenv(name);
    const bool is_off = !has_value && value && strcmp(value, "0") == 0;
    return value && *value && !is_off ? set_option(request, id, name, value) : 0;
}

static int read_environment(struct run_request *request) {
    int status = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(option_table) && status == 0; i++) {
        const struct ag_option *row = &option_table[i];
        status = row->name ? read_variable(request, row->id, row->name, row->argument) : 0;
    }
    for (int i = 0; ag_runtimes[i].name && status == 0; i++) {
        const struct ag_decoder *decoder = ag_runtimes[i].decoder;
        status = decoder && decoder->types_option
                     ? read_variable(request, AG_OPTION_OF_DECODERS + i, decoder->types_option,
                                     /* has_value= */ true)
                     : 0;
    }
    return status;
}

/* Sets an option of the command line; error messages use its long name. */
static int set_typed_option(void *context, int id, const char *value) {
    struct run_request *request = context;
    char name[64] = "";
    if (id == OPTION_TRACE && !request->has_typed_functions) {
        request->functions[0] = '\0';
        request->has_typed_functions = true;
    } else if (id == OPTION_PROCESS && !request->has_typed_processes) {
        request->processes[0] = '\0';
        request->has_typed_processes = true;
    }
    if (id < AG_OPTION_OF_DECODERS) {
        (void)snprintf(name, sizeof(name), "--%s", ag_option_name(option_table, id));
    }
    return set_option(request, id, name, value);
}

/* ---- the run ---- */

static int end_status(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void print_summary(const struct ag_writer_report *report, const char *program,
                          const struct run_request *request) {
    ag_run_summary_print(report, program);
    if (!report->has_counts && (request->functions[0] || request->processes[0])) {
        ag_say("no call was counted: %s%s%s%s%s selected no function that an Erlang node called",
               request->functions[0] ? "--trace=" : "", request->functions,
               request->functions[0] && request->processes[0] ? " with " : "",
               request->processes[0] ? "--process=" : "", request->processes);
    }
}

/* Whether AddressSanitizer ended the program before its first allocation. */
static bool is_refused(const struct ag_supervisor *supervisor, const struct ag_launch *launch) {
    return supervisor->report.allocated_blocks == 0 && supervisor->child_ended &&
           end_status(supervisor->wait_status) != 0 && ag_target_refuses_preload(launch->path);
}

/* Called after the program has started: waits until it has ended, and prints the summary. Returns
 * the exit status of the program; AG_EXIT_OWN_FAILURE: waiting failed. */
static int accompany(struct ag_supervisor *supervisor, const struct run_request *request,
                     const char *program, const struct ag_launch *launch, const char *first_trace,
                     struct ag_endpoint *endpoint) {
    ag_supervisor_step_back(supervisor, request->is_quiet);
    const bool has_report = ag_supervisor_watch(supervisor);
    ag_endpoint_stop(endpoint);
    if (supervisor->live) {
        ag_live_stop(supervisor->live);
    }
    if (has_report && is_refused(supervisor, launch)) {
        (void)unlink(supervisor->report.registered ? supervisor->report.path : first_trace);
        if (!request->is_quiet) {
            ag_say("nothing was recorded: AddressSanitizer refuses libraries that are loaded "
                   "before its own; to allow the agent: ASAN_OPTIONS=verify_asan_link_order=0 "
                   "allogram run ...");
        }
    } else if (has_report) {
        if (!supervisor->report.registered) {
            ag_session_remove_empty_trace(first_trace);
        }
        if (!request->is_quiet) {
            print_summary(&supervisor->report, program, request);
        }
    } else if (!request->is_quiet && !supervisor->gave_up) {
        char word[AG_SHELL_WORD_BYTES];
        ag_say("the writer failed; to save what was recorded: allogram check %s",
               ag_shell_word(first_trace, word, sizeof(word)));
    }
    return supervisor->child_ended ? end_status(supervisor->wait_status) : AG_EXIT_OWN_FAILURE;
}

/* Starts the server of --serve (endpoint.c), if the option was given, and prints its address with
 * the token. The token is not printed again. A failure does not affect the recording. */
static void start_endpoint(struct ag_endpoint *endpoint, const struct ag_session *session,
                           const char *trace) {
    if (endpoint->listen_fd < 0) {
        return;
    }
    const int r = ag_endpoint_start(endpoint, ag_session_requests(session), trace);
    if (r < 0) {
        ag_say("cannot start the pprof endpoint: %s%s; recording continues without it",
               strerror(-r), ag_open_files_hint(-r));
        return;
    }
    ag_say(
        "pprof endpoint: go tool pprof http://127.0.0.1:%u/debug/pprof/heap?token=%s (the page for a "
        "browser: the same address without debug/pprof/heap)",
        endpoint->port, endpoint->token);
}

/* Creates the trace, starts the writer and the program, and waits until the program has ended.
 * Returns the exit status. */
static int start_and_wait(struct ag_session *session, struct ag_launch *launch,
                          struct run_request *request, const char *program,
                          struct ag_endpoint *endpoint, struct ag_live *live) {
    char first_trace[FIRST_TRACE_BYTES], message[512];
    struct ag_supervisor supervisor = {.session = session,
                                       .child = launch->pid,
                                       .report_fd = -1,
                                       .signal_fd = -1,
                                       .dumps = request->session.dumps,
                                       .n_dumps = request->session.n_dumps,
                                       .times = &request->times,
                                       .live = live->terminal_fd >= 0 ? live : NULL};
    if (ag_session_first_trace(session, (uint32_t)launch->pid, program, first_trace, message) < 0) {
        ag_launch_abandon(launch);
        ag_session_remove(session);
        return ag_fail(AG_EXIT_OWN_FAILURE, "%s", message);
    }
    int r = ag_supervisor_take_signals(&supervisor, AG_SIGNALS_FOR_CHILD);
    r = r < 0 ? r : ag_supervisor_start_writer(&supervisor);
    if (r < 0) {
        ag_launch_abandon(launch);
        ag_session_remove(session);
        ag_session_remove_empty_trace(first_trace);
        return ag_fail(AG_EXIT_OWN_FAILURE, "cannot start the writer: %s%s", strerror(-r),
                       ag_open_files_hint(-r));
    }
    start_endpoint(endpoint, session, first_trace);
    ag_recording_times_start(&request->times, session, ag_supervisor_now_ms());
    const int error = ag_launch_go(launch);
    if (error > 0) {
        ag_endpoint_stop(endpoint);
        ag_live_stop(live);
        supervisor.live = NULL;
        supervisor.child_ended = true;
        /* waits for the writer, which ends after the child */
        (void)ag_supervisor_watch(&supervisor);
        ag_session_remove_empty_trace(first_trace);
        return ag_fail(error == ENOENT ? AG_EXIT_NOT_FOUND : AG_EXIT_NOT_EXECUTABLE, "%s: %s",
                       program, strerror(error));
    }
    r = ag_live_start(live, ag_session_requests(session), first_trace);
    if (r < 0) {
        ag_say("cannot show the screen: %s; the recording continues without it", strerror(-r));
    }
    return accompany(&supervisor, request, program, launch, first_trace, endpoint);
}

static int run_program(struct run_request *request, char **arguments) {
    struct ag_target target;
    char message[512], agent[AG_AGENT_PLACE_BYTES];
    if (arguments[0][0] == '\0') {
        return ag_fail(AG_EXIT_NOT_FOUND, "run: the command is empty; name a program");
    }
    int status = ag_target_find(arguments[0], &target, message);
    if (status != 0) {
        return ag_fail(status, "%s", message);
    }
    if (ag_agent_place_find(agent, message) < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "%s", message);
    }
    struct ag_launch launch = {.path = target.path,
                               .arguments = arguments,
                               .agent = agent,
                               .adapters = request->adapters,
                               .has_calls = request->has_calls,
                               .functions = request->functions,
                               .processes = request->processes};
    struct ag_session *session = NULL;
    struct ag_endpoint endpoint = {.listen_fd = -1};
    struct ag_live live = AG_LIVE_NONE;
    ag_launch_guard_standard();
    ag_launch_lift_limits(&launch);
    if (request->serves && ag_endpoint_open(&endpoint, request->port, message) < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "%s", message);
    }
    if (request->is_live && ag_live_open(&live, AG_LIVE_RUN, message) < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "run: %s", message);
    }
    live.is_quiet = request->is_quiet;
    launch.output_fd = live.program_fd;
    if (ag_session_create(&request->session, &session, message) < 0) {
        ag_live_stop(&live);
        return ag_fail(AG_EXIT_OWN_FAILURE, "%s", message);
    }
    launch.session_path = ag_session_path(session);
    const int r = ag_launch_prepare(&launch);
    if (r < 0) {
        ag_session_remove(session);
        status = ag_fail(AG_EXIT_OWN_FAILURE, "cannot start %s: %s%s", arguments[0], strerror(-r),
                         ag_open_files_hint(-r));
    } else {
        status = start_and_wait(session, &launch, request, arguments[0], &endpoint, &live);
    }
    ag_live_stop(&live);             /* after a failure */
    (void)ag_session_close(session); /* returns NULL */
    return status;
}

int ag_command_run(int argc, char **argv) {
    struct run_request request = {
        .session = {.size = sizeof(request.session), .keeper = AG_KEEPER_RUN}};
    struct ag_options options = {
        .usage = "run [OPTIONS] [--] COMMAND [ARG...]",
        .about =
            "Records a program and the processes it starts. Output, signals and exit status\n"
            "are those of the program; 125: allogram itself failed, 126: COMMAND is not executable, 127: not found.",
        .table = option_table,
        .n_table = AG_ARRAY_SIZE(option_table),
        .ends_at_operand = true,
        .usage_status = AG_EXIT_OWN_FAILURE,
    };
    int status = read_environment(&request);
    if (status != 0) {
        return status;
    }
    if (!ag_options_read(&options, argc, argv, set_typed_option, &request)) {
        return options.status;
    }
    if (options.n_operands == 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE,
                       "run: no command given; usage: allogram run -- COMMAND [ARG...]");
    }
    if (request.session.budget_percent > 0 && !request.is_exact) {
        request.session.is_sampling = true;
    }
    if (request.sampling_option && !request.session.is_sampling) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "run: --%s requires --mode=sample",
                       request.sampling_option);
    }
    if ((request.functions[0] || request.processes[0]) && request.session.is_sampling) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "run: --%s requires exact mode: omit --mode=sample",
                       request.functions[0] ? "trace" : "process");
    }
    status = refuse_bytes_of_samples(&request.session);
    status = status != 0 ? status : refuse_one_signal_for_two(&request);
    return status != 0 ? status : run_program(&request, options.operands);
}
