/* attach.c: `allogram attach PID`: records a running program until Ctrl-C, --duration or the
 * program's end, and leaves the program as it was. attach_link.c records virtual machines that have
 * a name (nodes).
 *
 * The agent is a library that is loaded into the program. Its hooks, which replace malloc and other
 * functions, write events to memory that is shared with allogram (the live segment). Another
 * process (the writer) makes the trace from this memory.
 *
 * Steps; each failure undoes the steps before it:
 *
 *     options, process, agent        if one is invalid, prints one line and exits
 *     live segment, trace            on failure their files are removed
 *     load the agent                 one thread of the process is stopped briefly
 *     fork the writer                on failure the agent is unloaded
 *     switch the hooks on            all threads are stopped briefly
 *     wait
 *     hooks off, unload the agent    the writer seals (completes) the trace, the summary
 *                                    is printed */
#include "attach/attaching.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error_message.h"
#include "base/runtimes.h"
#include "cli/agent_place.h"
#include "cli/attach_link.h"
#include "cli/command.h"
#include "cli/end_guard.h"
#include "cli/foreground.h"
#include "cli/launch.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/recording_options.h"
#include "cli/run_summary.h"
#include "cli/supervisor.h"
#include "cli/urgency.h"
#include "remote/glibc_heap.h"
#include "remote/machine_link.h"
#include "report/quantity.h"
#include "text/shell_word.h"
#include "writer/live_session.h"

enum {
    OPTION_DURATION = AG_OPTION_LONG_ONLY,
    OPTION_PROCESS,
    OPTION_TRACE,
    OPTION_LIVE,
    BACKGROUND_NAP_MS = 50,
    BACKGROUND_NAP_MOST_MS = 5000,
};
#define BACKGROUND_NS (10 * 60 * UINT64_C(1000000000))
#define LOOK_NS UINT64_C(500000000)

static const struct ag_option table[] = {
    {'o', "output", "PATTERN",
     "the trace's name; %e program, %p pid, %h host, %t time\n(default: "
     "allogram.%e.%p.allogram in the current folder)"},
    {AG_OPTION_MODE, "mode", "exact|sample",
     "record a sample (default), which costs very little, or every\nallocation"},
    {OPTION_DURATION, "duration", "TIME", "how long to record (default: until Ctrl-C)"},
    AG_OPTIONS_OF_SAMPLING,
    {AG_OPTION_DEPTH, "depth", "N", "largest number of frames of a stack (default: 256)"},
    {AG_OPTION_ADAPTERS, "adapters", "auto|none|LIST",
     "which runtime adapters may be used (default: all that can be\nstarted late)"},
    {AG_OPTION_MAX_SIZE, "max-size", "BYTES", "limit of the trace's size; suffixes K, M, G"},
    {AG_OPTION_FREE_STACKS, "free-stacks", NULL,
     "record the stack of every free too, for report --view=blocks"},
    {AG_OPTION_FILTER, "filter", "EXPR", ag_filter_option_help},
    {OPTION_LIVE, "live", NULL,
     "show the views of `allogram report` on this terminal until the\nrecording ends"},
    {'q', "quiet", NULL, "print nothing but failures"},
    AG_OPTIONS_OF_LINKS,
    {OPTION_PROCESS, "process", "WHICH",
     "record only these processes of a NODE: registered name, pid or\ninitial:M:F/A (default: all); separated by commas, may be repeated"},
    {OPTION_TRACE, "trace", "WHICH",
     "record only these functions of a NODE: M:F/A, M:F, M:_ (default:\nall; exact mode); separated by commas, may be repeated"},
};

struct request {
    struct ag_session_options session;
    /* name of a given option that is valid only in sample mode; NULL: none was given */
    const char *sampling_option;
    /* name of a given option that is not valid for a NODE; NULL: none was given */
    const char *process_option;
    const char *adapters;       /* value of --adapters */
    uint64_t duration_ns;       /* 0: no limit */
    struct ag_link_attach link; /* the options for a NODE */
    bool is_quiet, is_live;
    bool is_under_way; /* a signal has ended the recording before the agent could be unloaded */
    struct ag_live live;
    pid_t pid;
    int claim; /* lock that keeps other allogram commands from attaching, held until the hooks are
                * on; -1: none */
    struct ag_attach *attach;
    struct ag_supervisor supervisor;
    /* times of loading the agent, switching the hooks on, and unloading the agent */
    struct ag_attach_times in, on, out;
    /* the malloc heap of the process when the recording began; valid if has_before */
    struct ag_glibc_heap before;
    bool has_before;
    /* Paths of the live segment and of the trace, for end_by_force, which another thread may
     * execute (end_guard.h). "": nothing to remove. */
    char session_path[4096], trace[4096];
};
static const struct ag_attach_end asked_end = {.asked_ns = ag_end_guard_asked_ns};

/* ---- options ---- */

static int refuse_value(int id, const char *value, const char *wanted) {
    return ag_fail(AG_EXIT_OWN_FAILURE, "attach: --%s=%s: %s", ag_option_name(table, id), value,
                   wanted);
}

/* Adds the parts of LIST, which are separated by commas. The memory of the parts is never freed.
 * Returns false if CHOICE has too many parts, or none. */
static bool add_choices(struct ag_attach_choice *choice, const char *list) {
    char *rest = strdup(list);
    for (char *part; (part = strsep(&rest, ",")) != NULL;) {
        if (choice->count == AG_LINK_CHOICES_MOST) {
            return false;
        }
        if (part[0]) {
            choice->texts[choice->count++] = part;
        }
    }
    return choice->count > 0;
}

static bool set_choice(struct ag_link_attach *link, int id, const char *value) {
    link->option = id == OPTION_PROCESS ? "process" : "trace";
    return add_choices(id == OPTION_PROCESS ? &link->processes : &link->functions, value);
}

static int set_recording_option(struct request *request, enum ag_recording_option option,
                                const char *value) {
    char message[1024];
    const char *name = ag_option_name(table, (int)option);
    if (option <= AG_OPTION_SEED) {
        request->sampling_option = name;
    } else if (option != AG_OPTION_MODE && option != AG_OPTION_MAX_SIZE) {
        request->process_option = name;
    }
    request->adapters = option == AG_OPTION_ADAPTERS ? value : request->adapters;
    return ag_recording_option_set(&request->session, option, value, message)
               ? AG_EXIT_OK
               : ag_fail(AG_EXIT_OWN_FAILURE, "attach: --%s=%s", name, message);
}

static int set_option(void *context, int id, const char *value) {
    struct request *request = context;
    if (id >= AG_OPTION_OF_LINKS) {
        request->link.option = ag_runtimes[id - AG_OPTION_OF_LINKS].link->option;
        request->link.kind_option = value;
        return AG_EXIT_OK;
    }
    switch (id) {
    case 'o':
        request->session.output_pattern = value;
        return AG_EXIT_OK;
    case 'q':
        request->is_quiet = true;
        return AG_EXIT_OK;
    case OPTION_LIVE:
        request->is_live = request->session.has_requests = true;
        request->process_option = "live";
        return AG_EXIT_OK;
    case OPTION_DURATION:
        return ag_parse_time(value, &request->duration_ns) && request->duration_ns > 0
                   ? AG_EXIT_OK
                   : refuse_value(id, value, "not a time longer than 0; give " AG_TIME_FORMS);
    case OPTION_PROCESS:
    case OPTION_TRACE:
        return set_choice(&request->link, id, value)
                   ? AG_EXIT_OK
                   : refuse_value(id, value, "no item given, or too many");
    }
    return set_recording_option(request, (enum ag_recording_option)id, value);
}

/* ---- the recording ---- */

/* Returns how long to wait for an event: until the end of the duration, but at most LOOK_NS,
 * because no event reports that the process has executed another program. */
static struct timespec rest_until_look(uint64_t duration_ns, uint64_t passed_ns) {
    const uint64_t left_ns = duration_ns > 0 ? duration_ns - passed_ns : LOOK_NS;
    const uint64_t rest_ns = left_ns < LOOK_NS ? left_ns : LOOK_NS;
    return (struct timespec){.tv_sec = (time_t)(rest_ns / 1000000000),
                             .tv_nsec = (long)(rest_ns % 1000000000)};
}

/* Notes in the trace if the code of a hooked function has changed, so calls may be missing. Another
 * program, which the process has executed meanwhile, has other code, too. */
static void look_at_code(const struct request *request) {
    if (!ag_attach_code_is_kept(request->attach) && !ag_attach_is_gone(request->attach)) {
        ag_session_code_changed(request->supervisor.session);
    }
}

/* Waits until Ctrl-C or the end of the duration, or until the process has ended or executed another
 * program. */
static void wait_for_end(struct request *request) {
    struct ag_supervisor *supervisor = &request->supervisor;
    const uint64_t begin_ns = ag_monotonic_ns();
    const int pidfd = (int)syscall(SYS_pidfd_open, request->pid, 0);
    bool is_over = pidfd < 0 && errno == ESRCH; /* the process has ended already */
    while (!is_over) {
        ag_supervisor_look_at_writer(supervisor);
        const uint64_t passed_ns = ag_monotonic_ns() - begin_ns;
        if (request->duration_ns > 0 && passed_ns >= request->duration_ns) {
            break;
        }
        if (request->is_live) { /* draws the screen, which may take a while */
            ag_urgency_end();
            (void)ag_live_step(&request->live);
            ag_urgency_begin();
        }
        const struct timespec rest = rest_until_look(request->duration_ns, passed_ns);
        struct pollfd fds[] = {{.fd = supervisor->signal_fd, .events = POLLIN},
                               {.fd = pidfd, .events = POLLIN},
                               {.fd = request->live.control_fd, .events = POLLIN}};
        if (ppoll(fds, AG_ARRAY_SIZE(fds), &rest, NULL) < 0 && errno != EINTR) {
            break;
        }
        struct signalfd_siginfo info;
        while (read(supervisor->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
            if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP ||
                info.ssi_signo == SIGQUIT) {
                ag_end_guard_note((int)info.ssi_signo);
                is_over = true;
            } else if (info.ssi_signo == SIGTSTP) {
                ag_urgency_end();
                /* in this process' group, which no shell controls, SIGTSTP would be ignored */
                ag_supervisor_stop(supervisor, SIGSTOP);
                ag_urgency_begin();
            } else if (info.ssi_signo == SIGWINCH && request->live.screen > 0) {
                (void)kill(request->live.screen, SIGWINCH);
            }
        }
        is_over |= fds[1].revents != 0 || ag_attach_is_gone(request->attach);
        look_at_code(request);
    }
    if (pidfd >= 0) {
        (void)close(pidfd); /* nothing was written */
    }
}

static void say_times(const struct request *request, const char *what,
                      const struct ag_attach_times *one, const struct ag_attach_times *all) {
    const uint64_t others_ns = one->others_ns > all->others_ns ? one->others_ns : all->others_ns;
    if (!request->is_quiet) {
        struct ag_quantity first, others;
        ag_say("%s %d (%s): stopped one thread for %s, the others for at most %s", what,
               (int)request->pid, ag_attach_program(request->attach),
               ag_quantity_time(&first, one->one_ns), ag_quantity_time(&others, others_ns));
    }
}

/* Called in the background, after a signal has ended the command before the agent could be
 * unloaded. Tries to unload the agent, with pauses that grow, until the agent is unloaded, the
 * process is gone, or BACKGROUND_NS have passed. In the last case the next `attach` to the process
 * unloads the agent. Another allogram may unload it during the pauses. */
static void finish_in_background(struct request *request) {
    struct ag_attach_times times;
    char unused[512];
    const uint64_t begin_ns = ag_monotonic_ns();
    int nap_ms = BACKGROUND_NAP_MS;
    ag_attach_take_time(request->attach);
    for (bool is_over = false; !is_over && ag_monotonic_ns() - begin_ns < BACKGROUND_NS;) {
        ag_urgency_begin();
        int r = ag_attach_claim(request->pid, &(struct ag_attach_end){0}, &request->claim, unused);
        if (r == 0) {
            r = ag_attach_is_gone(request->attach)
                    ? -ESTALE
                    : ag_attach_take_out(request->attach, &times, unused);
            ag_attach_disown(request->attach);
        }
        ag_attach_claim_end(&request->claim);
        ag_urgency_end();
        /* -EAGAIN, -EBUSY: threads did not stop in time or were inside the agent, or another
         * allogram held the claim; -EPERM: another process traces a thread */
        is_over = r != -EPERM && r != -EAGAIN && r != -EBUSY;
        (void)poll(NULL, 0, is_over ? 0 : nap_ms);
        nap_ms = nap_ms * 2 < BACKGROUND_NAP_MOST_MS ? nap_ms * 2 : BACKGROUND_NAP_MOST_MS;
    }
}

/* Called after the agent was loaded. Starts the writer, switches the hooks on, waits for the end of
 * the recording, switches the hooks off and unloads the agent. Returns the exit status. */
static int record_process(struct request *request, struct ag_session *session, const char *trace) {
    struct ag_supervisor *supervisor = &request->supervisor;
    char message[512] = "", word[AG_SHELL_WORD_BYTES];
    int status = AG_EXIT_OK;
    int r = ag_supervisor_start_writer(supervisor);
    request->has_before = ag_attach_heap_before(request->attach, &request->before) == 0;
    ag_urgency_begin();
    if (r < 0) {
        status = ag_fail(AG_EXIT_OWN_FAILURE, "attach: cannot start the writer: %s%s", strerror(-r),
                         ag_open_files_hint(-r));
    } else if (ag_attach_switch_on(request->attach, &request->on, message) < 0) {
        status = ag_fail(AG_EXIT_OWN_FAILURE, "attach: %s", message);
    } else {
        /* the real-time priority (ag_urgency_begin) is kept until the end, so that a signal ends
         * the command at once */
        ag_attach_claim_end(&request->claim);
        say_times(request, "attached to", &request->in, &request->on);
        r = ag_live_start(&request->live, ag_session_requests(session), trace);
        if (r < 0) {
            ag_say("cannot show the screen: %s; the recording continues without it", strerror(-r));
        }
        wait_for_end(request);
        ag_live_stop(&request->live);
    }
    r = ag_attach_take_out(request->attach, &request->out, message);
    if (r == 0) {
        say_times(request, "detached from", &request->out, &request->out);
    } else {
        /* the process ended or executed another program, which are normal ends */
        const bool is_over = r == -ESRCH || r == -ESTALE;
        const bool is_under_way = request->is_under_way = r == -EINTR;
        if (r != -ESRCH) { /* -ESRCH: the process has ended, which the writer notices itself */
            ag_session_first_is_gone(session, is_over ? AG_GONE_BY_EXEC : AG_GONE_LEFT_ALONE);
        }
        if (!request->is_quiet || !(is_over || is_under_way)) {
            ag_say("attach: %s%s", message,
                   is_under_way ? "; the recording has ended, and the agent is removed as soon as "
                                  "the threads of the process can be stopped"
                                : "");
        }
        status = status == AG_EXIT_OK && !is_over && !is_under_way ? AG_EXIT_OWN_FAILURE : status;
    }
    ag_end_guard_end(); /* from here on the command waits only for allogram's own processes */
    ag_urgency_hurry(0);
    struct signalfd_siginfo info;
    while (read(supervisor->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        /* discards the signals that requested the end; a later signal ends the wait for the
         * trace */
    }
    supervisor->child_ended = true; /* so that ag_supervisor_watch waits only for the writer */
    if (supervisor->writer == 0) {
        return status;
    }
    ag_urgency_hurry(supervisor->writer);
    if (!ag_supervisor_watch(supervisor)) {
        return ag_fail(AG_EXIT_OWN_FAILURE,
                       "the writer failed; to save what was recorded: allogram check %s",
                       ag_shell_word(trace, word, sizeof(word)));
    }
    if (!request->is_quiet && status == AG_EXIT_OK) {
        ag_run_summary_print(&supervisor->report, ag_attach_program(request->attach));
        if (request->has_before) {
            ag_run_summary_print_before(&request->before);
        }
    }
    return status;
}

static int attach_session(struct request *request, struct ag_session *session, const char *agent) {
    char *trace = request->trace, message[512] = "";
    if (ag_session_first_trace(session, (uint32_t)request->pid, ag_attach_program(request->attach),
                               trace, message) < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "attach: %s", message);
    }
    request->supervisor.session = session;
    ag_urgency_begin();
    int r = ag_attach_put_in(request->attach, agent, request->adapters, ag_session_path(session),
                             &request->in, message);
    if (r == 0 && ag_end_guard_asked_ns(NULL) != 0) {
        request->is_under_way =
            ag_attach_take_out(request->attach, &request->out, message) == -EINTR;
        r = ag_error_message(message, -EINTR,
                             "%d (%s): interrupted by a signal before the recording began",
                             (int)request->pid, ag_attach_program(request->attach));
    }
    ag_urgency_end();
    if (r < 0) {
        (void)unlink(trace); /* the trace was created a moment ago and is empty */
        return ag_fail(AG_EXIT_OWN_FAILURE, "attach: %s", message);
    }
    return record_process(request, session, trace);
}

static int clean_up(pid_t pid, char message[512]) {
    const int r = ag_attach_clean_up(pid, &asked_end, message);
    if (r == 1) {
        ag_say("attach: %d: removed the agent that an earlier attach had left", (int)pid);
    }
    return r;
}

/* Chooses the agent with adapters (the code for virtual machines) if the process runs a virtual
 * machine. The agent without adapters is loaded half a millisecond faster. */
static int choose_agent(struct request *request, char agent[AG_AGENT_PLACE_BYTES],
                        char message[512]) {
    bool has_one = false;
    const struct ag_runtime *found;
    const bool is_none = strcmp(request->adapters, "none") == 0;
    for (size_t i = 0; !is_none && (found = ag_attach_runtime(request->attach, i)); i++) {
        has_one |= found->why_not_late == NULL;
        if (found->why_not_late && !request->is_quiet) {
            ag_say("attach: %d (%s): %s is not recorded: %s", (int)request->pid,
                   ag_attach_program(request->attach), found->name, found->why_not_late);
        }
    }
    return ag_agent_place_find_attached(has_one ? AG_AGENT_ATTACHED_RUNTIMES : AG_AGENT_ATTACHED,
                                        agent, message);
}

/* Called before the foreground process is ended by force. Removes the file of the live segment and
 * the trace. If a writer was started, this function only ends the recording; the writer then
 * completes the trace and removes the file of the live segment. */
static void end_by_force(void *context) {
    const struct request *request = context;
    if (request->supervisor.writer != 0) {
        ag_session_first_is_gone(request->supervisor.session, AG_GONE_LEFT_ALONE);
    } else if (request->session_path[0] != '\0') {
        /* the live segment's file may have been removed already */
        ag_session_remove_path(request->session_path);
        (void)unlink(request->trace);
    }
}

/* Blocks the signals that end the command. From here on the command reads them from a descriptor,
 * so that it can undo every change to the process before it ends. */
static int begin_signals(struct request *request) {
    request->supervisor = (struct ag_supervisor){.child = request->pid,
                                                 .report_fd = -1,
                                                 .signal_fd = -1,
                                                 .live = request->is_live ? &request->live : NULL};
    const int r = ag_supervisor_take_signals(&request->supervisor, AG_SIGNALS_OF_COMMAND);
    return r < 0 ? r : ag_end_guard_begin("attach", end_by_force, request);
}

/* The last step. If something is left to do in the process, the command ends now, and this process
 * goes on in the background. Returns STATUS. */
static int end_attach(struct request *request, int status) {
    ag_end_guard_end();
    ag_attach_claim_end(&request->claim);
    if (request->attach != NULL &&
        (request->is_under_way || ag_attach_has_late_threads(request->attach))) {
        (void)ag_foreground_leave(status);
    }
    if (request->is_under_way) {
        finish_in_background(request);
    }
    request->attach = ag_attach_free(request->attach);
    return status;
}

static int attach_to_process(struct request *request) {
    struct ag_session *session = NULL;
    struct ag_launch own = {0};
    char agent[AG_AGENT_PLACE_BYTES], message[512] = "";
    ag_launch_guard_standard();
    ag_urgency_allow();
    if (request->pid == getpid()) {
        return ag_fail(AG_EXIT_OWN_FAILURE,
                       "attach: %d is this command itself; name another process",
                       (int)request->pid);
    }
    if (request->is_live && ag_live_open(&request->live, AG_LIVE_ATTACH, message) < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "attach: %s", message);
    }
    request->live.is_quiet = request->is_quiet;
    int r = ag_foreground_begin(AG_ATTACH_WORKER_NAME, request->is_live);
    if (r < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "attach: cannot start a process: %s%s", strerror(-r),
                       ag_open_files_hint(-r));
    }
    r = begin_signals(request);
    if (r < 0) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "attach: cannot receive signals: %s%s", strerror(-r),
                       ag_open_files_hint(-r));
    }
    if (ag_attach_claim(request->pid, &asked_end, &request->claim, message) < 0 ||
        clean_up(request->pid, message) < 0 ||
        ag_attach_prepare(request->pid, &asked_end, &request->attach, message) < 0 ||
        choose_agent(request, agent, message) < 0) {
        return end_attach(request, ag_fail(AG_EXIT_OWN_FAILURE, "attach: %s", message));
    }
    int status = AG_EXIT_OK;
    ag_launch_lift_limits(&own);
    if (ag_session_create(&request->session, &session, message) < 0) {
        status = ag_fail(AG_EXIT_OWN_FAILURE, "attach: %s", message);
    } else {
        (void)snprintf(request->session_path, sizeof request->session_path, "%s",
                       ag_session_path(session));
        status = attach_session(request, session, agent);
        if (request->supervisor.writer == 0) {
            ag_session_remove(session); /* a writer removes the live segment itself */
        }
        (void)ag_session_close(session); /* returns NULL */
    }
    return end_attach(request, status);
}

static int attach_named(struct request *request, const char *name,
                        const struct ag_link_kind *kind) {
    struct ag_link_attach *link = &request->link;
    const char *meaningless =
        request->sampling_option ? request->sampling_option : request->process_option;
    if (meaningless) {
        return ag_fail(AG_EXIT_OWN_FAILURE,
                       "attach: --%s does not apply to %s, which is a node; leave the option out",
                       meaningless, name);
    }
    link->name = name;
    link->kind = kind;
    link->output_pattern = request->session.output_pattern;
    link->max_bytes = request->session.max_bytes;
    link->duration_ns = request->duration_ns;
    link->is_exact = !request->session.is_sampling || link->functions.count > 0;
    link->is_quiet = request->is_quiet;
    return ag_attach_link(link);
}

static int parse_pid(const struct request *request, const char *text, pid_t *ret_pid) {
    if (!ag_parse_pid(text, ret_pid)) {
        return ag_fail(AG_EXIT_OWN_FAILURE,
                       "attach: %s: neither a process number (`pgrep NAME` finds it) nor a node's "
                       "name@host",
                       text);
    }
    if (request->link.option) {
        return ag_fail(AG_EXIT_OWN_FAILURE,
                       "attach: --%s does not apply to a process, only to a node (name@host)",
                       request->link.option);
    }
    return AG_EXIT_OK;
}

int ag_command_attach(int argc, char **argv) {
    struct request request = {.session = {.size = sizeof(request.session),
                                          .keeper = AG_KEEPER_ATTACH,
                                          .is_sampling = true,
                                          .is_attached = true,
                                          .no_children = true},
                              .adapters = "auto",
                              .live = AG_LIVE_NONE,
                              .claim = -1};
    struct ag_options options = {
        .usage = "attach PID|NODE [OPTIONS]",
        .about = "Records a running program until Ctrl-C, --duration or its end; nothing remains\n"
                 "in it afterwards. Each thread is stopped twice, for less than a millisecond.\n"
                 "NODE is the name of a virtual machine: name@host.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
        .usage_status = AG_EXIT_OWN_FAILURE,
    };
    if (!ag_options_read(&options, argc, argv, set_option, &request)) {
        return options.status;
    }
    if (options.n_operands != 1) {
        return ag_options_refuse_operands(&options, "process", "one process number or node",
                                          "attach 4711 (`pgrep NAME` prints the number)");
    }
    const struct ag_link_kind *kind = ag_link_kind_of(options.operands[0]);
    if (kind) {
        return attach_named(&request, options.operands[0], kind);
    }
    if (request.sampling_option && !request.session.is_sampling) {
        return ag_fail(AG_EXIT_OWN_FAILURE, "attach: --%s does not apply to --mode=exact",
                       request.sampling_option);
    }
    int status = parse_pid(&request, options.operands[0], &request.pid);
    status = status == AG_EXIT_OK ? attach_to_process(&request) : status;
    ag_live_stop(&request.live); /* after a failure */
    return status;
}
