/* process_watch.c: watches processes by pidfd if the kernel has pidfds (since 5.3), and by /proc
 * otherwise.
 *
 * A process reports its pid in its own PID namespace. To find its pid in the writer's namespace,
 * /proc is searched, unless the reported namespace is certainly the writer's. But /proc may not
 * show enough: if a process is not dumpable, other processes of its user cannot read its namespace
 * and its mappings, and a /proc mounted with hidepid may not list the process at all. So each
 * process that meets all of these conditions is a candidate for the process that is sought:
 *
 *     the last number of NSpid in its status, which every user can read, is the reported pid. If
 *         no pid was reported: the candidate is no other recorded process;
 *     it started no earlier than the session;
 *     its namespace is the reported one, if both are known, and the reported one is not only
 *         inherited from the parent;
 *     its mappings include the live file, if they can be read. If they cannot be read, and no pid
 *         was reported: its parent is the known parent of the sought process.
 *
 * A candidate whose pid and namespace are certainly the reported ones is the sought process. If
 * there is no such candidate, and /proc does not show all processes, the result is unclear. If
 * /proc shows all processes:
 *
 *     no candidate         the sought process has ended
 *     one candidate        it is the sought process if the parent of the sought process is unknown,
 *                          has ended, or is the candidate's parent. Otherwise the result is
 *                          unclear: the candidate may be another process of the session
 *     several candidates   the only child of the known parent is the sought process; if there is no
 *                          such child, the result is unclear */
#include "process_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "format/segment.h"

static int open_proc(uint32_t pid, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads a small file and terminates it with NUL. Returns the number of bytes; 0: the file is
 * gone. */
static size_t read_small(int fd, char *text, size_t capacity) {
    const ssize_t n = fd < 0 ? -1 : pread(fd, text, capacity - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

void ag_process_watch_start(struct ag_process_watch *watch, uint32_t pid) {
    watch->pid = pid;
    watch->pidfd = pid == 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    watch->statm_fd = open_proc(pid, "statm");
}

void ag_process_watch_done(struct ag_process_watch *watch) {
    ag_descriptor_close(watch->pidfd);
    ag_descriptor_close(watch->statm_fd);
    *watch = (struct ag_process_watch){.pidfd = -1, .statm_fd = -1};
}

size_t ag_process_file_read(uint32_t pid, const char *name, char *text, size_t capacity) {
    const int fd = open_proc(pid, name);
    const size_t n = read_small(fd, text, capacity);
    ag_descriptor_close(fd);
    return n;
}

/* Returns the fields of /proc/PID/stat after the name, which may contain any bytes. The first field
 * is the process' state. */
static const char *read_stat(uint32_t pid, char text[1024]) {
    const char *behind_name =
        ag_process_file_read(pid, "stat", text, 1024) > 0 ? strrchr(text, ')') : NULL;
    return behind_name && behind_name[1] == ' ' ? behind_name + 2 : NULL;
}

struct process_facts { /* from /proc/PID/status */
    uint32_t own_pid;  /* 0: the kernel does not report it (before 4.1) */
    /* number of PID namespaces from the writer's to the process' own, both included; 1: the process
     * is in the writer's namespace */
    uint32_t n_levels;
    uint32_t parent;
    bool is_over; /* all of its threads have ended */
};

static bool read_facts(uint32_t pid, struct process_facts *ret_facts) {
    char file[64], *line = NULL;
    size_t capacity = 0;
    bool is_zombie = false;
    unsigned n_threads = 1;
    *ret_facts = (struct process_facts){0};
    (void)snprintf(file, sizeof(file), "/proc/%u/status", pid);
    FILE *status = fopen(file, "re");
    if (!status) {
        return false;
    }
    while (getline(&line, &capacity, status) > 0) {
        const char *last = strrchr(line, '\t');
        if (strncmp(line, "State:", 6) == 0) {
            is_zombie = strchr(line, 'Z') || strchr(line, 'X');
        } else if (strncmp(line, "PPid:", 5) == 0) {
            ret_facts->parent = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
        } else if (strncmp(line, "NSpid:", 6) == 0) {
            ret_facts->own_pid = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
            for (const char *at = line; *at; at++) {
                ret_facts->n_levels += *at == '\t';
            }
        } else if (strncmp(line, "Threads:", 8) == 0) {
            n_threads = last ? (unsigned)strtoul(last, NULL, 10) : 1;
            break; /* the last field that is needed */
        }
    }
    free(line);
    (void)fclose(status); /* nothing was written */
    /* a main thread may end before the other threads */
    ret_facts->is_over = is_zombie && n_threads <= 1;
    return true;
}

bool ag_process_is_leaving(uint32_t pid) {
    enum { EXITING = 4 }; /* PF_EXITING in the kernel's flags */
    char text[1024];
    unsigned flags = 0;
    const char *state = read_stat(pid, text);
    return !state || *state == 'X' || sscanf(state, "%*c %*d %*d %*d %*d %*d %u", &flags) != 1 ||
           (flags & EXITING) != 0;
}

bool ag_process_watch_ended(const struct ag_process_watch *watch) {
    if (watch->pidfd >= 0) {
        struct pollfd ended = {.fd = watch->pidfd, .events = POLLIN};
        return poll(&ended, 1, 0) == 1;
    }
    struct process_facts facts;
    return !read_facts(watch->pid, &facts) || facts.is_over;
}

uint64_t ag_process_watch_rss_bytes(struct ag_process_watch *watch) {
    char text[128];
    unsigned long long resident_pages = 0;
    if (read_small(watch->statm_fd, text, sizeof(text)) == 0 ||
        sscanf(text, "%*s %llu", &resident_pages) != 1) {
        return 0;
    }
    return resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool ag_process_memory(uint32_t pid, struct ag_process_memory *ret_memory) {
    enum { SIGKILL_BIT = 1 << (SIGKILL - 1) };
    char text[4096];
    struct ag_process_memory memory = {0};
    struct {
        const char *key;
        uint64_t *bytes;
    } rows[] = {{"\nRssAnon:", &memory.anonymous_bytes},
                {"\nRssFile:", &memory.file_bytes},
                {"\nRssShmem:", &memory.shmem_bytes},
                {"\nVmSwap:", &memory.swap_bytes}};
    if (pid == 0 || ag_process_file_read(pid, "status", text, sizeof(text)) == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *at = strstr(text, rows[i].key);
        if (!at) {
            return false; /* the process has freed its address space (or the kernel is older than
                           * 4.5) */
        }
        *rows[i].bytes = strtoull(at + strlen(rows[i].key), NULL, 10) * 1024;
    }
    const char *const pending[] = {"\nSigPnd:", "\nShdPnd:"};
    for (size_t i = 0; i < sizeof(pending) / sizeof(pending[0]); i++) {
        const char *at = strstr(text, pending[i]);
        if (at && (strtoull(at + strlen(pending[i]), NULL, 16) & SIGKILL_BIT) != 0) {
            return false;
        }
    }
    *ret_memory = memory;
    return true;
}

/* Returns the CPU time of the process. The kernel's CPU clock of the process counts nanoseconds. If
 * the kernel has no such clock, the time is read from /proc, which counts hundredths of a
 * second. */
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

void ag_process_own_usage(uint64_t *ret_cpu_ns, uint64_t *ret_max_rss_bytes) {
    struct rusage own = {0};
    (void)getrusage(RUSAGE_SELF, &own); /* cannot fail */
    *ret_cpu_ns = (uint64_t)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) * 1000000000u +
                  (uint64_t)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) * 1000u;
    *ret_max_rss_bytes = (uint64_t)own.ru_maxrss * 1024;
}

/* The first version of struct pidfd_info of linux/pidfd.h, which older headers lack. */
struct pidfd_facts {
    uint64_t mask; /* in: what is requested; out: what is filled */
    uint64_t cgroup;
    uint32_t pid, tgid, parent, users[8];
    int32_t exit_code; /* valid once the parent has waited for the process */
};
_Static_assert(sizeof(struct pidfd_facts) == 64, "the kernel expects a structure of 64 bytes");

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

/* The wait status of a zombie is the last field of stat. The field is also 0 for a caller without
 * permission, so 0 counts as unknown. */
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
           /* the parent may have waited for the process meanwhile */
           status_of_reaped(watch->pidfd, ret_status);
}

/* Returns the folder and file name at the end of a live file's path. The name is random, so a
 * process that has mapped a file with this name has mapped this file, even if the file has another
 * path in the mount namespace of that process. (Device and inode numbers do not identify the file:
 * on btrfs and overlays, those in maps and those of stat differ.) */
static const char *live_name(const char *path) {
    const char *name = strstr(path, AG_LIVE_FOLDER_MARK);
    return name ? name : path;
}

enum answer { NO, YES, UNKNOWN };

static enum answer has_mapped(uint32_t pid, const char *path) {
    char file[64];
    (void)snprintf(file, sizeof(file), "/proc/%u/maps", pid);
    FILE *maps = fopen(file, "re");
    if (!maps) {
        return errno == ENOENT || errno == ESRCH ? NO : UNKNOWN;
    }
    char *line = NULL;
    size_t capacity = 0;
    bool found = false, is_readable = false;
    const char *name = live_name(path);
    while (!found && getline(&line, &capacity, maps) > 0) {
        is_readable = true;
        found = strstr(line, name) != NULL;
    }
    free(line);
    (void)fclose(maps); /* nothing was written */
    return found ? YES : is_readable ? NO : UNKNOWN;
}

/* ---- processes in other PID namespaces ---- */

static uint64_t inode_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

/* WHICH: "pid", or "pid_for_children", which differs after unshare or setns. 0: unknown. */
static uint64_t namespace_of(uint32_t pid, const char *which) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/ns/%s", pid, which);
    return inode_of(path);
}

uint64_t ag_process_own_namespace(void) {
    return inode_of("/proc/self/ns/pid");
}

bool ag_process_has_mapped(uint32_t pid, const char *path) {
    struct process_facts facts;
    return read_facts(pid, &facts) && !facts.is_over && has_mapped(pid, path) != NO;
}

uint32_t ag_process_own_pid(uint32_t pid, uint64_t *ret_namespace) {
    struct process_facts facts;
    *ret_namespace = namespace_of(pid, "pid");
    return *ret_namespace != 0 && read_facts(pid, &facts) && facts.own_pid != 0 ? facts.own_pid
                                                                                : pid;
}

/* Does /proc show every process? With hidepid it hides the processes of other users from an
 * ordinary user. */
static bool shows_all(void) {
    static enum answer known = UNKNOWN;
    if (known != UNKNOWN) {
        return known == YES;
    }
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    known = mounts ? YES : NO;
    while (mounts && getline(&line, &capacity, mounts) > 0) {
        const char *type = strstr(line, " - proc ");
        const char *hidden = type ? strstr(type, "hidepid=") : NULL;
        if (hidden && hidden[8] != '0' && strncmp(hidden + 8, "off", 3) != 0) {
            known = geteuid() == 0 ? YES : NO;
        }
    }
    free(line);
    if (mounts) {
        (void)fclose(mounts); /* nothing was written */
    }
    return known == YES;
}

uint64_t ag_process_boot_ticks(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_BOOTTIME, &now); /* cannot fail with this clock */
    const uint64_t a_second = (uint64_t)sysconf(_SC_CLK_TCK);
    return (uint64_t)now.tv_sec * a_second + (uint64_t)now.tv_nsec * a_second / 1000000000u;
}

uint64_t ag_process_start_ticks(uint32_t pid) {
    char text[1024];
    unsigned long long ticks = 0;
    const char *fields = read_stat(pid, text);
    const bool is_known =
        fields && sscanf(fields,
                         "%*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                         "%*s %llu",
                         &ticks) == 1;
    return is_known ? ticks : UINT64_MAX;
}

/* *ret_is_sure: the candidate is certainly the process that is sought, because the reported
 * namespace is certainly that of the candidate, and a pid is unique in one namespace. */
static bool is_candidate(const struct ag_process_sought *sought, uint32_t candidate,
                         struct process_facts *ret_facts, bool *ret_is_sure) {
    if (!read_facts(candidate, ret_facts) || ret_facts->is_over ||
        (sought->own_pid == 0
             ? sought->is_other(sought->context, candidate)
             : (ret_facts->own_pid != 0 ? ret_facts->own_pid : candidate) != sought->own_pid)) {
        return false;
    }
    if (sought->not_before_ticks > ag_process_start_ticks(candidate)) {
        return false;
    }
    const uint64_t namespace =
        ret_facts->n_levels == 1 ? ag_process_own_namespace() : namespace_of(candidate, "pid");
    if (namespace != 0 && sought->namespace != 0 && namespace != sought->namespace &&
        !sought->namespace_is_inherited) {
        return false;
    }
    const bool is_child = sought->parent != 0 && ret_facts->parent == sought->parent;
    *ret_is_sure = sought->own_pid != 0 && namespace != 0 && namespace == sought->namespace &&
                   (!sought->namespace_is_inherited || is_child);
    const enum answer has = has_mapped(candidate, sought->path);
    return has == YES || (has == UNKNOWN && (sought->own_pid != 0 || is_child));
}

/* Whether a forked child that reported the writer's PID namespace is in this namespace. A forked
 * child does not look up its namespace, but reports its parent's (namespace_is_inherited).
 *
 * If there is a process with the reported pid in the writer's namespace, that process is the child
 * if it is in no inner namespace and its parent is sought->parent. If the parent is unknown or has
 * ended, the process must have the live file mapped instead. If there is no process with that pid,
 * the child has ended or is in an inner namespace. It is, or was, in the namespace that the parent
 * selected for its children. */
static bool is_in_own_namespace(const struct ag_process_sought *sought) {
    struct process_facts facts;
    if (read_facts(sought->own_pid, &facts)) {
        const bool is_orphan = sought->parent == 0 || !ag_process_lives(sought->parent);
        return facts.n_levels <= 1 &&
               ((sought->parent != 0 && facts.parent == sought->parent) ||
                (is_orphan && has_mapped(sought->own_pid, sought->path) == YES));
    }
    return sought->parent != 0 &&
           namespace_of(sought->parent, "pid_for_children") == ag_process_own_namespace();
}

enum ag_process_found ag_process_find(const struct ag_process_sought *sought, uint32_t *ret_pid) {
    const uint64_t own = ag_process_own_namespace();
    *ret_pid = 0;
    if (own != 0 && sought->own_pid != 0 && sought->namespace == own &&
        (!sought->namespace_is_inherited || is_in_own_namespace(sought))) {
        *ret_pid = sought->own_pid; /* the process may have ended, which its watch shows */
        return AG_PROCESS_FOUND;
    }
    DIR *processes = own != 0 ? opendir("/proc") : NULL;
    uint32_t n_candidates = 0, n_children = 0, candidate = 0, child = 0;
    bool is_sure = false;
    for (struct dirent *entry; processes && !is_sure && (entry = readdir(processes));) {
        const uint32_t pid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        struct process_facts facts;
        if (pid == 0 || !is_candidate(sought, pid, &facts, &is_sure)) {
            continue;
        }
        n_candidates = is_sure ? 1 : n_candidates + 1;
        candidate = pid;
        if (sought->parent != 0 && facts.parent == sought->parent) {
            n_children++;
            child = pid;
        }
    }
    if (processes) {
        (void)closedir(processes); /* nothing was written */
    }
    const bool is_complete = processes && shows_all();
    const bool has_its_parent =
        n_children == 1 || sought->parent == 0 || !ag_process_lives(sought->parent);
    if (is_sure || (is_complete && n_candidates == 1 && has_its_parent)) {
        *ret_pid = candidate;
        return AG_PROCESS_FOUND;
    }
    if (is_complete && n_candidates > 1 && n_children == 1) {
        *ret_pid = child;
        return AG_PROCESS_FOUND;
    }
    return is_complete && n_candidates == 0 ? AG_PROCESS_GONE : AG_PROCESS_UNCLEAR;
}

bool ag_process_has_own_pid(uint32_t pid, uint32_t own_pid) {
    struct process_facts facts;
    return read_facts(pid, &facts) && (facts.own_pid != 0 ? facts.own_pid : pid) == own_pid;
}

bool ag_process_lives(uint32_t pid) {
    struct process_facts facts;
    return read_facts(pid, &facts) && !facts.is_over;
}

uint32_t ag_process_parent(uint32_t pid) {
    struct process_facts facts;
    return read_facts(pid, &facts) ? facts.parent : 0;
}

/* Whether the environment of the process contains ENTRY. Also true if the environment is larger
 * than ENVIRONMENT_MOST. */
static bool has_entry(uint32_t pid, const char *entry) {
    enum { ENVIRONMENT_MOST = 1 << 20 };
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/environ", pid);
    FILE *environment = fopen(path, "re");
    char *variable = NULL;
    size_t capacity = 0, n_bytes = 0;
    bool has = false;
    for (ssize_t n;
         environment && !has && (n = getdelim(&variable, &capacity, '\0', environment)) > 0;) {
        n_bytes += (size_t)n;
        has = strcmp(variable, entry) == 0 || n_bytes > ENVIRONMENT_MOST;
    }
    free(variable);
    if (environment) {
        (void)fclose(environment); /* nothing was written */
    }
    return has;
}

/* The number of the process or thread that was created last; 0: unknown. */
static uint32_t newest_pid(void) {
    unsigned newest = 0;
    FILE *load = fopen("/proc/loadavg", "re");
    if (load) {
        newest = fscanf(load, "%*s %*s %*s %*s %u", &newest) == 1 ? newest : 0;
        (void)fclose(load); /* nothing was written */
    }
    return newest;
}

/* The kernel numbers processes upwards and begins again at a low number, so the processes that are
 * newer than FIRST have the numbers from FIRST to the newest one. If these are few, /proc is not
 * listed, because the listing takes a microsecond for each process of the machine. */
bool ag_process_any_with(uint32_t first, const char *entry) {
    enum { FEW = 256 };
    const uint32_t newest = newest_pid(), n_more = newest != 0 ? newest - first : UINT32_MAX;
    bool has = false;
    for (uint32_t i = 0; i <= n_more && n_more < FEW && !has; i++) {
        has = has_entry(first + i, entry);
    }
    DIR *processes = n_more < FEW ? NULL : opendir("/proc");
    for (struct dirent *file; processes && !has && (file = readdir(processes));) {
        const uint32_t pid = (uint32_t)strtoul(file->d_name, NULL, 10);
        has = pid != 0 && pid - first <= n_more && has_entry(pid, entry);
    }
    if (processes) {
        (void)closedir(processes); /* nothing was written */
    }
    return has;
}

bool ag_process_has_surely_mapped(uint32_t pid, const char *path) {
    return has_mapped(pid, path) == YES;
}

/* Reads a file that holds a name and a newline. ret_name is unchanged if the file cannot be
 * read. */
static void read_name(uint32_t pid, const char *file, char ret_name[16]) {
    char name[17]; /* 15 bytes from the kernel, a newline, a NUL */
    if (ag_process_file_read(pid, file, name, sizeof(name)) > 0) {
        name[strcspn(name, "\n")] = '\0';
        memcpy(ret_name, name, 16);
    }
}

void ag_process_name(uint32_t pid, char ret_name[16]) {
    read_name(pid, "comm", ret_name);
}

bool ag_process_shares_namespace(uint32_t pid, uint32_t own_pid) {
    struct process_facts facts;
    return pid == own_pid && read_facts(pid, &facts) && facts.n_levels <= 1;
}

/* Returns the number in the writer's namespace of the thread that has the number THREAD_ID in the
 * namespace of its process. 0: the thread was not found. */
static uint32_t find_thread(uint32_t pid, uint32_t thread_id) {
    enum { THREADS_LOOKED_AT = 4096 };
    char path[64];
    uint32_t found = 0;
    (void)snprintf(path, sizeof(path), "/proc/%u/task", pid);
    DIR *threads = opendir(path);
    struct dirent *entry;
    for (int i = 0; threads && found == 0 && i < THREADS_LOOKED_AT && (entry = readdir(threads));
         i++) {
        const uint32_t thread = (uint32_t)strtoul(entry->d_name, NULL, 10);
        struct process_facts facts;
        found =
            thread != 0 && read_facts(thread, &facts) && facts.own_pid == thread_id ? thread : 0;
    }
    if (threads) {
        (void)closedir(threads); /* nothing was written */
    }
    return found;
}

void ag_process_thread_name(uint32_t pid, bool shares_namespace, uint32_t thread_id,
                            char ret_name[16]) {
    char file[32];
    const uint32_t thread = shares_namespace ? thread_id : find_thread(pid, thread_id);
    if (thread != 0) {
        (void)snprintf(file, sizeof(file), "task/%u/comm", thread);
        read_name(pid, file, ret_name);
    }
}

bool ag_process_is_unreaped(uint32_t pid, uint32_t parent) {
    struct process_facts facts;
    return read_facts(pid, &facts) && facts.is_over && facts.parent == parent;
}

uint64_t ag_process_program(uint32_t pid) {
    char path[64];
    struct stat status;
    (void)snprintf(path, sizeof(path), "/proc/%u/exe", pid);
    return stat(path, &status) == 0 ? (uint64_t)status.st_ino ^ (uint64_t)status.st_dev << 40 : 0;
}
