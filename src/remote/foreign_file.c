/* foreign_file.c: opens files whose names come from the target process, a trace or an ELF file,
 * after checking that they are regular files (foreign_file.h has the reason).
 *
 * 1. Checking. O_PATH resolves a name without opening the file: no driver is called, and a pipe
 * does not get a reader. The descriptor pins the file, so that fstat and the second step refer to
 * the same file, whatever the name resolves to by then.
 *
 * 2. Opening. /proc/self/fd/N leads to the pinned file. O_NONBLOCK matters for regular files too:
 * without it, open waits for the holder of a lease (F_SETLEASE), 45 seconds by default.
 *
 * 3. Roots. Below /proc/PID/root the target controls the symbolic links. openat2 with
 * RESOLVE_IN_ROOT (Linux 5.6) resolves them as the target itself would. On older kernels opening
 * fails, and callers fall back to /proc/PID/map_files. */
#include "foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "remote_maps.h"

enum {
    PATH_BYTES = 64,
    STORED_UNIT_BYTES = 512, /* the unit of st_blocks, whatever the file system */
    /* limit of the size, in multiples of the stored bytes; holes are less than a tenth of a file
     * that a linker made */
    MOST_HOLES = 16,
};
/* a file up to this size may consist of holes */
static const uint64_t small_bytes = UINT64_C(32) << 20;

/* Returns the part of PATH that follows "/proc/PID/root", and copies the first part to ret_root.
 * NULL: PATH is not of that form. */
static const char *split_root(const char *path, char ret_root[PATH_BYTES]) {
    int end = 0;
    unsigned pid;
    if (sscanf(path, "/proc/%u/root%n", &pid, &end) != 1 || end == 0 || end >= PATH_BYTES ||
        path[end] != '/') {
        return NULL;
    }
    memcpy(ret_root, path, (size_t)end);
    ret_root[end] = '\0';
    return path + end;
}

static int pin_file(const char *path, enum ag_foreign_links links) {
    char root[PATH_BYTES];
    const char *inside = split_root(path, root);
    const int flags = O_PATH | O_CLOEXEC | (links == AG_LINK_REFUSED ? O_NOFOLLOW : 0);
    if (inside == NULL) {
        const int fd = open(path, flags);
        return fd < 0 ? -errno : fd;
    }
    const int folder = open(root, O_PATH | O_CLOEXEC | O_DIRECTORY);
    if (folder < 0) {
        return -errno;
    }
    const struct open_how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_IN_ROOT};
    const long fd = syscall(SYS_openat2, folder, inside, &how, sizeof how);
    const int error = errno;
    (void)close(folder); /* opened for lookup only */
    return fd < 0 ? -error : (int)fd;
}

int ag_foreign_file_look(const char *path, struct stat *ret_facts) {
    const int pinned = pin_file(path, AG_LINKS_FOLLOWED);
    if (pinned < 0) {
        return pinned;
    }
    const int r = fstat(pinned, ret_facts) < 0 ? -errno : 0;
    (void)close(pinned); /* opened for lookup only */
    return r;
}

int ag_foreign_file_open(const char *path, enum ag_foreign_links links, struct stat *ret_facts) {
    struct stat facts;
    char again[PATH_BYTES];
    const int pinned = pin_file(path, links);
    if (pinned < 0) {
        return pinned;
    }
    int fd = -EINVAL;
    if (fstat(pinned, &facts) == 0 && S_ISREG(facts.st_mode)) {
        (void)snprintf(again, sizeof again, "/proc/self/fd/%d", pinned);
        fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        fd = fd < 0 ? -errno : fd;
    }
    (void)close(pinned); /* opened for lookup only */
    if (fd >= 0 && facts.st_blocks == 0 && lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO) {
        /* the file is one hole: 1 and not 0, because 0 means that the file system does not count
         * blocks */
        facts.st_blocks = 1;
    }
    if (fd >= 0 && ret_facts != NULL) {
        *ret_facts = facts;
    }
    return fd;
}

uint64_t ag_foreign_file_stored_bytes(const struct stat *facts) {
    const uint64_t size = facts->st_size > 0 ? (uint64_t)facts->st_size : 0;
    const uint64_t stored = (uint64_t)facts->st_blocks * STORED_UNIT_BYTES;
    return facts->st_blocks <= 0 || stored > size ? size : stored;
}

bool ag_foreign_file_is_sparse(const struct stat *facts) {
    const uint64_t stored = ag_foreign_file_stored_bytes(facts);
    return facts->st_size > 0 && (uint64_t)facts->st_size > small_bytes &&
           ((uint64_t)facts->st_size - small_bytes) / MOST_HOLES > stored;
}

/* On btrfs and overlays, stat returns another device than /proc/PID/maps, namely one without a
 * driver (major number 0). In this case the link in /proc/PID/map_files decides, which only root
 * can follow. For other users only the inode decides. */
bool ag_foreign_file_is_mapped(const struct stat *facts, int pid,
                               const struct ag_remote_mapping *mapping) {
    char link[PATH_BYTES + 32];
    struct stat mapped;
    if (facts->st_ino != mapping->inode) {
        return false;
    }
    if (facts->st_dev == makedev((unsigned)(mapping->device >> 32), (unsigned)mapping->device)) {
        return true;
    }
    (void)snprintf(link, sizeof link, "/proc/%d/map_files/%llx-%llx", pid,
                   (unsigned long long)mapping->low, (unsigned long long)mapping->high);
    if (stat(link, &mapped) == 0) {
        return mapped.st_dev == facts->st_dev && mapped.st_ino == facts->st_ino;
    }
    return major(facts->st_dev) == 0;
}
