/* kernel_log.c: reads /dev/kmsg. Users without the capability CAP_SYSLOG cannot open it, unless
 * kernel.dmesg_restrict is 0.
 *
 * A record of /dev/kmsg is PRIORITY,SEQUENCE,TIME,FLAGS;MESSAGE. Messages that a process wrote have
 * a facility (PRIORITY / 8) other than 0. The kernel writes two lines about a kill:
 *
 *     oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/x,task_memcg=/x/y,task=NAME,pid=1,uid=0
 *     Memory cgroup out of memory: Killed process 1 (NAME) total-vm:9kB, anon-rss:9kB, ...
 *
 * The first line is left out if there are many kills. The second line is always written, and before
 * the process has ended: while the kernel writes the line, it holds a lock that the process needs
 * in order to end. NAME may contain any text, so the fields before it are read from the left and
 * those after it from the right. Pids are those of the initial PID namespace, so the log is of no
 * use to a writer in another namespace. */
#include "kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "process_watch.h"

enum {
    INITIAL_PID_NAMESPACE = 0xeffffffc, /* inode of the initial PID namespace (PROC_PID_INIT_INO) */
    RECORD_BYTES = 8192                 /* the kernel's largest record (CONSOLE_EXT_LOG_MAX) */
};

void ag_kernel_log_open(struct ag_kernel_log *log, uint64_t not_before_us) {
    const bool has_pids = ag_process_own_namespace() == INITIAL_PID_NAMESPACE;
    *log = (struct ag_kernel_log){.fd = -1, .not_before_us = not_before_us};
    log->fd = has_pids ? open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (log->fd >= 0 && not_before_us == 0) {
        (void)lseek(log->fd, 0, SEEK_END); /* cannot fail for this device */
    }
}

void ag_kernel_log_close(struct ag_kernel_log *log) {
    ag_descriptor_close(log->fd);
    log->fd = -1;
}

static bool begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Returns the last occurrence of WHAT in TEXT; NULL: there is none. */
static const char *find_last(const char *text, const char *what) {
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, what)); at++) {
        found = at;
    }
    return found;
}

static uint64_t kib_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Reads the line "oom-kill:", which says why the kernel kills a process, and which cgroup is
 * full. */
static void take_announcement(struct ag_kernel_log *log, const char *message) {
    static const char key[] = ",oom_memcg=";
    struct ag_kernel_log_kill *kill = &log->announced;
    const char *pid = find_last(message, ",pid="), *cgroup = strstr(message, key);
    const char *end = cgroup ? strstr(cgroup, ",task_memcg=") : NULL;
    *kill =
        (struct ag_kernel_log_kill){.pid = pid ? (uint32_t)strtoul(pid + 5, NULL, 10) : 0,
                                    .reason = end ? AG_KILL_REASON_CGROUP : AG_KILL_REASON_MACHINE};
    const size_t length = end ? (size_t)(end - cgroup) - (sizeof(key) - 1) : 0;
    if (length > 0 && length < sizeof(kill->cgroup)) {
        memcpy(kill->cgroup, cgroup + sizeof(key) - 1, length);
        kill->cgroup[length] = '\0';
    }
}

static void take_kill(struct ag_kernel_log *log, const char *message, uint64_t time_us) {
    static const char killed[] = "Killed process ";
    const char *pid = strstr(message, killed), *sizes = find_last(message, " total-vm:");
    if (!pid || !sizes) {
        return;
    }
    struct ag_kernel_log_kill *kill = &log->kills[log->n_kills++ % AG_KERNEL_LOG_KILLS];
    const uint32_t number = (uint32_t)strtoul(pid + sizeof(killed) - 1, NULL, 10);
    *kill = (struct ag_kernel_log_kill){.reason = AG_KILL_REASON_UNKNOWN};
    if (log->announced.pid == number) {
        *kill = log->announced;
    } else if (begins_with(message, "Memory cgroup")) {
        kill->reason = AG_KILL_REASON_CGROUP;
    } else if (begins_with(message, "Out of memory")) {
        kill->reason = AG_KILL_REASON_MACHINE;
    }
    kill->pid = number;
    kill->time_us = time_us;
    kill->anonymous_bytes = kib_after(sizes, "anon-rss:");
    kill->file_bytes = kib_after(sizes, "file-rss:");
    kill->shmem_bytes = kib_after(sizes, "shmem-rss:");
    log->announced = (struct ag_kernel_log_kill){0};
}

void ag_kernel_log_take(struct ag_kernel_log *log, const char *record) {
    unsigned priority;
    unsigned long long time_us;
    const char *message = strchr(record, ';');
    if (!message || sscanf(record, "%u,%*u,%llu", &priority, &time_us) != 2) {
        return;
    }
    log->gap_us = log->has_gap ? time_us : log->gap_us;
    log->has_gap = false;
    if (priority >= 8 || time_us < log->not_before_us) {
        return;
    }
    message++;
    if (begins_with(message, "oom-kill:")) {
        take_announcement(log, message);
    } else if (begins_with(message, "Memory cgroup out of memory") ||
               begins_with(message, "Out of memory") || begins_with(message, "Killed process ")) {
        take_kill(log, message, time_us);
    }
}

/* Reads the new messages. */
static void read_new(struct ag_kernel_log *log) {
    char record[RECORD_BYTES];
    for (;;) {
        const ssize_t n = log->fd < 0 ? -1 : read(log->fd, record, sizeof(record) - 1);
        if (n > 0) {
            record[n] = '\0';
            ag_kernel_log_take(log, record);
        } else if (n < 0 && log->fd >= 0 && errno == EPIPE) {
            log->has_gap = true; /* the next read continues after the gap */
        } else if (n == 0 || log->fd < 0 || errno != EINTR) {
            return; /* EAGAIN: there are no more messages */
        }
    }
}

const struct ag_kernel_log_kill *ag_kernel_log_find(struct ag_kernel_log *log, uint32_t pid,
                                                    uint64_t since_us) {
    read_new(log);
    const size_t n_kept = log->n_kills < AG_KERNEL_LOG_KILLS ? log->n_kills : AG_KERNEL_LOG_KILLS;
    for (size_t i = 1; i <= n_kept; i++) { /* the latest first */
        const struct ag_kernel_log_kill *kill =
            &log->kills[(log->n_kills - i) % AG_KERNEL_LOG_KILLS];
        if (kill->pid == pid && kill->time_us >= since_us) {
            return kill;
        }
    }
    return NULL;
}
