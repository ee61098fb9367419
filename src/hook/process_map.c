/* process_map.c: reads "low-high rwxp ..." lines letter by letter, since a path can make a line
 * longer than any buffer. */
#include "process_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/raw_syscall.h"

enum { BUFFER_BYTES = 2048 };

enum field { FIELD_LOW, FIELD_HIGH, FIELD_PROTECTION, FIELD_REST };

struct line {
    struct ag_mapping mapping;
    enum field field;
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

/* True at the end of a line: mapping is complete. */
static bool take(struct line *line, char letter) {
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
    case FIELD_REST:
        break;
    }
    return false;
}

int ag_process_map_walk(ag_mapping_fn *visit, void *context) {
    const long fd =
        ag_syscall6(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (ag_syscall_failed(fd)) {
        return (int)fd;
    }
    char buffer[BUFFER_BYTES];
    struct line line = {0};
    bool goes_on = true;
    long n = 1;
    while (goes_on && n > 0) {
        n = ag_syscall3(SYS_read, fd, (long)buffer, sizeof(buffer));
        for (long i = 0; i < n && goes_on; i++) {
            if (take(&line, buffer[i])) {
                goes_on = visit(context, &line.mapping);
                line = (struct line){0};
            }
        }
    }
    (void)ag_syscall1(SYS_close, fd); /* nothing was written that could be lost */
    return ag_syscall_failed(n) && n != -EINTR ? (int)n : 0;
}
