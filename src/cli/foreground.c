/* foreground.c: the foreground process of `attach` and `control` (foreground.h). It only passes
 * signals on to the worker, and waits for the worker's end or for the status that the worker sends
 * through a socket. */
#include "cli/foreground.h"

#include <errno.h>
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

static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
                                SIGUSR2, SIGALRM, SIGCONT, SIGWINCH, SIGTSTP};

static struct worker {
    int fd;               /* to the foreground process; -1: there is none */
    _Atomic int has_left; /* ag_foreground_leave was called */
} worker = {.fd = -1};

/* ---- the foreground process ---- */

/* Stops this process as Ctrl-Z does. In a process group that no shell controls (an orphaned one),
 * the kernel ignores SIGTSTP, and this function returns at once. */
static void stop_as_terminal(void) {
    sigset_t set, before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTSTP);
    (void)raise(SIGTSTP); /* blocked: it takes effect when it is unblocked */
    (void)sigprocmask(SIG_UNBLOCK, &set, &before);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Waits for the worker as long as it runs. Ends this process if the worker has ended. */
static void look_at_worker(pid_t pid) {
    int status = 0;
    if (waitpid(pid, &status, WUNTRACED | WNOHANG) != pid) {
        return;
    }
    if (WIFSTOPPED(status)) {
        stop_as_terminal();
        (void)kill(pid, SIGCONT);
    } else if (WIFEXITED(status)) {
        _exit(WEXITSTATUS(status));
    } else {
        _exit(ag_fail(AG_EXIT_OWN_FAILURE,
                      "the process that does the work was ended by signal %d; attach again to "
                      "remove the agent if it stays in the program",
                      WTERMSIG(status)));
    }
}

static _Noreturn void wait_for_worker(pid_t pid, int fd, const sigset_t *set) {
    struct pollfd fds[] = {{.fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};
    for (;;) {
        int status = 0;
        struct signalfd_siginfo info;
        look_at_worker(pid);
        if (poll(fds, AG_ARRAY_SIZE(fds), -1) < 0 && errno != EINTR) {
            _exit(AG_EXIT_OWN_FAILURE);
        }
        if (fds[1].revents != 0) {
            if (read(fd, &status, sizeof status) == (ssize_t)sizeof status) {
                _exit(status);
            }
            fds[1].fd = -1; /* the worker is ending */
        }
        while (read(fds[0].fd, &info, sizeof info) == (ssize_t)sizeof info) {
            if (info.ssi_signo != SIGCHLD) {
                (void)kill(pid, (int)info.ssi_signo);
            }
        }
    }
}

/* ---- both ---- */

int ag_foreground_begin(const char *name) {
    int ends[2];
    sigset_t set, before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < AG_ARRAY_SIZE(passed_on); i++) {
        (void)sigaddset(&set, passed_on[i]);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return -errno;
    }
    /* blocked before the fork, so that no signal ends one of the two alone */
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid > 0) {
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)sigaction(SIGCHLD, &usual, NULL); /* if it is ignored, the worker leaves no status */
        (void)close(ends[1]);                   /* nothing was written */
        wait_for_worker(pid, ends[0], &set);
    }
    const int error = errno;
    (void)close(ends[0]); /* nothing was written */
    if (pid < 0) {
        (void)close(ends[1]);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return -error;
    }
    (void)setsid(); /* cannot fail in a fresh child */
    (void)prctl(PR_SET_NAME, name);
    worker.fd = ends[1];
    return 0;
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
