/* urgency.c: gives processes and threads a real-time priority, and takes it from them (urgency.h).
 * ag_urgency_hurry limits the CPU time by RLIMIT_RTTIME: when a thread reaches it, the kernel sends
 * SIGXCPU, and the handler takes the priority from all threads of the process. */
#include "cli/urgency.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HURRY_US = 300 * 1000 };

void ag_urgency_begin(void) {
    const struct sched_param first = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

void ag_urgency_end(void) {
    const struct sched_param none = {0};
    (void)sched_setscheduler(0, SCHED_OTHER, &none); /* a process may always lower its priority */
}

/* A signal handler, which may interrupt any code of the process; so it makes only system calls. */
static void end_hurry(int unused) {
    const struct sched_param none = {0};
    const int host_errno = errno;
    char entries[4096] __attribute__((aligned(8)));
    const int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n = 0;
    (void)unused;
    ag_urgency_end();
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            pid_t tid = 0;
            for (const char *digit = entry->d_name; *digit >= '0' && *digit <= '9'; digit++) {
                tid = tid * 10 + (*digit - '0');
            }
            (void)sched_setscheduler(tid, SCHED_OTHER, &none); /* 0, for ".": this thread */
            at += entry->d_reclen;
        }
    }
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    errno = host_errno;
}

void ag_urgency_allow(void) {
    const struct sigaction end = {.sa_handler = end_hurry, .sa_flags = SA_RESTART};
    (void)sigaction(SIGXCPU, &end, NULL); /* cannot fail for this signal */
}

void ag_urgency_hurry(pid_t pid) {
    const struct sched_param first = {.sched_priority = 1};
    struct rlimit limit;
    if (prlimit(pid, RLIMIT_RTTIME, NULL, &limit) < 0) {
        return;
    }
    limit.rlim_cur = limit.rlim_cur < HURRY_US ? limit.rlim_cur : HURRY_US;
    if (prlimit(pid, RLIMIT_RTTIME, &limit, NULL) == 0) {
        /* without SCHED_RESET_ON_FORK, so that threads that the process starts later have the
         * priority, too */
        (void)sched_setscheduler(pid, SCHED_RR, &first);
    }
}
