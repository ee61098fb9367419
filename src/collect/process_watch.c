/* process_watch.c: pidfds where the kernel has them (5.3), /proc for the rest. */
#include "process_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
    watch->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
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

uint64_t ag_process_watch_cpu_ns(const struct ag_process_watch *watch) {
    char text[1024];
    unsigned long long user = 0, system = 0;
    const char *fields = read_stat(watch->pid, text);
    if (!fields || sscanf(fields, "%*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user,
                          &system) != 2) {
        return 0;
    }
    return (user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
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
