/* process_watch.c: pidfds where the kernel has them (5.3), /proc for the rest.
 *
 * A process in another pid namespace (a container that the program made) tells a number that means
 * nothing to us, or somebody else. It tells its namespace too; who in our /proc is in that
 * namespace and has that number there (the last of NSpid in its status) is the process. */
#include "process_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int open_proc(uint32_t pid, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A small file, NUL-terminated. false: gone. */
static bool read_small(int fd, char *text, size_t capacity) {
    const ssize_t n = fd < 0 ? -1 : pread(fd, text, capacity - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

void ag_process_watch_start(struct ag_process_watch *watch, uint32_t pid) {
    watch->pid = pid;
    watch->pidfd = pid == 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    watch->statm_fd = open_proc(pid, "statm");
}

void ag_process_watch_done(struct ag_process_watch *watch) {
    if (watch->pidfd >= 0) {
        (void)close(watch->pidfd); /* nothing was written */
    }
    if (watch->statm_fd >= 0) {
        (void)close(watch->statm_fd); /* nothing was written */
    }
    *watch = (struct ag_process_watch){.pidfd = -1, .statm_fd = -1};
}

/* The fields of /proc/PID/stat behind the name, which may hold anything: from the state on. */
static const char *read_stat(uint32_t pid, char text[1024]) {
    const int fd = open_proc(pid, "stat");
    const bool is_there = read_small(fd, text, 1024);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    const char *behind_name = is_there ? strrchr(text, ')') : NULL;
    return behind_name && behind_name[1] == ' ' ? behind_name + 2 : NULL;
}

bool ag_process_watch_ended(const struct ag_process_watch *watch) {
    if (watch->pidfd >= 0) {
        struct pollfd ended = {.fd = watch->pidfd, .events = POLLIN};
        return poll(&ended, 1, 0) == 1;
    }
    char text[1024];
    const char *state = read_stat(watch->pid, text);
    return !state || *state == 'Z' || *state == 'X';
}

uint64_t ag_process_watch_rss_bytes(struct ag_process_watch *watch) {
    char text[128];
    unsigned long long resident_pages = 0;
    if (!read_small(watch->statm_fd, text, sizeof(text)) ||
        sscanf(text, "%*s %llu", &resident_pages) != 1) {
        return 0;
    }
    return resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The kernel's clock of the process goes by nanoseconds, what /proc says by hundredths of a second.
 */
uint64_t ag_process_watch_cpu_ns(const struct ag_process_watch *watch) {
    clockid_t clock;
    struct timespec spent = {0};
    if (watch->pid != 0 && clock_getcpuclockid((pid_t)watch->pid, &clock) == 0 &&
        clock_gettime(clock, &spent) == 0) {
        return (uint64_t)spent.tv_sec * 1000000000u + (uint64_t)spent.tv_nsec;
    }
    char text[1024];
    unsigned long long user = 0, system = 0;
    const char *fields = read_stat(watch->pid, text);
    if (!fields || sscanf(fields, "%*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user,
                          &system) != 2) {
        return 0;
    }
    return (user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* struct pidfd_info of linux/pidfd.h, as far as its first version goes; older headers lack it. */
struct pidfd_facts {
    uint64_t mask; /* in: what is asked for; out: what is there */
    uint64_t cgroup;
    uint32_t pid, tgid, parent, users[8];
    int32_t exit_code; /* there once the parent has waited for it */
};
_Static_assert(sizeof(struct pidfd_facts) == 64, "the kernel's");

static bool status_of_reaped(int pidfd, uint32_t *ret_status) {
    enum { EXIT_CODE = 1 << 3 };
    struct pidfd_facts facts = {.mask = EXIT_CODE};
    if (pidfd < 0 || ioctl(pidfd, _IOWR(0xff, 11, struct pidfd_facts), &facts) < 0 ||
        !(facts.mask & EXIT_CODE)) {
        return false;
    }
    *ret_status = (uint32_t)facts.exit_code;
    return true;
}

/* The last field. 0 is also what those are told who may not know. */
static bool status_of_zombie(uint32_t pid, uint32_t *ret_status) {
    char text[1024];
    const char *state = read_stat(pid, text);
    const char *last = state && *state == 'Z' ? strrchr(state, ' ') : NULL;
    const uint32_t status = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
    if (status == 0) {
        return false;
    }
    *ret_status = status;
    return true;
}

bool ag_process_watch_wait_status(const struct ag_process_watch *watch, uint32_t *ret_status) {
    return status_of_reaped(watch->pidfd, ret_status) || status_of_zombie(watch->pid, ret_status) ||
           status_of_reaped(watch->pidfd, ret_status); /* its parent came between */
}

bool ag_process_has_mapped(uint32_t pid, const char *path) {
    struct stat status;
    char text[1024], file[64];
    const char *state = read_stat(pid, text);
    if (!state || *state == 'Z' || *state == 'X') {
        return false;
    }
    if (stat(path, &status) < 0) {
        return true;
    }
    (void)snprintf(file, sizeof(file), "/proc/%u/maps", pid);
    FILE *maps = fopen(file, "re");
    if (!maps) {
        return errno != ENOENT && errno != ESRCH;
    }
    char *line = NULL;
    size_t capacity = 0;
    bool found = false, is_readable = false;
    while (!found && getline(&line, &capacity, maps) > 0) {
        unsigned long long inode = 0;
        is_readable = true;
        /* The inode alone: device numbers in maps differ from stat's on btrfs and overlays. The
         * name tells the rest. */
        found = sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1 && inode == status.st_ino &&
                strstr(line, ".allogram-live.") != NULL;
    }
    free(line);
    (void)fclose(maps); /* nothing was written */
    return found || !is_readable;
}

/* ---- processes in other pid namespaces ---- */

static uint64_t namespace_of(const char *process) {
    char path[64];
    struct stat status;
    (void)snprintf(path, sizeof(path), "/proc/%.32s/ns/pid", process);
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

uint64_t ag_process_own_namespace(void) {
    return namespace_of("self");
}

/* The number that the process knows itself by; 0: it is gone, or the kernel does not tell (4.1). */
static uint32_t own_number(uint32_t pid) {
    char file[64], *line = NULL;
    size_t capacity = 0;
    uint32_t number = 0;
    (void)snprintf(file, sizeof(file), "/proc/%u/status", pid);
    FILE *status = fopen(file, "re");
    while (status && getline(&line, &capacity, status) > 0) {
        if (strncmp(line, "NSpid:", 6) == 0) {
            const char *last = strrchr(line, '\t');
            number = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
            break;
        }
    }
    free(line);
    if (status) {
        (void)fclose(status); /* nothing was written */
    }
    return number;
}

uint32_t ag_process_know(uint32_t pid, uint64_t *ret_namespace) {
    char process[16];
    (void)snprintf(process, sizeof(process), "%u", pid);
    *ret_namespace = namespace_of(process);
    const uint32_t number = *ret_namespace != 0 ? own_number(pid) : 0;
    return number != 0 ? number : pid;
}

uint32_t ag_process_find(uint32_t pid, uint64_t namespace, const char *path) {
    const uint64_t own = ag_process_own_namespace();
    if (namespace == own || own == 0 || (namespace == 0 && ag_process_has_mapped(pid, path))) {
        return pid;
    }
    DIR *processes = opendir("/proc");
    uint32_t found = 0;
    for (struct dirent *entry; processes && !found && (entry = readdir(processes));) {
        const uint32_t candidate = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (candidate != 0 && (namespace == 0 || namespace_of(entry->d_name) == namespace) &&
            own_number(candidate) == pid && ag_process_has_mapped(candidate, path)) {
            found = candidate;
        }
    }
    if (processes) {
        (void)closedir(processes); /* nothing was written */
    }
    return found;
}
