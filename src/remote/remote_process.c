/* remote_process.c: reads what /proc shows of one process, for the code that examines it.
 *
 * /proc is outside input: names contain spaces and parentheses, files vanish between two reads. The
 * name of a process is in parentheses in its stat line, and may itself contain ") R 1": fields are
 * counted from the last parenthesis. */
#include "remote_process.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error_message.h"

enum { PATH_BYTES = 96, STAT_BYTES = 1024 };

ssize_t ag_remote_process_file(pid_t pid, pid_t tid, const char *name, char *ret_text,
                               size_t limit) {
    char path[PATH_BYTES];
    if (tid != 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    } else {
        (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    }
    ret_text[0] = '\0';
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    size_t filled = 0;
    ssize_t n = 0;
    while (filled < limit - 1 && (n = read(fd, ret_text + filled, limit - 1 - filled)) > 0) {
        filled += (size_t)n;
    }
    const int error = n < 0 ? -errno : 0;
    close(fd);
    ret_text[error < 0 ? 0 : filled] = '\0';
    return error < 0 ? error : (ssize_t)filled;
}

struct stat_line {
    char state;
    unsigned long flags;
    uint64_t user_ticks, system_ticks, start_ticks;
};

/* Reads /proc/PID/stat, or, if TID is not 0, /proc/PID/task/TID/stat. */
static int read_stat(pid_t pid, pid_t tid, struct stat_line *ret_line, char ret_name[32]) {
    char text[STAT_BYTES];
    const ssize_t n = ag_remote_process_file(pid, tid, "stat", text, sizeof text);
    if (n < 0) {
        return (int)n;
    }
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    unsigned long long user, system, start;
    struct stat_line line = {0};
    if (open == NULL || close == NULL || close < open ||
        sscanf(close + 1,
               " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d "
               "%*d %*d %llu",
               &line.state, &line.flags, &user, &system, &start) != 5) {
        return -ESRCH;
    }
    line.user_ticks = user;
    line.system_ticks = system;
    line.start_ticks = start;
    const size_t length = (size_t)(close - open - 1);
    (void)snprintf(ret_name, 32, "%.*s", (int)(length < 31 ? length : 31), open + 1);
    *ret_line = line;
    return 0;
}

/* Sets process->root to /proc/PID/root if the root folder of the process is another one than ours,
 * otherwise to "". */
static void find_root(struct ag_remote_process *process) {
    char path[sizeof process->root];
    struct stat own, others;
    (void)snprintf(path, sizeof path, "/proc/%d/root", process->pid);
    process->root[0] = '\0';
    if (stat("/", &own) == 0 && stat(path, &others) == 0 &&
        (own.st_dev != others.st_dev || own.st_ino != others.st_ino)) {
        memcpy(process->root, path, sizeof path);
    }
}

static bool is_32_bit(pid_t pid) {
    enum { START_BYTES = EI_CLASS + 1 };
    char start[START_BYTES + 1];
    return ag_remote_process_file(pid, 0, "exe", start, sizeof start) == START_BYTES &&
           start[EI_CLASS] == ELFCLASS32;
}

/* Checks whether this process may read the memory of PROCESS. /proc/PID/maps is subject to the same
 * check as process_vm_readv. */
static int check_access(const struct ag_remote_process *process, char message[512]) {
    char letter[2];
    const ssize_t n = ag_remote_process_file(process->pid, 0, "maps", letter, sizeof letter);
    if (n == -EACCES || n == -EPERM) {
        return ag_error_message(
            message, -EPERM,
            geteuid() == 0
                ? "%d (%s, user %u): root may not read its memory: the "
                  "process is outside of this container, root lacks the capability SYS_PTRACE "
                  "(docker run --cap-add=SYS_PTRACE), or kernel.yama.ptrace_scope is 3"
            : process->user != geteuid()
                ? "%d (%s): belongs to user %u; run as that user or as root"
                : "%d (%s): the kernel does not permit reading its memory, although it belongs to "
                  "this user (%u); it has changed its privileges, or kernel.yama.ptrace_scope "
                  "forbids it: run as root",
            process->pid, process->name, process->user);
    }
    if (n < 0) {
        return ag_error_message(message, -ESRCH, "%d (%s): has ended while allogram opened it",
                                process->pid, process->name);
    }
    return 0;
}

int ag_remote_process_open(pid_t pid, struct ag_remote_process *ret_process,
                           char ret_message[512]) {
    enum { KERNEL_THREAD = 0x00200000 }; /* PF_KTHREAD of the kernel's flags */
    struct ag_remote_process process = {.pid = pid};
    struct stat_line line;
    char path[PATH_BYTES];
    struct stat folder;
    (void)snprintf(path, sizeof path, "/proc/%d", pid);
    if (pid <= 0 || read_stat(pid, 0, &line, process.name) < 0 || stat(path, &folder) < 0) {
        return ag_error_message(ret_message, -ESRCH,
                                "%d: no such process; `ps -e` lists the running processes", pid);
    }
    process.user = folder.st_uid;
    process.start_ticks = line.start_ticks;
    if (line.state == 'Z' && ag_remote_process_threads(&process, NULL, 0) > 1) {
        return ag_error_message(
            ret_message, -ESRCH,
            "%d (%s): its first thread has ended, so the kernel does not show its memory; start "
            "the program with allogram run instead",
            pid, process.name);
    }
    if (line.state == 'Z' || line.state == 'X') {
        return ag_error_message(
            ret_message, -ESRCH,
            "%d (%s): has ended and waits to be reaped by its parent (a zombie); nothing "
            "can be observed",
            pid, process.name);
    }
    if ((line.flags & KERNEL_THREAD) != 0) {
        return ag_error_message(
            ret_message, -EINVAL,
            "%d (%s): is a thread of the kernel, not a program; perf record -a records "
            "threads of the kernel",
            pid, process.name);
    }
    const int r = check_access(&process, ret_message);
    if (r < 0) {
        return r;
    }
    if (is_32_bit(pid)) {
        return ag_error_message(ret_message, -ENOTSUP,
                                "%d (%s): is a 32-bit program; only 64-bit programs can be read",
                                pid, process.name);
    }
    find_root(&process);
    *ret_process = process;
    return 0;
}

int ag_remote_process_ended_error(const struct ag_remote_process *process, char ret_message[512]) {
    return ag_error_message(ret_message, -ESRCH, "%d (%s): has ended", process->pid, process->name);
}

/* Reads the stat line again. Returns false if the process has ended. */
static bool read_stat_again(const struct ag_remote_process *process, struct stat_line *ret_line) {
    char name[32];
    return read_stat(process->pid, 0, ret_line, name) == 0 &&
           ret_line->start_ticks == process->start_ticks;
}

bool ag_remote_process_is_alive(const struct ag_remote_process *process) {
    struct stat_line line;
    return read_stat_again(process, &line) && line.state != 'Z' && line.state != 'X';
}

bool ag_remote_process_is_stopped(const struct ag_remote_process *process) {
    struct stat_line line;
    return read_stat_again(process, &line) && (line.state == 'T' || line.state == 't');
}

pid_t ag_remote_process_parent(pid_t pid) {
    char text[STAT_BYTES];
    int parent = 0;
    (void)ag_remote_process_file(pid, 0, "stat", text, sizeof text); /* "" on failure */
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && sscanf(name_end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static uint64_t cpu_ns_of(const struct stat_line *line) {
    const long ticks = sysconf(_SC_CLK_TCK);
    return ticks > 0
               ? (line->user_ticks + line->system_ticks) * (UINT64_C(1000000000) / (uint64_t)ticks)
               : 0;
}

uint64_t ag_remote_process_cpu_ns(const struct ag_remote_process *process) {
    struct stat_line line;
    return read_stat_again(process, &line) ? cpu_ns_of(&line) : 0;
}

char ag_remote_process_thread_state(pid_t pid, pid_t tid, uint64_t *ret_cpu_ns) {
    struct stat_line line = {.state = 'X'};
    char name[32];
    (void)read_stat(pid, tid, &line, name); /* on failure the thread is gone */
    if (ret_cpu_ns != NULL) {
        *ret_cpu_ns = cpu_ns_of(&line);
    }
    return line.state;
}

uint64_t ag_remote_process_resident_bytes(const struct ag_remote_process *process) {
    char text[STAT_BYTES];
    unsigned long long resident;
    if (ag_remote_process_file(process->pid, 0, "statm", text, sizeof text) < 0 ||
        sscanf(text, "%*u %llu", &resident) != 1) {
        return 0;
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool ag_remote_process_exe(const struct ag_remote_process *process, char *ret_path, size_t limit) {
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/exe", process->pid);
    const ssize_t n = readlink(path, ret_path, limit - 1);
    if (n < 0) {
        return false;
    }
    ret_path[n] = '\0';
    return true;
}

size_t ag_remote_process_threads(const struct ag_remote_process *process, pid_t *ret_threads,
                                 size_t limit) {
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/task", process->pid);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return 0;
    }
    size_t n = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const long thread = strtol(entry->d_name, NULL, 10);
        if (thread > 0) {
            if (n < limit) {
                ret_threads[n] = (pid_t)thread;
            }
            n++;
        }
    }
    (void)closedir(folder); /* opened for reading only */
    return n;
}

void ag_remote_process_thread_name(const struct ag_remote_process *process, pid_t thread,
                                   char ret_name[32]) {
    (void)ag_remote_process_file(process->pid, thread, "comm", ret_name, 32); /* "" on failure */
    ret_name[strcspn(ret_name, "\n")] = '\0';
}
