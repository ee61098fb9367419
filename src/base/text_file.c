/* text_file.c: reads a text file, or a pipe such as a shell makes for <(COMMAND), up to a maximum
 * size. The kind of the file is checked before it is opened, because opening a device may have side
 * effects, and again after it is opened, because the file may have been replaced meanwhile. The
 * buffer grows while the file is read, because stat does not know the size of a pipe or of a file
 * of /proc. */
#include "base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error_message.h"

static int fail(char ret_message[512], const char *path, int error) {
    return ag_error_message(ret_message, error, "%.300s: %s", path, strerror(-error));
}

static int refuse_kind(char ret_message[512], const char *path, mode_t mode) {
    return S_ISDIR(mode) ? fail(ret_message, path, -EISDIR)
                         : ag_error_message(ret_message, -EINVAL,
                                            "%.300s: neither a regular file nor a pipe", path);
}

static bool is_readable_kind(mode_t mode) {
    return S_ISREG(mode) || S_ISFIFO(mode);
}

/* Returns the descriptor or a negative errno. */
static int open_text(const char *path, struct stat *ret_status, char ret_message[512]) {
    if (stat(path, ret_status) < 0) {
        return fail(ret_message, path, -errno);
    }
    if (!is_readable_kind(ret_status->st_mode)) {
        return refuse_kind(ret_message, path, ret_status->st_mode);
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return fail(ret_message, path, -errno);
    }
    if (fstat(fd, ret_status) < 0 || !is_readable_kind(ret_status->st_mode)) {
        (void)close(fd); /* nothing was written */
        return refuse_kind(ret_message, path, ret_status->st_mode);
    }
    return fd;
}

int ag_text_file_read(const char *path, char **ret_text, char ret_message[512]) {
    struct stat status;
    const int fd = open_text(path, &status, ret_message);
    if (fd < 0) {
        return fd;
    }
    char *text = NULL;
    size_t used = 0, capacity = status.st_size < AG_TEXT_FILE_BYTES_MOST
                                    ? (size_t)status.st_size + 4096
                                    : AG_TEXT_FILE_BYTES_MOST + 1;
    ssize_t n = 1;
    int error = status.st_size > AG_TEXT_FILE_BYTES_MOST ? -EFBIG : 0;
    while (error == 0 && n > 0) {
        char *grown = realloc(text, capacity + 1); /* 1: the 0 at the end */
        if (grown == NULL) {
            error = -ENOMEM;
            break;
        }
        text = grown;
        n = read(fd, text + used, capacity - used);
        if (n < 0 && errno == EINTR) {
            n = 1;
            continue;
        }
        error = n < 0 ? -errno : 0;
        used += n > 0 ? (size_t)n : 0;
        if (used > AG_TEXT_FILE_BYTES_MOST) {
            error = -EFBIG;
        }
        capacity = used < capacity ? capacity : 2 * capacity;
    }
    (void)close(fd); /* nothing was written */
    if (error != 0) {
        free(text);
        return error == -EFBIG ? ag_error_message(ret_message, error, "%.300s: larger than %d MiB",
                                                  path, AG_TEXT_FILE_BYTES_MOST >> 20)
                               : fail(ret_message, path, error);
    }
    text[used] = '\0';
    *ret_text = text;
    return 0;
}
