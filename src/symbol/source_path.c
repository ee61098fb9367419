/* source_path.c: simplifies a path by its text alone: links of the machine that compiled cannot be
 * read. */
#include "source_path.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct path {
    char *text;
    size_t length, capacity;
};

static bool is_piece(const char *piece, size_t length, const char *wanted) {
    return strlen(wanted) == length && memcmp(piece, wanted, length) == 0;
}

/* Removes the last component; not from a path that is empty or ends in "..", where that would be
 * another path. */
static bool go_up(struct path *path) {
    size_t start = path->length;
    while (start > 0 && path->text[start - 1] != '/') {
        start--;
    }
    const size_t length = path->length - start;
    if (length == 0) {
        return path->length > 0; /* "/.." is "/" */
    }
    if (is_piece(path->text + start, length, "..")) {
        return false;
    }
    path->length = start > 1 ? start - 1 : start;
    return true;
}

static int add_piece(struct path *path, const char *piece, size_t length) {
    if (length == 0 || is_piece(piece, length, ".") ||
        (is_piece(piece, length, "..") && go_up(path))) {
        return 0;
    }
    const bool has_slash = path->length > 0 && path->text[path->length - 1] != '/';
    if (path->length + has_slash + length + 1 > path->capacity) {
        return -ENAMETOOLONG;
    }
    if (has_slash) {
        path->text[path->length++] = '/';
    }
    memcpy(path->text + path->length, piece, length);
    path->length += length;
    return 0;
}

static int add_pieces(struct path *path, const char *text) {
    while (*text != '\0') {
        const size_t length = strcspn(text, "/");
        const int r = add_piece(path, text, length);
        if (r < 0) {
            return r;
        }
        text += length + (text[length] == '/');
    }
    return 0;
}

int ag_source_path(const char *folder, const char *file, char *ret_path, size_t capacity) {
    struct path path = {.text = ret_path, .capacity = capacity};
    const bool is_below = file[0] != '/' && folder != NULL && folder[0] == '/';
    if (is_below || file[0] == '/') {
        path.text[path.length++] = '/';
    }
    int r = is_below ? add_pieces(&path, folder) : 0;
    if (r == 0) {
        r = add_pieces(&path, file);
    }
    ret_path[path.length] = '\0';
    return r;
}
