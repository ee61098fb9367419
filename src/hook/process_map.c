/* process_map.c: reads /proc/self/maps. It parses the "low-high rwxp ..." lines character by
 * character, because a path can make a line longer than any buffer. */
#include "process_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw_syscall.h"

enum { BUFFER_BYTES = 2048 };

enum field { FIELD_LOW, FIELD_HIGH, FIELD_PROTECTION, FIELD_REST };

/* A buffer for the path of the mapping that contains `address`. */
struct wanted_path {
    uintptr_t address;
    size_t bytes, n; /* bytes: size of the buffer; n: length of the path, also if it does not fit */
    char *path;
};

struct line {
    struct ag_mapping mapping;
    enum field field;
    bool has_path;
    struct wanted_path *wanted; /* may be NULL */
};

static uintptr_t add_hex_digit(uintptr_t value, char letter) {
    return value << 4 | (uintptr_t)(letter <= '9' ? letter - '0' : letter - 'a' + 10);
}

static int protection_of(char letter) {
    switch (letter) {
    case 'r':
        return PROT_READ;
    case 'w':
        return PROT_WRITE;
    case 'x':
        return PROT_EXEC;
    default:
        return 0; /* "-", and "p" or "s" */
    }
}

/* Parses one character. Returns true at the end of a line, when `mapping` is complete. */
static bool line_parse_letter(struct line *line, char letter) {
    if (letter == '\n') {
        return true;
    }
    switch (line->field) {
    case FIELD_LOW:
        if (letter == '-') {
            line->field = FIELD_HIGH;
        } else {
            line->mapping.low = add_hex_digit(line->mapping.low, letter);
        }
        break;
    case FIELD_HIGH:
        if (letter == ' ') {
            line->field = FIELD_PROTECTION;
        } else {
            line->mapping.high = add_hex_digit(line->mapping.high, letter);
        }
        break;
    case FIELD_PROTECTION:
        if (letter == ' ') {
            line->field = FIELD_REST;
        } else {
            line->mapping.protection |= protection_of(letter);
        }
        break;
    case FIELD_REST: /* numbers and blanks, then the path */
        line->has_path |= letter == '/';
        if (line->has_path && line->wanted && line->wanted->address >= line->mapping.low &&
            line->wanted->address < line->mapping.high) {
            if (line->wanted->n + 1 < line->wanted->bytes) {
                line->wanted->path[line->wanted->n] = letter;
            }
            line->wanted->n++;
        }
        break;
    }
    return false;
}

static int process_map_parse(ag_mapping_fn *visit, void *context, struct wanted_path *wanted) {
    const long fd =
        ag_syscall6(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (ag_syscall_failed(fd)) {
        return (int)fd;
    }
    char buffer[BUFFER_BYTES];
    struct line line = {.wanted = wanted};
    bool goes_on = true;
    long n = 1;
    while (goes_on && n > 0) {
        do {
            n = ag_syscall3(SYS_read, fd, (long)buffer, sizeof(buffer));
        } while (n == -EINTR);
        for (long i = 0; i < n && goes_on; i++) {
            if (line_parse_letter(&line, buffer[i])) {
                goes_on = visit(context, &line.mapping);
                line = (struct line){.wanted = wanted};
            }
        }
    }
    (void)ag_syscall1(SYS_close, fd); /* opened for reading only */
    return ag_syscall_failed(n) ? (int)n : 0;
}

int ag_process_map_walk(ag_mapping_fn *visit, void *context) {
    return process_map_parse(visit, context, NULL);
}

static bool is_not_there_yet(void *context, const struct ag_mapping *mapping) {
    const uintptr_t *address = context;
    return *address >= mapping->high;
}

/* The kernel writes a newline in a path as \012 (seq_file_path), and escapes no other character.
 * Returns the new length. */
static size_t restore_newlines(char *path, size_t n) {
    static const char newline[] = "\\012";
    const size_t bytes = sizeof(newline) - 1;
    size_t to = 0;
    for (size_t from = 0; from < n; to++) {
        const bool is_newline = n - from >= bytes && memcmp(path + from, newline, bytes) == 0;
        path[to] = is_newline ? '\n' : path[from];
        from += is_newline ? bytes : 1;
    }
    return to;
}

int ag_process_map_path(uintptr_t address, char *ret_path, size_t path_bytes) {
    static const char deleted[] = " (deleted)";
    const size_t suffix = sizeof(deleted) - 1;
    struct wanted_path wanted = {.address = address, .bytes = path_bytes, .path = ret_path};
    const int r = process_map_parse(is_not_there_yet, &address, &wanted);
    if (r < 0 || wanted.n == 0) {
        return r < 0 ? r : -ENOENT;
    }
    if (wanted.n + 1 > path_bytes) {
        return -ENAMETOOLONG;
    }
    if (wanted.n > suffix && memcmp(ret_path + wanted.n - suffix, deleted, suffix) == 0) {
        wanted.n -= suffix;
    }
    ret_path[restore_newlines(ret_path, wanted.n)] = '\0';
    return 0;
}
