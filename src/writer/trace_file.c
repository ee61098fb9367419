/* trace_file.c: names trace files, and creates them so that a SIGKILL never leaves a trace without
 * its header.
 *
 * 1. Names. The percent letters of a pattern are replaced, which gives a path. If that path is in
 *    use by another trace, a number is inserted before its extension: PATH-2, PATH-3 ...
 *
 * 2. Problem. If a file were created first and its 64-byte header written afterwards, a SIGKILL
 *    between the two would leave a file without a header. Readers would not recognize it as a
 *    trace, and it would not lead to the session whose live file (the file of its shared memory)
 *    has the events.
 *
 * 3. Solution. The header is written first, and the file gets its name afterwards. Three ways are
 *    tried in this order until the file system supports one:
 *
 *     unnamed     open(folder, O_TMPFILE), write, linkat(/proc/self/fd/N, name)
 *     own name    open(.allogram-new.SESSION), write, renameat2(name, RENAME_NOREPLACE), or
 *                 link(name) and unlink if the file system has no such rename
 *     in place    open(name, O_EXCL), write: has the problem of section 2, on file systems that
 *                 support neither links nor a rename that does not replace
 *
 * Giving a name fails if the name is in use, so two processes that create traces at once never
 * share a file. A symbolic link, dangling or not, counts as in use. If the process is killed before
 * the file has its name, an unnamed file disappears with its last descriptor. A file with an own
 * name is removed by the next writer of the session, which uses the same own name; only one writer
 * of a session works at a time (ag_session_lock in session.h).
 *
 * 4. Resuming. If a writer is killed right after naming a file, no note in the live file names the
 *    new file. But its header names its session and process: the next writer of the session uses it
 *    for that process, instead of creating another file. */
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
#include "base/descriptor.h"
#include "base/error_message.h"
#include "format/decode.h"

#define DEFAULT_PATTERN "allogram.%e.%p.allogram"
enum {
    MAX_NUMBER = 100000, /* limit of N in PATH-N: more files with the same PATH are surely a
                          * mistake */
    PATH_BYTES = 4096,
    /* a file name may have 255 bytes, so room is left for the rest of the pattern */
    PROGRAM_BYTES = 200,
    CREATE = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
    RENAME_ONLY_TO_NEW = 1, /* RENAME_NOREPLACE, which older headers lack */
};

struct new_file {      /* a file that is being created */
    const char *plain; /* path of the file if its number is 1 */
    const struct ag_trace_header *header;
    uint32_t number; /* the next number to try; at the end: the number of the file */
    int fd;
    char folder[PATH_BYTES], own_name[PATH_BYTES];
};

/* ---- 1. names ---- */

size_t ag_trace_pattern_escape(const char *folder, char *ret_pattern, size_t pattern_bytes) {
    size_t length = 0, written = 0;
    for (const char *at = folder; *at; at++) {
        for (int n = *at == '%' ? 2 : 1; n > 0; n--, length++) {
            if (length + 1 < pattern_bytes) {
                ret_pattern[written++] = *at;
            }
        }
    }
    ret_pattern[written] = '\0';
    return length;
}

int ag_trace_pattern_complete(const char *pattern, char ret_pattern[1024], char ret_message[512]) {
    pattern = pattern ? pattern : DEFAULT_PATTERN;
    if (pattern[0] == '\0') {
        return ag_error_message(ret_message, -EINVAL, "output: its name is empty; name a file");
    }
    for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 2, '%')) {
        if (at[1] == '\0') {
            return ag_error_message(ret_message, -EINVAL,
                                    "output %s: ends with a single %%; use %%%%", pattern);
        }
        if (!strchr("epht%", at[1])) {
            return ag_error_message(
                ret_message, -EINVAL,
                "output %s: unknown placeholder %%%c; use %%e, %%p, %%h, %%t or %%%%", pattern,
                at[1]);
        }
    }
    size_t length = 0;
    if (pattern[0] != '/') {
        char folder[PATH_BYTES];
        if (!getcwd(folder, sizeof(folder))) {
            const int error = errno;
            return ag_error_message(ret_message, -error, "cannot find the current folder: %s",
                                    strerror(error));
        }
        length = ag_trace_pattern_escape(folder, ret_pattern, 1024);
        if (length < 1024) {
            ret_pattern[length] = '/';
        }
        length++;
    }
    if (length + strlen(pattern) >= 1024 || pattern[strlen(pattern) - 1] == '/') {
        return ag_error_message(ret_message, -EINVAL, "output %.200s: %s", pattern,
                                length + strlen(pattern) >= 1024
                                    ? "name too long; use a shorter one"
                                    : "is a folder; name a file in it");
    }
    memcpy(ret_pattern + length, pattern, strlen(pattern) + 1);
    return 0;
}

void ag_trace_pattern_folder(const char *pattern, char ret_folder[4096]) {
    const char *slash = strrchr(pattern, '/');
    size_t length = 0;
    for (const char *at = pattern; at < slash && length < PATH_BYTES - 1; at++) {
        ret_folder[length++] = *at;
        at += at[0] == '%' && at[1] == '%';
    }
    ret_folder[length] = '\0';
    if (length == 0) {
        memcpy(ret_folder, "/", 2);
    }
}

/* Appends text. If it does not fit, *length becomes PATH_BYTES. */
static void name_append(char *buffer, size_t *length, const char *text, size_t text_bytes) {
    if (*length + text_bytes >= PATH_BYTES) {
        *length = PATH_BYTES;
        return;
    }
    memcpy(buffer + *length, text, text_bytes);
    *length += text_bytes;
}

/* A program's name comes from outside: replaces bytes that would change the folder or disturb a
 * terminal. */
static void name_append_program(char *buffer, size_t *length, const char *program) {
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    size_t name_bytes = strnlen(name, PROGRAM_BYTES);
    while (name_bytes > 0 && ((unsigned char)name[name_bytes] & 0xc0) == 0x80) {
        name_bytes--; /* does not split a UTF-8 character */
    }
    for (const char *at = name; at < name + name_bytes; at++) {
        name_append(buffer, length, (unsigned char)*at <= ' ' || *at == 0x7f ? "_" : at, 1);
    }
}

int ag_trace_name_expand(const char *pattern, const struct ag_trace_names *names,
                         char ret_path[4096]) {
    size_t length = 0;
    char text[256];
    for (const char *at = pattern; *at && length < PATH_BYTES; at++) {
        if (*at != '%') {
            name_append(ret_path, &length, at, 1);
            continue;
        }
        at++;
        switch (*at) {
        case 'e':
            name_append_program(ret_path, &length, names->program);
            break;
        case 'p':
            name_append(ret_path, &length, text,
                        (size_t)snprintf(text, sizeof(text), "%u", names->pid));
            break;
        case 't':
            name_append(
                ret_path, &length, text,
                (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)names->start_s));
            break;
        case 'h':
            if (gethostname(text, sizeof(text)) < 0) {
                memcpy(text, "host", 5);
            }
            text[sizeof(text) - 1] = '\0';
            name_append(ret_path, &length, text, strlen(text));
            break;
        case '%':
            name_append(ret_path, &length, "%", 1);
            break;
        case '\0':
            /* '%' at the end of the pattern, only in a damaged header; the loop then ends at the
             * NUL */
            at--;
            break;
        }
    }
    if (length >= PATH_BYTES) {
        return -ENAMETOOLONG;
    }
    ret_path[length] = '\0';
    return 0;
}

int ag_trace_name_number(const char *path, uint32_t number, char ret_path[4096]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const size_t stem = dot && dot != name ? (size_t)(dot - path) : strlen(path);
    const int n = number == 1 ? snprintf(ret_path, PATH_BYTES, "%s", path)
                              : snprintf(ret_path, PATH_BYTES, "%.*s-%u%s", (int)stem, path, number,
                                         path + stem);
    return n < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

void ag_trace_name_dump(const char *trace, uint32_t number, char ret_path[4096]) {
    static const char extension[] = ".allogram";
    const size_t length = strlen(trace), tail = sizeof(extension) - 1;
    const bool has_extension = length > tail && strcmp(trace + length - tail, extension) == 0;
    (void)snprintf(ret_path, 4096, "%.*s.dump%u%s", (int)(has_extension ? length - tail : length),
                   trace, number, extension);
}

/* ---- files that exist ---- */

void ag_trace_file_folder(const char *path, char ret_folder[4096]) {
    const char *slash = strrchr(path, '/');
    const int length = slash && slash != path ? (int)(slash - path) : 1;
    (void)snprintf(ret_folder, PATH_BYTES, "%.*s", length, slash ? path : ".");
}

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
        (void)close(fd); /* a file of another trace: nothing was written */
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
    (void)ag_trace_file_close(file); /* returns NULL */
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

/* Gives the file its name. 0; -EEXIST: the name is in use; another negative errno: this way is not
 * supported. */
typedef int give_name(struct new_file *new_file, const char *path);

static int link_unnamed(struct new_file *new_file, const char *path) {
    char unnamed[64];
    (void)snprintf(unnamed, sizeof(unnamed), "/proc/self/fd/%d", new_file->fd);
    return linkat(AT_FDCWD, unnamed, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int rename_own(struct new_file *new_file, const char *path) {
    if (syscall(SYS_renameat2, AT_FDCWD, new_file->own_name, AT_FDCWD, path, RENAME_ONLY_TO_NEW) ==
        0) {
        return 0;
    }
    if (errno == EEXIST || link(new_file->own_name, path) < 0) {
        return -errno;
    }
    (void)unlink(new_file->own_name); /* a leftover second name is harmless */
    return 0;
}

static int create_in_place(struct new_file *new_file, const char *path) {
    new_file->fd = open(path, CREATE, 0600);
    if (new_file->fd < 0) {
        return -errno;
    }
    const int r = ag_trace_header_write(new_file->fd, new_file->header);
    if (r < 0) {
        (void)unlink(path); /* created a moment ago; the earlier failure is reported */
    }
    return r == -EEXIST ? -EIO : r;
}

static int open_unnamed(struct new_file *new_file) {
    return open(new_file->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int open_own(struct new_file *new_file) {
    int fd = open(new_file->own_name, CREATE, 0600);
    if (fd < 0 && errno == EEXIST && unlink(new_file->own_name) == 0) {
        fd = open(new_file->own_name, CREATE, 0600); /* left by a process that was killed */
    }
    return fd;
}

static int open_nothing(struct new_file *new_file) {
    (void)new_file;
    return -1;
}

static const struct {
    int (*open)(struct new_file *new_file);
    give_name *give_name;
    bool has_own_name;
} ways[] = {
    {open_unnamed, link_unnamed, false},
    {open_own, rename_own, true},
    {open_nothing, create_in_place, false},
};

/* ---- the first name that is free ---- */

static void close_fd(struct new_file *new_file) {
    ag_descriptor_close(new_file->fd); /* the file is not used: it has at most a header */
    new_file->fd = -1;
}

/* Returns the descriptor of the file that has the name now: the new one, or the existing one of the
 * same process. */
static int take_name(struct new_file *new_file, give_name *give, char ret_path[4096]) {
    for (; new_file->number <= MAX_NUMBER; new_file->number++) {
        int r = ag_trace_name_number(new_file->plain, new_file->number, ret_path);
        r = r < 0 ? r : give(new_file, ret_path);
        if (r == 0) {
            return new_file->fd;
        }
        if (r != -EEXIST) {
            return r;
        }
        const int fd = ag_trace_file_open_begun(ret_path, new_file->header);
        if (fd >= 0) {
            return fd;
        }
    }
    return -EEXIST;
}

static int go_one_way(struct new_file *new_file, size_t way, char ret_path[4096]) {
    const bool has_file_first = ways[way].open != open_nothing;
    new_file->fd = ways[way].open(new_file);
    int r = new_file->fd < 0 && has_file_first ? -errno : 0;
    if (r == 0 && has_file_first) {
        r = ag_trace_header_write(new_file->fd, new_file->header);
    }
    r = r < 0 ? r : take_name(new_file, ways[way].give_name, ret_path);
    if (r < 0 || r != new_file->fd) {
        if (ways[way].has_own_name && new_file->fd >= 0) {
            (void)unlink(new_file->own_name); /* created a moment ago */
        }
        close_fd(new_file);
    }
    return r;
}

int ag_trace_file_create(const char *pattern, const struct ag_trace_names *names,
                         const struct ag_trace_header *header, char ret_path[4096]) {
    char plain[PATH_BYTES];
    struct new_file new_file = {.plain = plain, .header = header, .fd = -1};
    int r = ag_trace_name_expand(pattern, names, plain);
    if (r == 0 && plain[0] != '/') {
        r = -EINVAL; /* a pattern from a damaged live file */
    }
    if (r < 0) {
        ret_path[0] = '\0';
        return r;
    }
    memcpy(ret_path, plain, strlen(plain) + 1);
    ag_trace_file_folder(plain, new_file.folder);
    const int n = snprintf(new_file.own_name, sizeof(new_file.own_name), "%s/.allogram-new.%016llx",
                           new_file.folder, (unsigned long long)header->session);
    struct ag_trace_numbers *numbers = names->numbers;
    const uint32_t first = numbers && strcmp(numbers->plain, plain) == 0 ? numbers->last + 1 : 1;
    r = -ENAMETOOLONG;
    for (size_t way = n < PATH_BYTES ? 0 : AG_ARRAY_SIZE(ways); r < 0 && way < AG_ARRAY_SIZE(ways);
         way++) {
        new_file.number = first;
        r = go_one_way(&new_file, way, ret_path);
    }
    if (r >= 0 && numbers) {
        memcpy(numbers->plain, plain, sizeof(plain));
        numbers->last = new_file.number;
    }
    return r;
}
