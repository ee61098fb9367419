/* background.c: detaches processes of allogram from the terminal and from the profiled program: the
 * writer (the process that writes the traces), the server of --serve, and the process that
 * continues after `attach` has ended. Signals that the terminal sends must not end these processes.
 * These processes also close or redirect the descriptors that they inherited: the reader of a pipe
 * waits until all processes have closed the write end. */
#include "cli/background.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void ag_background_begin(const char *name, const int *ignored) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t none;
    for (; *ignored != 0; ignored++) {
        (void)sigaction(*ignored, &ignore, NULL); /* cannot fail for these signals */
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid(); /* fails only for the leader of a process group, which a fresh child is not */
    (void)prctl(PR_SET_NAME, name);
}

bool ag_background_ignores_hangup(void) {
    struct sigaction now;
    return sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* Sets oom_score_adj to -900. With -1000 the kernel would not kill this process at all, and a
 * cgroup in which no other process is left to kill would stay at its limit forever. */
void ag_background_outlive_memory(void) {
    static const char last[] = "-900";
    char now[16] = "";
    const int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd >= 0 && read(fd, now, sizeof(now) - 1) > 0 && strtol(now, NULL, 10) > -900) {
        (void)!pwrite(fd, last, sizeof(last) - 1, 0); /* without the capability, nothing changes */
    }
    if (fd >= 0) {
        (void)close(fd); /* the file has no data of its own */
    }
}

static int by_value(const void *left, const void *right) {
    const int *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

static void close_from_to(unsigned from, unsigned to) {
    if (from > to || syscall(SYS_close_range, from, to, 0) == 0) {
        return;
    }
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_NOFILE, &limit); /* cannot fail for a known limit */
    for (unsigned fd = from; fd <= to && fd < limit.rlim_cur; fd++) {
        (void)close((int)fd); /* most descriptors are not open */
    }
}

void ag_background_close_all_but(int *keep, size_t count) {
    unsigned from = 3;
    qsort(keep, count, sizeof(*keep), by_value);
    for (size_t i = 0; i < count; i++) {
        if (keep[i] >= (int)from) {
            close_from_to(from, (unsigned)keep[i] - 1);
            from = (unsigned)keep[i] + 1;
        }
    }
    close_from_to(from, UINT32_MAX);
}

void ag_background_replace_by_null(int first, int last) {
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = first; fd <= last; fd++) {
        if (null_fd < 0) {
            (void)close(fd); /* this root folder has no /dev/null: FD stays closed */
        } else if (null_fd != fd) {
            (void)dup2(null_fd, fd); /* cannot fail: both descriptors are valid */
        }
    }
    if (null_fd > last) {
        (void)close(null_fd); /* nothing was written */
    }
}
