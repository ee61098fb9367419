/* live.c: the command's side of --live.
 *
 * 1. The program's output. The program and the screen must not write to the same terminal. So the
 *    program's standard output and standard error, if they are the terminal, are replaced by a file
 *    without a name. The screen shows the end of this file. When the screen is closed, the command
 *    writes the file to the terminal, and from then on everything that is added to the file. The
 *    file offset of output_fd is the end of what was written to the terminal. Standard output and
 *    standard error that are files or pipes are not changed. Standard input, if it is the terminal,
 *    is replaced by /dev/null, because the screen reads the keys.
 *
 * 2. The terminal is restored, whether the screen or the command ends first. If the process of the
 *    screen ends, the kernel closes its side of the socket. The command then waits for the process,
 *    and resets the terminal if a signal has killed the process. If the command ends, the kernel
 *    closes the command's side of the socket, and the screen restores the terminal. */
#include "cli/live.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/error_message.h"
#include "cli/agent_place.h"
#include "cli/background.h"
#include "cli/message.h"
#include "live/live_screen.h"
#include "writer/snapshot.h"

enum {
    TAKE_PATIENCE_MS = 30 * 1000, /* timeout for a snapshot, because the recording may not have
                                   * begun yet */
    LEAVE_PATIENCE_MS = 1000,
    OUTPUT_INTERVAL_MS = 100, /* how often the program's output is written to the terminal */
    COPY_BYTES = 16 << 10,
};
static const char part_name[] = ".part";

/* What curses does at its end, on terminals like xterm: leaves the alternate screen, shows the
 * cursor, ends styles and the keypad's application mode. */
static const char reset_text[] = "\x1b[?1049l\x1b[?25h\x1b[0m\x1b[?1l\x1b>";

/* ---- before the program starts ---- */

static ag_live_check_function *check_terminal;
static ag_live_show_function *show_screen;

/* Loads the library of the screen. The library, and ncurses, are never unloaded. */
static int load_screen(char ret_message[512]) {
    char path[AG_AGENT_PLACE_BYTES];
    if (!ag_agent_place_find_own(AG_LIVE_LIBRARY, "../live", path)) {
        return ag_error_message(ret_message, -ENOENT,
                                "--live needs " AG_LIVE_LIBRARY ", which is not installed; builds "
                                "of allogram without ncurses do not have it");
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) { /* C has no conversion from an object pointer to a function pointer */
        *(void **)(void *)&check_terminal = dlsym(library, "ag_live_check");
        *(void **)(void *)&show_screen = dlsym(library, "ag_live_show");
    }
    return check_terminal && show_screen
               ? 0
               : ag_error_message(ret_message, -ELIBACC, "--live: %.400s", dlerror());
}

static int open_terminal(void) {
    char name[256];
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (isatty(fd)) {
            const int named = ttyname_r(fd, name, sizeof(name)) == 0
                                  ? open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)
                                  : -1;
            /* in a container the terminal may have no name */
            return named >= 0 ? named : open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
        }
    }
    errno = ENOTTY;
    return -1;
}

/* Makes the file for the program's output. The program's descriptor appends, so that the output of
 * several processes is not overwritten. */
static int open_output(struct ag_live *live, const char *folder) {
    char path[128];
    live->program_fd = open(folder, O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    if (live->program_fd < 0) { /* the file system may have no unnamed files */
        (void)snprintf(path, sizeof(path), "%s/output", folder);
        live->program_fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (live->program_fd < 0) {
            return -errno;
        }
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", live->program_fd);
    live->output_fd = open(path, O_RDONLY | O_CLOEXEC);
    return live->output_fd < 0 ? -errno : 0;
}

static int make_folder(struct ag_live *live) {
    const char *folder = getenv("TMPDIR");
    const size_t length = folder ? strlen(folder) : 0;
    const bool fits = length > 0 && length < sizeof(live->folder) - 24 && folder[0] == '/';
    (void)snprintf(live->folder, sizeof(live->folder), "%s/allogram-live-XXXXXX",
                   fits ? folder : "/tmp");
    if (!mkdtemp(live->folder)) {
        live->folder[0] = '\0';
        return -errno;
    }
    return 0;
}

int ag_live_open(struct ag_live *live, enum ag_live_command command, char ret_message[512]) {
    char why[512];
    *live = AG_LIVE_NONE;
    live->command = command;
    const int terminal = open_terminal();
    if (terminal < 0) {
        return ag_error_message(ret_message, -errno,
                                "--live needs a terminal, and neither standard output nor standard "
                                "error is one; %s",
                                command == AG_LIVE_OBSERVE
                                    ? "observe without --live"
                                    : "record without --live, and read the recording so far with: "
                                      "allogram control PID dump");
    }
    const pid_t group = tcgetpgrp(terminal);
    int r = load_screen(ret_message);
    if (r < 0) {
        (void)close(terminal); /* nothing was written */
        return r;
    }
    r = check_terminal(terminal, why);
    if (r < 0) {
        r = ag_error_message(ret_message, r, "--live: %.480s", why);
    } else if (group >= 0 && group != getpgrp()) {
        r = ag_error_message(ret_message, -ENOTTY,
                             "--live: the command runs in the background; start it in the "
                             "foreground");
    } else if (tcgetattr(terminal, &live->before) < 0) {
        r = ag_error_message(ret_message, -errno, "--live: cannot read the terminal's settings: %s",
                             strerror(errno));
    } else {
        r = make_folder(live);
        r = r == 0 && command == AG_LIVE_RUN ? open_output(live, live->folder) : r;
        if (r < 0) {
            (void)ag_error_message(ret_message, r, "--live: cannot make files in %s: %s",
                                   live->folder[0] ? live->folder : "the folder of $TMPDIR",
                                   strerror(-r));
        }
    }
    live->terminal_fd = terminal;
    if (r < 0) {
        ag_live_stop(live);
    }
    return r;
}

/* ---- the screen ---- */

static bool take_snapshot(void *context, const char *path) {
    return ag_snapshot_take(context, path, TAKE_PATIENCE_MS, NULL, NULL);
}

static uint64_t cost_of_snapshot(void *context) {
    return ((const struct ag_snapshot_requests *)context)->cost_ns;
}

static _Noreturn void run_screen(struct ag_live *live, struct ag_snapshot_requests *requests,
                                 int control_fd) {
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTSTP, SIGTTIN,
                                  SIGTTOU, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM};
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (size_t i = 0; i < AG_ARRAY_SIZE(ignored); i++) {
        (void)sigaction(ignored[i], &ignore, NULL); /* cannot fail for these signals */
    }
    (void)sigaction(SIGCHLD, &usual, NULL);
    (void)sigaction(SIGTERM, &usual, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    ag_background_replace_by_null(STDIN_FILENO, STDERR_FILENO);
    int keep[] = {live->terminal_fd, live->output_fd, control_fd};
    const struct ag_live_show show = {.folder = live->folder,
                                      .name = live->name,
                                      .part = part_name,
                                      .terminal_fd = live->terminal_fd,
                                      .control_fd = control_fd,
                                      .output_fd = live->output_fd,
                                      .observes = live->command == AG_LIVE_OBSERVE,
                                      .take = take_snapshot,
                                      .take_cost_ns = cost_of_snapshot,
                                      .context = requests};
    ag_background_close_all_but(keep, AG_ARRAY_SIZE(keep));
    show_screen(&show);
    _exit(0);
}

int ag_live_start(struct ag_live *live, struct ag_snapshot_requests *requests, const char *trace) {
    int control[2];
    if (live->terminal_fd < 0) {
        return 0;
    }
    const char *slash = strrchr(trace, '/');
    (void)snprintf(live->name, sizeof(live->name), "%s", slash ? slash + 1 : trace);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) < 0) {
        return -errno;
    }
    live->screen = fork();
    if (live->screen == 0) {
        run_screen(live, requests, control[1]);
    }
    const int error = errno;
    (void)close(control[1]); /* nothing was written */
    if (live->screen < 0) {
        (void)close(control[0]);
        live->screen = 0;
        return -error;
    }
    live->control_fd = control[0];
    return 0;
}

/* ---- the terminal ---- */

static void write_terminal(const struct ag_live *live, const char *bytes, size_t length) {
    while (length > 0) {
        const ssize_t n = write(live->terminal_fd, bytes, length);
        if (n < 0 && errno != EINTR) {
            return; /* the terminal was closed */
        }
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
}

static void copy_output(const struct ag_live *live) {
    char bytes[COPY_BYTES];
    ssize_t n;
    while (live->output_fd >= 0 && (n = read(live->output_fd, bytes, sizeof(bytes))) > 0) {
        write_terminal(live, bytes, (size_t)n);
    }
}

/* Changing the settings of the terminal from the background would stop this process (SIGTTOU). */
static void restore_settings(const struct ag_live *live) {
    sigset_t set, before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTTOU);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    (void)tcsetattr(live->terminal_fd, TCSADRAIN, &live->before); /* fails if it was closed */
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Ends the screen, which may have ended already. Returns its status, in the encoding of wait(2). */
static int end_screen(struct ag_live *live) {
    int status = 0;
    ag_descriptor_close(live->control_fd);
    live->control_fd = -1;
    while (waitpid(live->screen, &status, 0) < 0 && errno == EINTR) {
    }
    live->screen = 0;
    if (WIFSIGNALED(status)) {
        write_terminal(live, reset_text, sizeof(reset_text) - 1);
    }
    restore_settings(live);
    return status;
}

int ag_live_step(struct ag_live *live) {
    if (live->terminal_fd < 0) {
        return -1;
    }
    struct pollfd polled = {.fd = live->control_fd, .events = POLLIN};
    char message = 0;
    if (live->screen > 0 && poll(&polled, 1, 0) > 0 && read(live->control_fd, &message, 1) <= 0) {
        const int status = end_screen(live);
        const char *next = live->command == AG_LIVE_OBSERVE ? "the observation ends, too"
                                                            : "the recording continues";
        if (WIFSIGNALED(status)) {
            ag_say("signal %d ended the screen; %s", WTERMSIG(status), next);
        } else if (!live->is_quiet) {
            ag_say("the screen is closed; %s", next);
        }
    }
    if (live->screen > 0) {
        return -1;
    }
    copy_output(live);
    return live->output_fd >= 0 ? OUTPUT_INTERVAL_MS : -1;
}

void ag_live_leave(struct ag_live *live) {
    char message = AG_LIVE_LEAVE;
    struct pollfd polled = {.fd = live->control_fd, .events = POLLIN};
    if (live->screen <= 0 || send(live->control_fd, &message, 1, MSG_NOSIGNAL) != 1) {
        return;
    }
    if (poll(&polled, 1, LEAVE_PATIENCE_MS) <= 0) {
        restore_settings(live);
    }
}

void ag_live_return(struct ag_live *live) {
    char message = AG_LIVE_RETURN;
    if (live->screen > 0) {
        /* if the screen has ended, ag_live_step notices it */
        (void)send(live->control_fd, &message, 1, MSG_NOSIGNAL);
    }
}

void ag_live_remove_files(const struct ag_live *live) {
    char path[AG_LIVE_PATH_BYTES + sizeof(live->folder) + 1];
    const char *const names[] = {live->name, part_name, ".part.part"}; /* the unfinished snapshot */
    for (size_t i = 0; live->folder[0] && live->name[0] && i < AG_ARRAY_SIZE(names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", live->folder, names[i]);
        (void)unlink(path); /* most do not exist */
    }
    (void)rmdir(live->folder); /* fails if there is no folder */
}

void ag_live_stop(struct ag_live *live) {
    if (live->terminal_fd < 0) {
        return;
    }
    if (live->screen > 0) {
        (void)end_screen(live);
    }
    copy_output(live);
    ag_live_remove_files(live);
    ag_descriptor_close(live->output_fd);
    ag_descriptor_close(live->program_fd);
    (void)close(live->terminal_fd); /* a failed write was handled */
    *live = AG_LIVE_NONE;
}

size_t ag_live_descriptors(const struct ag_live *live, int ret_fds[AG_LIVE_DESCRIPTORS]) {
    const int fds[AG_LIVE_DESCRIPTORS] = {live->terminal_fd, live->control_fd, live->output_fd};
    size_t n = 0;
    for (size_t i = 0; i < AG_LIVE_DESCRIPTORS; i++) {
        if (fds[i] >= 0) {
            ret_fds[n++] = fds[i];
        }
    }
    return n;
}
