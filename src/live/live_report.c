/* live_report.c: the child processes of the screen. One child requests a trace of the recording so
 * far from the writer (the process that makes the traces). The other executes `allogram report` on
 * the last such trace. So the screen shows exactly the numbers of a report, it answers to keys
 * while a report is made, and an error in a report does not end the screen. */
#include "live/live_report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    STATUS_NO_TRACE = 77,       /* a status with which `report` does not exit */
    TEXT_BYTES_MOST = 16 << 20, /* a report has at most some hundred lines */
    READ_BYTES = 64 << 10,
};

/* Takes a trace of the recording so far. The trace gets its final name when it is complete, so a
 * report on the previous trace can be made at any time. */
static bool take_trace(const struct ag_live_show *show) {
    char part[4096], path[4096];
    if ((size_t)snprintf(part, sizeof(part), "%s/%s", show->folder, show->part) >= sizeof(part) ||
        (size_t)snprintf(path, sizeof(path), "%s/%s", show->folder, show->name) >= sizeof(path)) {
        return false;
    }
    (void)unlink(part); /* may remain from a request that failed */
    return show->take(show->context, part) && rename(part, path) == 0;
}

static _Noreturn void run_child(const struct ag_live_show *show,
                                const struct ag_live_question *question, int output_fd) {
    const char *words[AG_LIVE_ARGUMENTS_MOST + 4] = {"allogram", "report", show->name};
    char columns[16];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail for a valid signal */
    (void)close(show->control_fd);          /* otherwise the command would not notice the end of the
                                             * screen while the child runs */
    if (!question) {
        _exit(take_trace(show) ? 0 : STATUS_NO_TRACE);
    }
    (void)dup2(output_fd, STDOUT_FILENO); /* cannot fail: both descriptors are valid */
    (void)dup2(output_fd, STDERR_FILENO);
    for (size_t i = 0; question->arguments[i]; i++) {
        words[3 + i] = question->arguments[i];
    }
    (void)snprintf(columns, sizeof(columns), "%u", question->columns);
    /* The trace is named without its folder, so that the commands that the report recommends are
     * also valid for the trace of the whole recording, which has the same name. */
    if (setenv("COLUMNS", columns, /* overwrite= */ 1) == 0 && chdir(show->folder) == 0) {
        (void)execv("/proc/self/exe", (char *const *)(uintptr_t)words);
    }
    _exit(STATUS_NO_TRACE);
}

int ag_live_child_start(struct ag_live_child *child, const struct ag_live_show *show,
                        const struct ag_live_question *question) {
    int output[2];
    if (pipe2(output, O_CLOEXEC) < 0) {
        return -errno;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        run_child(show, question, output[1]);
    }
    const int error = errno;
    (void)close(output[1]); /* nothing was written */
    if (pid < 0) {
        (void)close(output[0]);
        return -error;
    }
    (void)fcntl(output[0], F_SETFL, O_NONBLOCK); /* cannot fail for a pipe */
    child->pid = pid;
    child->fd = output[0];
    child->begun_ns = ag_monotonic_ns();
    child->used = 0;
    return 0;
}

/* Makes room for READ_BYTES more bytes. */
static bool make_room(struct ag_live_child *child) {
    if (child->size - child->used >= READ_BYTES) {
        return true;
    }
    const size_t size = child->size + child->size / 2 + 2 * READ_BYTES;
    char *text = size <= TEXT_BYTES_MOST ? realloc(child->text, size) : NULL;
    if (text) {
        child->text = text;
        child->size = size;
    }
    return text != NULL;
}

static uint64_t time_ns(const struct timeval *time) {
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_usec * 1000u;
}

static int reap_child(struct ag_live_child *child) {
    int status = 0;
    struct rusage usage = {0};
    while (wait4(child->pid, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    child->cpu_ns = time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime);
    (void)close(child->fd); /* only read from */
    child->pid = 0;
    child->took_ns = ag_monotonic_ns() - child->begun_ns;
    return status;
}

bool ag_live_child_read(struct ag_live_child *child, enum ag_live_outcome *ret_outcome) {
    char unused[4096];
    for (;;) {
        const bool has_room = make_room(child);
        const ssize_t n =
            read(child->fd, has_room ? child->text + child->used : unused,
                 has_room ? READ_BYTES : sizeof(unused)); /* the rest of a long text is dropped */
        if (n > 0) {
            child->used += has_room ? (size_t)n : 0;
        } else if (n == 0) {
            break;
        } else if (errno != EINTR) {
            return false; /* EAGAIN: nothing to read now */
        }
    }
    const int status = reap_child(child);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_NO_TRACE;
    *ret_outcome = code == 0                 ? AG_LIVE_DONE
                   : code == STATUS_NO_TRACE ? AG_LIVE_NO_TRACE
                                             : AG_LIVE_REFUSED;
    return true;
}

void ag_live_child_kill(struct ag_live_child *child) {
    if (child->pid > 0) {
        (void)kill(child->pid, SIGKILL); /* cannot fail: the child was not reaped */
        (void)reap_child(child);
    }
}
