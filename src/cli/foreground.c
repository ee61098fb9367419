/* foreground.c: the foreground process of `attach` and `control` (foreground.h). It passes signals
 * on to the worker, and waits for the worker's end, or for a status that the worker sends through a
 * socket. Such a status means that the foreground process ends now and the worker goes on. */
#include "cli/foreground.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/supervisor.h"

static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
                                SIGUSR2, SIGALRM, SIGCONT, SIGWINCH, SIGTSTP};

static struct worker {
    int fd;               /* to the foreground process; -1: there is none */
    _Atomic int has_left; /* ag_foreground_leave was called */
} worker = {.fd = -1};

/* ---- the foreground process ---- */

struct front {
    const char *name; /* of the worker */
    pid_t worker;
    int fd, signal_fd; /* fd: to the worker */
    bool passes_stop;  /* the worker stops itself on SIGTSTP */
    bool is_stopped;   /* the worker has stopped itself; it is continued when this process has the
                        * terminal */
};

/* Stops this process as Ctrl-Z does. In a process group that no shell controls (an orphaned one),
 * the kernel ignores SIGTSTP, and this function returns at once. */
static void stop_as_terminal(void) {
    const struct ag_supervisor without_screen = {.live = NULL};
    ag_supervisor_stop(&without_screen, SIGTSTP);
}

/* Whether the terminal, if there is one, belongs to this process' group. */
static bool has_terminal(void) {
    const int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    const pid_t group = fd >= 0 ? tcgetpgrp(fd) : -1;
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    return group < 0 || group == getpgrp();
}

/* Ends this process if the worker has ended. Stops this process if the worker has stopped. */
static void look_at_worker(struct front *front) {
    int status = 0;
    const pid_t r = waitpid(front->worker, &status, WUNTRACED | WNOHANG);
    if (r < 0 && errno == ECHILD) {
        _exit(AG_EXIT_OWN_FAILURE);
    } else if (r != front->worker) {
        return;
    }
    if (WIFSTOPPED(status)) {
        stop_as_terminal();
        front->is_stopped = true;
    } else if (WIFEXITED(status)) {
        _exit(WEXITSTATUS(status));
    } else {
        _exit(ag_fail(AG_EXIT_OWN_FAILURE,
                      "the worker process %s was ended by signal %d; attach again to "
                      "remove the agent if it stays in the program",
                      front->name, WTERMSIG(status)));
    }
}

static void pass_on(struct front *front, int number) {
    if (number == SIGTSTP && !front->passes_stop) {
        stop_as_terminal();
    } else if (number != SIGCHLD) {
        (void)kill(front->worker, number);
        if (front->is_stopped &&
            (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)) {
            front->is_stopped = false;
            (void)kill(front->worker, SIGCONT);
        }
    }
}

static _Noreturn void wait_for_worker(struct front *front) {
    enum { LOOK_MS = 100 }; /* while the worker is stopped: how often has_terminal is called */
    struct pollfd fds[] = {{.fd = front->signal_fd, .events = POLLIN},
                           {.fd = front->fd, .events = POLLIN}};
    for (;;) {
        int status = 0;
        struct signalfd_siginfo info;
        look_at_worker(front);
        if (front->is_stopped && has_terminal()) {
            front->is_stopped = false;
            (void)kill(front->worker, SIGCONT);
        }
        if (poll(fds, AG_ARRAY_SIZE(fds), front->is_stopped ? LOOK_MS : -1) < 0 && errno != EINTR) {
            _exit(AG_EXIT_OWN_FAILURE);
        }
        if (fds[1].revents != 0) {
            if (read(front->fd, &status, sizeof status) == (ssize_t)sizeof status) {
                _exit(status);
            }
            fds[1].fd = -1; /* the worker has closed the socket, and ends soon */
        }
        while (read(front->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
            pass_on(front, (int)info.ssi_signo);
        }
    }
}

/* ---- both ---- */

int ag_foreground_begin(const char *name, bool passes_stop) {
    const struct sigaction usual = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
    int ends[2];
    sigset_t set, before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < AG_ARRAY_SIZE(passed_on); i++) {
        (void)sigaddset(&set, passed_on[i]);
    }
    if (ag_background_ignores_hangup()) {
        (void)sigdelset(&set, SIGHUP);
    }
    const int signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return -errno;
    }
    /* if SIGCHLD is ignored, the worker leaves no status; SIGPIPE would end a worker that reports
     * to a closed pipe */
    (void)sigaction(SIGCHLD, &usual, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    /* blocked before the fork, so that each signal reaches the worker */
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid > 0) {
        struct front front = {.name = name,
                              .worker = pid,
                              .fd = ends[0],
                              .signal_fd = signal_fd,
                              .passes_stop = passes_stop};
        (void)close(ends[1]); /* nothing was written */
        wait_for_worker(&front);
    }
    const int error = errno;
    (void)close(ends[0]); /* nothing was written */
    (void)close(signal_fd);
    if (pid < 0) {
        (void)close(ends[1]);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return -error;
    }
    (void)setsid(); /* cannot fail in a fresh child */
    /* a stopped worker has to notice that the foreground process was killed */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
    (void)prctl(PR_SET_NAME, name);
    worker.fd = ends[1];
    return 0;
}

bool ag_foreground_was_killed(void) {
    struct pollfd end = {.fd = worker.fd};
    return worker.fd >= 0 && atomic_load(&worker.has_left) == 0 && poll(&end, 1, 0) > 0;
}

int ag_foreground_fd(void) {
    return worker.fd;
}

bool ag_foreground_leave(int status) {
    if (worker.fd < 0) {
        return false;
    }
    if (atomic_exchange(&worker.has_left, 1) == 0) {
        ag_background_replace_by_null(STDIN_FILENO, STDERR_FILENO);
        /* fails only if the foreground process was killed */
        (void)send(worker.fd, &status, sizeof status, MSG_NOSIGNAL);
    }
    return true;
}
