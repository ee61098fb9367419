/* trace_file.c: creates trace files so that no kill leaves one without its header.
 *
 * 1. Problem. If the file were created first and its 64-byte header written afterwards, a SIGKILL
 *    in between would leave a file that readers do not recognize as a trace, and that does not lead
 *    to the session whose events wait for it.
 *
 * 2. Solution. The header is written first, and the file gets its name afterwards. Three ways are
 *    tried in this order until the file system supports one:
 *
 *     unnamed     open(folder, O_TMPFILE), write, linkat(/proc/self/fd/N, name)
 *     own name    open(.allogram-new.SESSION), write, renameat2(name, RENAME_NOREPLACE); or, where
 *                 a file system has no such thing, link(name) and unlink
 *     in place    open(name, O_EXCL), write: has the problem of section 1, on file systems that
 *                 support neither links nor a rename that does not replace
 *
 * Each step that gives a name fails when the name is taken, so two processes that create traces at
 * once never share a file; a symbolic link, dangling or not, counts as taken. A file whose process
 * was killed before it had its name disappears with its last descriptor, or is removed by the next
 * writer that uses the same own name: one writer per session works at a time (ag_session_lock).
 *
 * 3. Resuming. A writer that is killed right after naming a file leaves a file that is not noted in
 *    the segment. The header says to which session and process it belongs: the next writer of that
 *    session takes it for that process, instead of creating another. */
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "format/decode.h"

enum {
    MAX_NUMBER = 100000, /* limit of -N: more files of one name are surely a mistake */
    PATH_BYTES = 4096,
    CREATE = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
    RENAME_ONLY_TO_NEW = 1, /* RENAME_NOREPLACE, which older headers lack */
};

struct birth { /* a file that is being created */
    const char *plain;
    const struct ag_trace_header *header;
    uint32_t number; /* to try first; then the number that the file got */
    int fd;
    char folder[PATH_BYTES], own_name[PATH_BYTES];
};

/* ---- files that exist ---- */

bool ag_trace_file_is_of(int fd, const struct ag_trace_header *header) {
    struct stat status;
    struct ag_trace_header found;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
           ag_trace_header_read(fd, &found) == 0 && found.session == header->session &&
           found.pid == header->pid &&
           (found.slot == header->slot || found.slot == AG_NUMBER_FIRST);
}

int ag_trace_file_open_begun(const char *path, const struct ag_trace_header *header) {
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return -ENOENT;
    }
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_uid != geteuid() || !ag_trace_file_is_of(fd, header)) {
        (void)close(fd); /* not this session's: nothing was written */
        return -ENOENT;
    }
    return fd;
}

bool ag_trace_file_is_sealed(int fd) {
    struct ag_trace_file *file = NULL;
    struct ag_decode_error error;
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (ag_trace_file_open(path, &file, &error) < 0) {
        return false;
    }
    const bool has_index = ag_trace_file_has_index(file);
    (void)ag_trace_file_close(file); /* NULL */
    return has_index;
}

int ag_trace_file_copy(int from, int to, uint64_t bytes) {
    off_t at = 0;
    while ((uint64_t)at < bytes) {
        const ssize_t n = sendfile(to, from, &at, (size_t)(bytes - (uint64_t)at));
        if (n <= 0 && errno != EINTR) {
            return n < 0 ? -errno : -EIO;
        }
    }
    return 0;
}

/* ---- three ways to a name ---- */

/* Gives birth->fd its name. 0, -EEXIST, or another negative errno: this way is not supported. */
typedef int give_name(struct birth *birth, const char *path);

static int link_unnamed(struct birth *birth, const char *path) {
    char unnamed[64];
    (void)snprintf(unnamed, sizeof(unnamed), "/proc/self/fd/%d", birth->fd);
    return linkat(AT_FDCWD, unnamed, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int rename_own(struct birth *birth, const char *path) {
    if (syscall(SYS_renameat2, AT_FDCWD, birth->own_name, AT_FDCWD, path, RENAME_ONLY_TO_NEW) ==
        0) {
        return 0;
    }
    if (errno == EEXIST || link(birth->own_name, path) < 0) {
        return -errno;
    }
    (void)unlink(birth->own_name); /* a leftover second name is harmless */
    return 0;
}

static int create_in_place(struct birth *birth, const char *path) {
    birth->fd = open(path, CREATE, 0600);
    if (birth->fd < 0) {
        return -errno;
    }
    const int r = ag_trace_header_write(birth->fd, birth->header);
    if (r < 0) {
        (void)unlink(path); /* created a moment ago; the earlier failure is reported */
    }
    return r == -EEXIST ? -EIO : r;
}

static int open_unnamed(struct birth *birth) {
    return open(birth->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int open_own(struct birth *birth) {
    int fd = open(birth->own_name, CREATE, 0600);
    if (fd < 0 && errno == EEXIST && unlink(birth->own_name) == 0) {
        fd = open(birth->own_name, CREATE, 0600); /* left by a process that was killed */
    }
    return fd;
}

static int open_nothing(struct birth *birth) {
    (void)birth;
    return -1;
}

static const struct {
    int (*open)(struct birth *birth);
    give_name *give_name;
    bool has_own_name;
} ways[] = {
    {open_unnamed, link_unnamed, false},
    {open_own, rename_own, true},
    {open_nothing, create_in_place, false},
};

/* ---- the first name that is free ---- */

static void close_fd(struct birth *birth) {
    if (birth->fd >= 0) {
        (void)close(birth->fd); /* at most a header, of a file that is given up */
    }
    birth->fd = -1;
}

/* Returns the descriptor of the file that has the name now: the new one, or the existing one of the
 * same process. */
static int take_name(struct birth *birth, give_name *give, char ret_path[4096]) {
    for (; birth->number <= MAX_NUMBER; birth->number++) {
        int r = ag_trace_name_number(birth->plain, birth->number, ret_path);
        r = r < 0 ? r : give(birth, ret_path);
        if (r == 0) {
            return birth->fd;
        }
        if (r != -EEXIST) {
            return r;
        }
        const int fd = ag_trace_file_open_begun(ret_path, birth->header);
        if (fd >= 0) {
            return fd;
        }
    }
    return -EEXIST;
}

static int go_one_way(struct birth *birth, size_t way, char ret_path[4096]) {
    const bool has_file_first = ways[way].open != open_nothing;
    birth->fd = ways[way].open(birth);
    int r = birth->fd < 0 && has_file_first ? -errno : 0;
    if (r == 0 && has_file_first) {
        r = ag_trace_header_write(birth->fd, birth->header);
    }
    r = r < 0 ? r : take_name(birth, ways[way].give_name, ret_path);
    if (r < 0 || r != birth->fd) {
        if (ways[way].has_own_name && birth->fd >= 0) {
            (void)unlink(birth->own_name); /* created a moment ago */
        }
        close_fd(birth);
    }
    return r;
}

static void folder_of(const char *path, char ret_folder[4096]) {
    const char *slash = strrchr(path, '/');
    const size_t length = slash == path ? 1 : (size_t)(slash - path);
    memcpy(ret_folder, path, length);
    ret_folder[length] = '\0';
}

int ag_trace_file_create(const char *pattern, const struct ag_trace_names *names,
                         const struct ag_trace_header *header, char ret_path[4096]) {
    char plain[PATH_BYTES];
    struct birth birth = {.plain = plain, .header = header, .fd = -1};
    int r = ag_trace_name_expand(pattern, names, plain);
    if (r == 0 && plain[0] != '/') {
        r = -EINVAL; /* a pattern from a damaged live file */
    }
    if (r < 0) {
        ret_path[0] = '\0';
        return r;
    }
    memcpy(ret_path, plain, strlen(plain) + 1);
    folder_of(plain, birth.folder);
    const int n = snprintf(birth.own_name, sizeof(birth.own_name), "%s/.allogram-new.%016llx",
                           birth.folder, (unsigned long long)header->session);
    struct ag_trace_numbers *numbers = names->numbers;
    const uint32_t first = numbers && strcmp(numbers->plain, plain) == 0 ? numbers->last + 1 : 1;
    r = -ENAMETOOLONG;
    for (size_t way = n < PATH_BYTES ? 0 : AG_ARRAY_SIZE(ways); r < 0 && way < AG_ARRAY_SIZE(ways);
         way++) {
        birth.number = first;
        r = go_one_way(&birth, way, ret_path);
    }
    if (r >= 0 && numbers) {
        memcpy(numbers->plain, plain, sizeof(plain));
        numbers->last = birth.number;
    }
    return r;
}
