/* launch.c: starts the program of `run`: forks a child, which waits for permission and then
 * executes the program. The child is created before the trace, because the name of the trace
 * contains the pid of the child. The child executes the program only after the trace was created.
 * Before it executes the program, the child restores every setting that allogram changed for
 * itself. */
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/own_stack.h"
#include "cli/target.h"
#include "writer/cut_files.h"

void ag_launch_guard_standard(void) {
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest closed descriptor */
    }
    if (fd > STDERR_FILENO) {
        (void)close(fd); /* all three are open now */
    }
}

static const int lifted[AG_LIFTED_LIMITS] = {RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_NOFILE};

void ag_launch_lift_limits(struct ag_launch *launch) {
    enum { FILES_ENOUGH = 1024 };
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGXFSZ, &ignore, &launch->file_size_signal); /* cannot fail for SIGXFSZ */
    for (size_t i = 0; i < AG_LIFTED_LIMITS; i++) {
        struct rlimit *before = &launch->limits[i];
        (void)getrlimit(lifted[i], before); /* cannot fail for a known limit */
        /* Linux allows no infinite number of open files, and allogram needs few */
        const rlim_t most = lifted[i] != RLIMIT_NOFILE        ? RLIM_INFINITY
                            : before->rlim_max > FILES_ENOUGH ? before->rlim_max
                                                              : FILES_ENOUGH;
        struct rlimit limit = {.rlim_cur = most, .rlim_max = most};
        if (setrlimit(lifted[i], &limit) < 0) {
            limit.rlim_cur = limit.rlim_max = before->rlim_max;
            /* on failure the size of the live segment is limited */
            (void)setrlimit(lifted[i], &limit);
        }
    }
}

static void restore_limits(const struct ag_launch *launch) {
    for (size_t i = 0; i < AG_LIFTED_LIMITS; i++) {
        (void)setrlimit(lifted[i], &launch->limits[i]); /* lowering is always allowed */
    }
    (void)sigaction(SIGXFSZ, &launch->file_size_signal, NULL); /* cannot fail for SIGXFSZ */
    ag_own_stack_restore();
}

/* Sets LD_PRELOAD to the agent, followed by a colon and the previous value, and sets the variables
 * that the agent reads. If a recorded program executes `run`, LD_PRELOAD contains the agent
 * already; then the agent is not added again. */
static int set_environment(const struct ag_launch *launch) {
    const char *before = getenv("LD_PRELOAD");
    if (!before || !strstr(before, launch->agent)) {
        char *preload = NULL;
        const char *separator = before && *before ? ":" : "";
        if (asprintf(&preload, "%s%s%s", launch->agent, separator, before ? before : "") < 0 ||
            setenv("LD_PRELOAD", preload, /* overwrite= */ 1) < 0) {
            return -ENOMEM;
        }
        free(preload);
    }
    if (launch->adapters && setenv("ALLOGRAM_ADAPTERS", launch->adapters, /* overwrite= */ 1) < 0) {
        return -ENOMEM;
    }
    if ((launch->functions[0] &&
         setenv("ALLOGRAM_TRACE", launch->functions, /* overwrite= */ 1) < 0) ||
        (launch->processes[0] &&
         setenv("ALLOGRAM_PROCESS", launch->processes, /* overwrite= */ 1) < 0)) {
        return -ENOMEM;
    }
    if (launch->has_calls && setenv("ALLOGRAM_CALLS", "yes", /* overwrite= */ 1) < 0) {
        return -ENOMEM;
    }
    return setenv("ALLOGRAM_SESSION", launch->session_path, /* overwrite= */ 1) < 0 ? -ENOMEM : 0;
}

/* A service manager sets variables that are meant for one process and contain its pid: LISTEN_PID
 * (sd_listen_fds(3)) and WATCHDOG_PID (sd_watchdog_enabled(3)). If the pid is that of `run`, the
 * variable is meant for the program, and gets the program's pid. */
static int correct_pids(void) {
    static const char *const names[] = {"LISTEN_PID", "WATCHDOG_PID"};
    char own[16], pid[16];
    (void)snprintf(own, sizeof(own), "%d", (int)getppid());
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    for (size_t i = 0; i < AG_ARRAY_SIZE(names); i++) {
        const char *value = getenv(names[i]);
        if (value && strcmp(value, own) == 0 && setenv(names[i], pid, /* overwrite= */ 1) < 0) {
            return -ENOMEM;
        }
        if (value && strcmp(names[i], "LISTEN_PID") == 0) {
            /* LISTEN_PIDFDID identifies the process by its pidfd, so it would be wrong; programs
             * work without this variable */
            (void)unsetenv("LISTEN_PIDFDID");
        }
    }
    return 0;
}

static int execute_program(const struct ag_launch *launch) {
    execv(launch->path, launch->arguments);
    if (errno != ENOEXEC) {
        return errno;
    }
    size_t count = 0; /* as execvp does: executes a file of unknown format as a shell script */
    while (launch->arguments[count]) {
        count++;
    }
    const char **arguments = calloc(count + 2, sizeof(*arguments));
    if (!arguments) {
        return ENOMEM;
    }
    arguments[0] = "/bin/sh";
    arguments[1] = launch->path;
    for (size_t i = 1; i < count; i++) {
        arguments[i + 1] = launch->arguments[i];
    }
    execv("/bin/sh", (char *const *)arguments);
    return errno;
}

/* Replaces those standard descriptors of the program that are the terminal, because only the screen
 * of --live may use the terminal. */
static void replace_terminal(int output_fd) {
    const int null_fd = isatty(STDIN_FILENO) ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (null_fd >= 0) {
        (void)dup2(null_fd, STDIN_FILENO); /* dup2 cannot fail here and below */
    }
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (isatty(fd)) {
            (void)dup2(output_fd, fd);
        }
    }
}

static _Noreturn void run_child(const struct ag_launch *launch, int go_fd, int status_fd) {
    char go = 0;
    ssize_t n = 0;
    do {
        n = read(go_fd, &go, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1) {
        _exit(AG_EXIT_NOT_FOUND); /* the parent has called ag_launch_abandon */
    }
    int error = -set_environment(launch);
    error = error == 0 ? -correct_pids() : error;
    ag_cut_files_unguard();
    if (error == 0) {
        if (launch->output_fd >= 0) {
            replace_terminal(launch->output_fd);
        }
        restore_limits(launch);
        error = execute_program(launch);
    }
    /* if the write fails, the error is not reported: there is no other way */
    (void)!write(status_fd, &error, sizeof(error));
    _exit(AG_EXIT_NOT_FOUND);
}

int ag_launch_prepare(struct ag_launch *launch) {
    int go[2], status[2];
    if (pipe2(go, O_CLOEXEC) < 0) {
        return -errno;
    }
    if (pipe2(status, O_CLOEXEC) < 0) {
        const int r = -errno;
        (void)close(go[0]); /* nothing was written, here and below */
        (void)close(go[1]);
        return r;
    }
    launch->pid = fork();
    if (launch->pid == 0) {
        (void)close(go[1]);
        (void)close(status[0]);
        run_child(launch, go[0], status[1]);
    }
    const int error = errno;
    (void)close(go[0]);
    (void)close(status[1]);
    launch->go_fd = go[1];
    launch->status_fd = status[0];
    if (launch->pid < 0) {
        (void)close(go[1]);
        (void)close(status[0]);
        return -error;
    }
    return 0;
}

static void reap_program(const struct ag_launch *launch) {
    while (waitpid(launch->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

int ag_launch_go(struct ag_launch *launch) {
    int error = 0;
    ssize_t n = 0;
    /* if the child was killed, the write fails, and the read below finds the end of the pipe */
    (void)!write(launch->go_fd, "g", 1);
    (void)close(launch->go_fd);
    do {
        n = read(launch->status_fd, &error, sizeof(error));
    } while (n < 0 && errno == EINTR);
    (void)close(launch->status_fd); /* nothing was written */
    if (n != (ssize_t)sizeof(error)) {
        return 0; /* a successful exec has closed the pipe */
    }
    reap_program(launch);
    return error;
}

void ag_launch_abandon(struct ag_launch *launch) {
    (void)close(launch->go_fd); /* no byte was written, so the child exits */
    (void)close(launch->status_fd);
    reap_program(launch);
}
