/* output_file.c: creates the file that a command writes, and completes or removes it. The file
 * contains data of a trace, so only its owner can read it (mode 0600). */
#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/interruption.h"
#include "cli/message.h"
#include "format/trace_layout.h"
#include "remote/foreign_file.h"

/* Creates the file, and lets signals remove it. Returns its descriptor, or -1 and errno. */
static int create(struct ag_output_file *file, enum ag_output_way way) {
    sigset_t before;
    ag_interruption_hold(&before);
    int fd;
    if (way == AG_OUTPUT_IS_NEW) {
        fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    } else {
        /* mkostemp creates a new file with mode 0600, and follows no link. The name of the new file
         * is short, so that the final name may have as many bytes as the file system permits. */
        const char *slash = strrchr(file->path, '/');
        (void)snprintf(file->unfinished, sizeof file->unfinished, "%.*s.allogram-XXXXXX",
                       slash != NULL ? (int)(slash + 1 - file->path) : 0, file->path);
        fd = mkostemp(file->unfinished, O_CLOEXEC);
    }
    const int error = errno;
    if (fd >= 0) {
        ag_interruption_removes(way == AG_OUTPUT_IS_NEW ? file->path : file->unfinished);
    }
    ag_interruption_release(&before);
    errno = error;
    return fd;
}

static void remove_file(const struct ag_output_file *file) {
    if (!file->is_kept) {
        (void)unlink(file->unfinished[0] != '\0' ? file->unfinished : file->path);
    }
}

/* Whether the output is written into the existing file, which is not replaced: into a device or a
 * pipe, or into any file that is named by /dev/stdout or another name of an open descriptor. Such a
 * name is a symbolic link, which must not be replaced. */
static bool is_written_in_place(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && (!S_ISREG(there.st_mode) || strncmp(path, "/dev/", 5) == 0 ||
                                       strncmp(path, "/proc/", 6) == 0);
}

/* Whether the file is a trace, or at least begins like one. */
static bool is_trace(const char *path) {
    uint8_t bytes[AG_TRACE_HEADER_BYTES];
    struct ag_file_header header;
    const int fd = ag_foreign_file_open(path, AG_LINKS_FOLLOWED, NULL);
    const ssize_t n = fd >= 0 ? read(fd, bytes, sizeof bytes) : 0;
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    return n > 0 && ag_file_header_get(bytes, (size_t)n, &header) != AG_DECODE_NOT_A_TRACE;
}

static int fail(const struct ag_output_file *file, const char *path, const char *why,
                const char *remedy) {
    const char *option = file->option;
    return ag_fail(AG_EXIT_FAILURE, "%s: %s%s%s%s: %s%s", file->command, option != NULL ? "--" : "",
                   option != NULL ? option : "", option != NULL ? "=" : "", path, why,
                   option != NULL ? "" : remedy);
}

int ag_output_file_open(struct ag_output_file *file, const char *command, const char *option,
                        const char *path, enum ag_output_way way) {
    *file = (struct ag_output_file){.command = command, .option = option};
    int fd = -1, error = ENAMETOOLONG;
    if (strlen(path) < sizeof file->path) {
        (void)strcpy(file->path, path);
        file->is_kept = way == AG_OUTPUT_REPLACES && is_written_in_place(path);
        if (way == AG_OUTPUT_REPLACES && !file->is_kept && is_trace(path)) {
            return fail(file, path, "is a trace, and a trace is never replaced",
                        "; choose another path with -o");
        }
        /* opening a pipe waits for its reader */
        fd = file->is_kept ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : create(file, way);
        error = errno;
    }
    if (fd < 0) {
        return fail(file, path, strerror(error),
                    error == EEXIST ? "; export never overwrites a file; choose another name"
                    : file->is_kept ? ""
                                    : "; choose another path with -o");
    }
    file->out = fdopen(fd, "w");
    if (file->out == NULL) {
        (void)close(fd); /* nothing was written */
        remove_file(file);
        ag_interruption_removes(NULL);
        return fail(file, path, strerror(ENOMEM), "");
    }
    return AG_EXIT_OK;
}

int ag_output_file_close(struct ag_output_file *file, int status) {
    if (ferror(file->out) != 0) { /* writes again, to learn the error of an earlier write */
        (void)fputc('\n', file->out);
    }
    errno = 0;
    const bool was_broken = fflush(file->out) != 0 || ferror(file->out) != 0;
    int error = was_broken ? (errno != 0 ? errno : EIO) : 0;
    if (fclose(file->out) != 0 && error == 0) {
        error = errno;
    }
    if (status == AG_EXIT_OK && error == 0 && file->unfinished[0] != '\0' &&
        rename(file->unfinished, file->path) != 0) {
        error = errno;
    }
    if (status == AG_EXIT_OK && error != 0) {
        status = fail(file, file->path, strerror(error), "");
    }
    if (status != AG_EXIT_OK) {
        remove_file(file);
    }
    ag_interruption_removes(NULL);
    return status;
}
