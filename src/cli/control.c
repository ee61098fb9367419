/* control.c: `allogram control`: sends a request to the running recording of a process or of a
 * node. A node is a virtual machine that has a name (attach_link.c).
 *
 * A session is one recording. Its live file is the memory that a recorded process shares with the
 * command that records it. The process has this file mapped, so `control` finds the session among
 * the mappings of the process, and no registry of sessions is needed. To stop a recording of
 * `attach`, `control` asks that command to detach from the program. If the command was killed,
 * `control` itself unloads the agent, the library that records inside the process. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/attaching.h"
#include "base/compiler.h"
#include "base/error_message.h"
#include "base/runtimes.h"
#include "cli/attach_link.h"
#include "cli/command.h"
#include "cli/end_guard.h"
#include "cli/foreground.h"
#include "cli/launch.h"
#include "cli/message.h"
#include "cli/options.h"
#include "remote/foreign_file.h"
#include "remote/machine_link.h"
#include "remote/remote_maps.h"
#include "remote/remote_process.h"
#include "text/nearest_name.h"
#include "text/shell_word.h"
#include "writer/live_session.h"
#include "writer/process_watch.h"
#include "writer/session_control.h"

/* ---- a process ---- */

enum {
    LEAVE_PATIENCE_MS = 120 * 1000, /* includes the time to seal (complete) the trace */
    SEAL_LOOK_MS = 2,
};

static const char *const control_actions[] = {
    [AG_CONTROL_PAUSE] = "pause", [AG_CONTROL_RESUME] = "resume", [AG_CONTROL_RESET] = "reset",
    [AG_CONTROL_DUMP] = "dump",   [AG_CONTROL_STOP] = "stop",     NULL,
};

/* Returns the action with the name WORD, an enum ag_control; -1: no action has this name. */
static int action_of(const char *word) {
    for (int i = 0; control_actions[i]; i++) {
        if (strcmp(control_actions[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_file_of(const struct ag_remote_mapping *mapping, pid_t pid, const char *path) {
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISREG(facts.st_mode) &&
           ag_foreign_file_is_mapped(&facts, pid, mapping);
}

/* Finds the live file that the process has mapped. The process may have changed its root folder
 * (chroot) after the file was created, so the path is also looked up in the root folder of this
 * process. Returns false if the process has no live file mapped. */
static bool find_live(const struct ag_remote_process *process, char ret_path[4096]) {
    struct ag_remote_maps maps = {0};
    bool is_found = false;
    if (ag_remote_maps_read(&maps, process->pid) == 0) {
        for (size_t i = 0; i < maps.n && !is_found; i++) {
            const char *path = maps.items[i].path;
            const char *roots[] = {process->root, ""};
            const bool is_live = strstr(path, AG_LIVE_FOLDER_MARK) && !strstr(path, " (deleted)");
            for (size_t j = 0; is_live && !is_found && j < AG_ARRAY_SIZE(roots); j++) {
                (void)snprintf(ret_path, 4096, "%s%s", roots[j], path);
                is_found = is_file_of(&maps.items[i], process->pid, ret_path);
            }
        }
    }
    ag_remote_maps_done(&maps);
    return is_found;
}

/* Does what find_live does. If the process is the foreground process of `attach`
 * (cli/foreground.h), replaces it by the worker, which is its only child and has the live file
 * mapped. */
static bool find_live_of_command(struct ag_remote_process *process, char ret_path[4096]) {
    struct ag_remote_process worker;
    char text[256] = "", unused[512];
    if (find_live(process, ret_path)) {
        return true;
    }
    (void)ag_remote_process_file(process->pid, process->pid, "children", text, sizeof text);
    for (char *at = text, *end; *at != '\0'; at = end) {
        const long child = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        if (ag_remote_process_open((pid_t)child, &worker, unused) == 0 &&
            strcmp(worker.name, AG_ATTACH_WORKER_NAME) == 0 && find_live(&worker, ret_path)) {
            *process = worker;
            return true;
        }
    }
    return false;
}

/* Called if the attach command was killed: unloads the agent in its place, and waits until the
 * writer (the process that makes the trace) has sealed the trace. */
static int detach_for_killed_attach(struct ag_session *session,
                                    const struct ag_remote_process *process, const char *trace) {
    char message[512] = "", word[AG_SHELL_WORD_BYTES];
    sigset_t child_signals;
    int claim = -1;
    (void)sigemptyset(&child_signals);
    (void)sigaddset(&child_signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child_signals, NULL); /* required by attaching.h */
    const struct ag_attach_end end = {.asked_ns = ag_end_guard_asked_ns};
    int r = ag_foreground_begin("allogram-ctl", /* passes_stop= */ false);
    r = r < 0 ? r : ag_end_guard_begin("control", NULL, NULL);
    r = r < 0 ? ag_error_message(message, r, "cannot start a process that detaches: %s%s",
                                 strerror(-r), ag_open_files_hint(-r))
              : ag_attach_claim(process->pid, &end, &claim, message);
    r = r < 0 ? r : ag_attach_clean_up(process->pid, &end, message);
    ag_attach_claim_end(&claim);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "control: %s", message);
    }
    for (int ms = 0; access(ag_session_path(session), F_OK) == 0; ms += SEAL_LOOK_MS) {
        if (ms > LEAVE_PATIENCE_MS || !ag_session_has_writer(session)) {
            return ag_fail(AG_EXIT_FAILURE,
                           "control: %d (%s): the agent was removed, but the writer was killed: "
                           "allogram check %s saves what was recorded",
                           process->pid, process->name, ag_shell_word(trace, word, sizeof(word)));
        }
        (void)poll(NULL, 0, SEAL_LOOK_MS);
    }
    return AG_EXIT_OK;
}

/* Checks whether the keeper (the process that created the session) still runs. A process with the
 * pid KEEPER may be a new process, so the function checks that it has the live file LIVE mapped. 0:
 * the process is the keeper; -ESRCH: the keeper has ended; -EPERM: not known, because the process
 * may not be examined. */
static int find_keeper(pid_t keeper, const char *live) {
    struct ag_remote_process process;
    struct stat of_live, of_keeper;
    char path[4096], message[512];
    const int r = ag_remote_process_open(keeper, &process, message);
    if (r == -EPERM) {
        return r;
    }
    const bool is_keeper = r == 0 && find_live(&process, path) && stat(live, &of_live) == 0 &&
                           stat(path, &of_keeper) == 0 && of_live.st_dev == of_keeper.st_dev &&
                           of_live.st_ino == of_keeper.st_ino;
    return is_keeper ? 0 : -ESRCH;
}

/* Asks the attach command to detach from the program and to seal the trace, and waits until the
 * command ends. */
static int make_process_leave(struct ag_session *session, const struct ag_remote_process *process,
                              pid_t keeper, const char *trace) {
    const int fd = (int)syscall(SYS_pidfd_open, keeper, 0);
    const int found = fd < 0 ? -ESRCH : find_keeper(keeper, ag_session_path(session));
    if (found == -ESRCH) {
        if (fd >= 0) {
            (void)close(fd); /* nothing was written */
        }
        return detach_for_killed_attach(session, process, trace);
    }
    /* a process that may be another one gets no signal */
    if (found < 0 || syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) < 0) {
        const int error = found < 0 ? -found : errno;
        (void)close(fd); /* nothing was written */
        return ag_fail(AG_EXIT_FAILURE, "control: cannot end allogram attach (process %d): %s",
                       keeper, strerror(error));
    }
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    const int r = poll(&polled, 1, LEAVE_PATIENCE_MS);
    (void)close(fd); /* nothing was written */
    return r == 1
               ? AG_EXIT_OK
               : ag_fail(AG_EXIT_FAILURE,
                         "control: allogram attach (process %d) has not yet completed the trace %s",
                         keeper, trace);
}

static int ask_session(struct ag_session *session, const struct ag_remote_process *process,
                       enum ag_control action) {
    char trace[4096], message[512];
    pid_t keeper_pid = 0;
    const enum ag_keeper keeper = ag_session_keeper(session, &keeper_pid);
    if (keeper == AG_KEEPER_LINK) {
        return ag_fail(AG_EXIT_FAILURE,
                       "control: %d (%s) is recorded as a node; use allogram control NAME@HOST %s",
                       process->pid, process->name, control_actions[action]);
    }
    struct ag_controlled known = {0};
    known.pid = ag_process_own_pid((uint32_t)process->pid, &known.pid_namespace);
    if (ag_session_ask(session, &known, action, trace, message) < 0) {
        return ag_fail(AG_EXIT_FAILURE, "control: %d (%s): %s", process->pid, process->name,
                       message);
    }
    if (action == AG_CONTROL_DUMP) {
        (void)printf("%s\n", trace);
    }
    return action == AG_CONTROL_STOP && keeper == AG_KEEPER_ATTACH
               ? make_process_leave(session, process, keeper_pid, trace)
               : AG_EXIT_OK;
}

static int control_process(pid_t pid, enum ag_control action) {
    struct ag_remote_process process;
    struct ag_session *session = NULL;
    char live[4096], message[512];
    if (ag_remote_process_open(pid, &process, message) < 0) {
        return ag_fail(AG_EXIT_FAILURE, "control: %s", message);
    }
    if (!find_live_of_command(&process, live)) {
        return ag_fail(AG_EXIT_FAILURE,
                       "control: %d (%s) is not recorded: start it under allogram run, or allogram "
                       "attach %d",
                       pid, process.name, pid);
    }
    if (ag_session_open(live, &session, message) < 0) {
        return ag_fail(AG_EXIT_FAILURE, "control: %s", message);
    }
    const int status = ask_session(session, &process, action);
    (void)ag_session_close(session); /* returns NULL */
    return status;
}

/* ---- the command ---- */

static const struct ag_option table[] = {AG_OPTIONS_OF_LINKS};

struct link_option { /* the option that `control` has only for one kind of node; name NULL: the
                      * option was not given */
    const char *name, *value;
};

static int set_link_option(void *request, int id, const char *value) {
    struct link_option *option = request;
    option->name = ag_runtimes[id - AG_OPTION_OF_LINKS].link->option;
    option->value = value;
    return AG_EXIT_OK;
}

int ag_command_control(int argc, char **argv) {
    char word[AG_SHELL_WORD_BYTES];
    struct link_option option = {.name = NULL};
    struct ag_options options = {
        .usage = "control PID|NODE ACTION [OPTIONS]",
        .about =
            "Controls a recording of `allogram run` or `attach`. ACTION is pause, resume, reset (reports begin here;\n"
            "of a NODE: ends the trace and begins another one), dump (writes a trace of the recording so far, next\n"
            "to the trace) or stop. PID is that of the program or of the allogram that records it. All actions but\n"
            "dump affect every process of the session.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
    };
    ag_launch_guard_standard();
    if (!ag_options_read(&options, argc, argv, set_link_option, &option)) {
        return options.status;
    }
    if (options.n_operands != 2) {
        return options.n_operands == 1
                   ? ag_fail(AG_EXIT_USAGE,
                             "control: %s: no action given; for example: allogram control %s "
                             "pause (or resume, reset, dump, stop)",
                             options.operands[0],
                             ag_shell_word(options.operands[0], word, sizeof(word)))
                   : ag_options_refuse_operands(
                         &options, "process", "a process and an action",
                         "control 4711 pause (`pgrep NAME` prints the number)");
    }
    const char *name = options.operands[0], *action = options.operands[1];
    const struct ag_link_kind *kind = ag_link_kind_of(name);
    pid_t pid = 0;
    if (!kind && !ag_parse_pid(name, &pid)) {
        return ag_fail(
            AG_EXIT_USAGE,
            "control: %s: neither a process number (`pgrep NAME` prints it) nor a node's "
            "name@host",
            name);
    }
    if (action_of(action) < 0) {
        static const char actions[] = "pause, resume, reset, dump, stop";
        struct ag_nearest_name nearest;
        ag_nearest_name_start(&nearest, action);
        ag_nearest_name_offer_list(&nearest, actions);
        return ag_fail(AG_EXIT_USAGE, "control: %s: not one of %s%s", action, actions,
                       ag_nearest_name_hint(&nearest, ""));
    }
    if (option.name && (!kind || kind->option != option.name)) {
        return ag_fail(AG_EXIT_USAGE, "control: --%s does not apply to %s", option.name, name);
    }
    return kind ? ag_control_link(name, kind, option.value, action)
                : control_process(pid, (enum ag_control)action_of(action));
}
