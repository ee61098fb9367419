/* attach_link.c: records a virtual machine that has a name (a node), for `allogram attach NAME`.
 * The command creates the session: the live segment, which is memory shared with the machine, and
 * the writer, a process that makes the trace from the live segment. Over a connection the command
 * asks the machine to join the session and, at the end, to leave it (remote/machine_link.h).
 *
 * Steps; each failure undoes the steps before it:
 *
 *     connection                 on failure one line is printed
 *     live segment, trace        on failure their files are removed
 *     writer                     on failure the same files are removed
 *     the machine starts         on failure the machine is unchanged, the writer is ended, and
 *                                the same files are removed
 *     wait                       for Ctrl-C, the duration, a stop or reset, the machine's end
 *     the machine leaves         the writer seals (completes) the trace, and the summary is
 *                                printed
 *
 * A reset ends the trace and begins another one, whose counts start from 0. If the machine has
 * died, the writer seals the trace with what the machine had recorded. */
#include "cli/attach_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/runtimes.h"
#include "cli/agent_place.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/message.h"
#include "cli/run_summary.h"
#include "cli/supervisor.h"
#include "remote/machine_link.h"
#include "text/shell_word.h"
#include "writer/live_session.h"
#include "writer/snapshot.h"

enum {
    LOOK_MS = 1000, /* longest wait for an event; kind->next has to be called at least every 10 s */
    REPORT_PATIENCE_MS = 120 * 1000,
    STUCK_PATIENCE_MS = 2000, /* timeout for a machine that does not stop */
};

const struct ag_link_kind *ag_link_kind_of(const char *name) {
    for (const struct ag_runtime *row = ag_runtimes; row->name; row++) {
        if (row->link && row->link->takes(name)) {
            return row->link;
        }
    }
    return NULL;
}

/* ---- the link ---- */

int ag_link_connect(const char *name, const struct ag_link_kind *kind, const char *option,
                    struct ag_link **ret_link) {
    char agent[AG_AGENT_PLACE_BYTES], text[AG_LINK_TEXT_BYTES], unused[512];
    const bool has_agent = ag_agent_place_find(agent, unused) == 0;
    if (has_agent) {
        *strrchr(agent, '/') = '\0'; /* the result is not NULL, because the path is absolute */
    }
    const struct ag_link_place place = {.name = name,
                                        .option = option,
                                        .agent_folder = has_agent ? agent : NULL,
                                        .variable = getenv};
    const int r = kind->open(&place, ret_link, text);
    return r < 0 ? ag_fail(AG_EXIT_OWN_FAILURE, "%s", text) : AG_EXIT_OK;
}

/* ---- one trace ---- */

enum outcome { ENDED, WAS_RESET, IS_GONE, FAILED };

struct attachment {
    const struct ag_link_attach *attach;
    struct ag_link *link;
    struct ag_supervisor supervisor;
    char trace[4096];
    uint64_t until_ms; /* end of the recording on the monotonic clock; 0: no limit */
};

static int make_session(struct attachment *at, char message[512]) {
    const struct ag_link_attach *attach = at->attach;
    const struct ag_session_options options = {.size = sizeof(options),
                                               .keeper = AG_KEEPER_LINK,
                                               .output_pattern = attach->output_pattern,
                                               .max_bytes = attach->max_bytes,
                                               .no_children = true,
                                               .is_attached = true,
                                               .has_requests = true,
                                               .dumps = {{AG_DUMP_SIGNAL, SIGUSR1}},
                                               .n_dumps = 1};
    const uint32_t pid = attach->kind->pid(at->link);
    char program[64];
    (void)snprintf(program, sizeof(program), "%.*s", (int)strcspn(attach->name, "@"), attach->name);
    struct ag_session *session = NULL;
    int r = ag_session_create(&options, &session, message);
    if (r < 0) {
        return r;
    }
    at->supervisor = (struct ag_supervisor){
        .session = session, .report_fd = -1, .signal_fd = at->supervisor.signal_fd};
    r = ag_session_first_trace(session, pid, program, at->trace, message);
    if (r == 0) {
        r = ag_supervisor_start_writer(&at->supervisor);
        if (r < 0) {
            (void)snprintf(message, 512, "cannot start the writer: %s%s", strerror(-r),
                           ag_open_files_hint(-r));
            ag_session_remove_empty_trace(at->trace);
        }
    }
    if (r < 0) {
        ag_session_remove(session);
        at->supervisor.session = ag_session_close(session);
    }
    return r;
}

/* Kills the writer, which would otherwise wait for a process to join the session. Removes the
 * files. */
static void abandon_recording(struct attachment *at) {
    struct ag_supervisor *supervisor = &at->supervisor;
    (void)kill(supervisor->writer, SIGKILL); /* its pid is not reused before waitpid */
    (void)waitpid(supervisor->writer, NULL, 0);
    (void)close(supervisor->report_fd); /* nothing was written */
    ag_session_remove(supervisor->session);
    ag_session_remove_empty_trace(at->trace);
    supervisor->session = ag_session_close(supervisor->session);
}

/* ---- waiting ---- */

static void dump_now(const struct attachment *at) {
    struct ag_snapshot_requests *requests = ag_session_requests(at->supervisor.session);
    if (requests) {
        atomic_fetch_add_explicit(&requests->n_signals, 1, memory_order_relaxed);
    }
}

static bool is_asked_to_end(const struct attachment *at) {
    struct signalfd_siginfo info;
    bool is_end = false;
    while (read(at->supervisor.signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        char text[AG_LINK_TEXT_BYTES];
        if (info.ssi_signo == SIGUSR1) {
            /* the machine answers with the event AG_LINK_DUMP */
            (void)at->attach->kind->control(at->link, "dump", text);
        }
        is_end |= info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP;
    }
    return is_end;
}

static int patience_ms(const struct attachment *at) {
    const uint64_t now = ag_supervisor_now_ms();
    if (at->until_ms == 0 || at->until_ms > now + LOOK_MS) {
        return LOOK_MS;
    }
    return at->until_ms > now ? (int)(at->until_ms - now) : 0;
}

static enum outcome accompany(struct attachment *at) {
    const struct ag_link_kind *kind = at->attach->kind;
    while (at->until_ms == 0 || ag_supervisor_now_ms() < at->until_ms) {
        struct pollfd fds[] = {{.fd = at->supervisor.signal_fd, .events = POLLIN},
                               {.fd = at->supervisor.report_fd, .events = POLLIN},
                               {.fd = kind->fd(at->link), .events = POLLIN}};
        /* the result does not matter: all three descriptors are checked below */
        (void)poll(fds, AG_ARRAY_SIZE(fds), patience_ms(at));
        if (is_asked_to_end(at)) {
            return ENDED;
        }
        if (fds[1].revents && !ag_supervisor_read_report(&at->supervisor)) {
            return IS_GONE; /* the machine's process has ended */
        }
        for (enum ag_link_event event = AG_LINK_DUMP; event == AG_LINK_DUMP;) {
            event = kind->next(at->link);
            if (event == AG_LINK_DUMP) {
                dump_now(at);
            } else if (event != AG_LINK_QUIET) {
                return event == AG_LINK_STOP ? ENDED : event == AG_LINK_RESET ? WAS_RESET : IS_GONE;
            }
        }
    }
    return ENDED;
}

/* Called after the machine has left or died, or if it does not stop: waits until the writer has
 * sealed the trace, and prints the summary. Kills the writer if it needs more than PATIENCE_MS. */
static void finish_recording(struct attachment *at, int patience_ms) {
    struct ag_supervisor *supervisor = &at->supervisor;
    const uint64_t give_up_ms = ag_supervisor_now_ms() + (uint64_t)patience_ms;
    while (supervisor->report_bytes < sizeof(supervisor->report) &&
           ag_supervisor_now_ms() < give_up_ms) {
        struct pollfd report = {.fd = supervisor->report_fd, .events = POLLIN};
        if (poll(&report, 1, LOOK_MS) > 0 && !ag_supervisor_read_report(supervisor)) {
            break;
        }
    }
    (void)close(supervisor->report_fd); /* nothing was written */
    if (supervisor->report_bytes < sizeof(supervisor->report)) {
        char word[AG_SHELL_WORD_BYTES];
        (void)kill(supervisor->writer, SIGKILL); /* its pid is not reused before waitpid */
        (void)waitpid(supervisor->writer, NULL, 0);
        ag_say("the writer did not finish, so the trace is incomplete; to save what was recorded: "
               "allogram check %s",
               ag_shell_word(at->trace, word, sizeof(word)));
        supervisor->session = ag_session_close(supervisor->session);
        return;
    }
    /* after its report, the writer still waits briefly for children of the machine's process */
    (void)waitpid(supervisor->writer, NULL, 0);
    ag_session_free_memory(supervisor->session);
    supervisor->session = ag_session_close(supervisor->session);
    if (!supervisor->report.registered) {
        ag_session_remove_empty_trace(at->trace);
    }
    if (!at->attach->is_quiet && supervisor->report.registered) {
        ag_run_summary_print_trace(&supervisor->report, at->attach->is_exact ? "functions" : "gc");
    }
}

static void say_text(const struct attachment *at, const char *text) {
    if (text[0]) {
        ag_say("%s: %s", at->attach->name, text);
    }
}

/* Called before anything is changed in the machine. If the given options cost more time than the
 * default ones, prints how much. */
static void say_price(const struct ag_link_attach *attach) {
    const char *price =
        attach->functions.count > 0 ? "each call of the selected functions takes about 0.5 us more"
        : attach->is_exact
            ? "each call takes about 0.5 us more, so code with many calls is ten to fifty times slower"
        : attach->processes.count > 0
            ? "each garbage collection of the selected processes takes about 5 us more"
            : NULL;
    if (!attach->is_quiet && price) {
        ag_say("%s: %s", attach->name, price);
    }
}

static void say_begin(const struct attachment *at) {
    const struct ag_link_attach *attach = at->attach;
    if (!attach->is_quiet) {
        const bool is_sample = !attach->is_exact && attach->processes.count == 0;
        ag_say("recording %s%s%s; Ctrl-C ends the recording and removes the agent",
               is_sample ? "a sample of the collections of " : "", attach->name,
               is_sample ? "; --mode=exact counts every call" : "");
    }
}

static enum outcome record_once(struct attachment *at) {
    char message[512], text[AG_LINK_TEXT_BYTES];
    const struct ag_link_attach *attach = at->attach;
    if (make_session(at, message) < 0) {
        (void)ag_fail(AG_EXIT_OWN_FAILURE, "%s", message);
        return FAILED;
    }
    const struct ag_link_options options = {.live_path = ag_session_path(at->supervisor.session),
                                            .is_exact = attach->is_exact,
                                            .processes = attach->processes.texts,
                                            .n_processes = attach->processes.count,
                                            .functions = attach->functions.texts,
                                            .n_functions = attach->functions.count};
    if (attach->kind->start(at->link, &options, text) < 0) {
        abandon_recording(at);
        (void)ag_fail(AG_EXIT_OWN_FAILURE, "%s", text);
        return FAILED;
    }
    say_text(at, text);
    say_begin(at);
    const enum outcome outcome = accompany(at);
    if (outcome == IS_GONE) {
        ag_say("%s has ended or cannot be reached; the trace contains what was recorded until then",
               attach->name);
        finish_recording(at, REPORT_PATIENCE_MS);
        return outcome;
    }
    if (attach->kind->stop(at->link, /* is_again= */ outcome == WAS_RESET, text) < 0) {
        (void)ag_fail(AG_EXIT_OWN_FAILURE, "%s", text);
        finish_recording(at, STUCK_PATIENCE_MS);
        return FAILED;
    }
    say_text(at, text);
    finish_recording(at, REPORT_PATIENCE_MS);
    return outcome;
}

static int take_signals(void) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    if (!ag_background_ignores_hangup()) {
        (void)sigaddset(&set, SIGHUP);
    }
    (void)sigaddset(&set, SIGUSR1);
    /* a write to a connection that the machine has closed must not end this process; signal cannot
     * fail for SIGPIPE */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* cannot fail with this set */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int ag_attach_link(const struct ag_link_attach *attach) {
    struct attachment at = {.attach = attach};
    struct ag_launch own = {0};
    ag_launch_guard_standard();
    ag_launch_lift_limits(&own);
    int status = ag_link_connect(attach->name, attach->kind, attach->kind_option, &at.link);
    if (status != AG_EXIT_OK) {
        return status;
    }
    at.supervisor.signal_fd = take_signals();
    if (at.supervisor.signal_fd < 0) { /* then no signal could end the recording */
        status =
            ag_fail(AG_EXIT_OWN_FAILURE, "attach: cannot wait for signals: %s", strerror(errno));
        (void)attach->kind->close(at.link); /* returns NULL */
        return status;
    }
    at.until_ms =
        attach->duration_ns > 0 ? ag_supervisor_now_ms() + attach->duration_ns / 1000000 + 1 : 0;
    say_price(attach);
    enum outcome outcome = WAS_RESET;
    while (outcome == WAS_RESET) {
        outcome = record_once(&at);
    }
    (void)attach->kind->close(at.link); /* returns NULL */
    return outcome == ENDED ? AG_EXIT_OK : AG_EXIT_OWN_FAILURE;
}

int ag_control_link(const char *name, const struct ag_link_kind *kind, const char *option,
                    const char *action) {
    struct ag_link *link = NULL;
    char text[AG_LINK_TEXT_BYTES];
    int status =
        ag_link_connect(name, kind, option, &link) == AG_EXIT_OK ? AG_EXIT_OK : AG_EXIT_FAILURE;
    if (status == AG_EXIT_OK && kind->control(link, action, text) < 0) {
        status = ag_fail(AG_EXIT_FAILURE, "%s", text);
    }
    if (link) {
        (void)kind->close(link); /* returns NULL */
    }
    return status;
}
