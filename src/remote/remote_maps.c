/* remote_maps.c: reads the mappings of another process from /proc/PID/maps, in which the kernel
 * sorts them by address.
 *
 * The file is read in pieces while the process maps and unmaps: a line may occur twice or be
 * missing, so this module does not rely on the ranges being disjoint. */
#include "remote_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sorted.h"

enum { FIRST_TEXT_BYTES = 64 << 10, MOST_TEXT_BYTES = 256 << 20 };

static int read_maps_text(pid_t pid, char **ret_text) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/maps", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? -ESRCH : -errno;
    }
    size_t capacity = FIRST_TEXT_BYTES, filled = 0;
    char *text = malloc(capacity);
    int r = text != NULL ? 0 : -ENOMEM;
    while (r == 0) {
        const ssize_t n = read(fd, text + filled, capacity - filled - 1);
        if (n <= 0) {
            r = n < 0 ? -errno : 0;
            break;
        }
        filled += (size_t)n;
        if (capacity - filled < FIRST_TEXT_BYTES / 2) {
            capacity *= 2;
            char *more = capacity <= MOST_TEXT_BYTES ? realloc(text, capacity) : NULL;
            r = more != NULL ? 0 : -ENOMEM;
            text = more != NULL ? more : text;
        }
    }
    close(fd);
    if (r < 0 || filled == 0) { /* empty: a process that is ending */
        free(text);
        return r < 0 ? r : -ESRCH;
    }
    text[filled] = '\0';
    *ret_text = text;
    return 0;
}

static bool parse_line(char *line, struct ag_remote_mapping *ret_mapping) {
    unsigned long long low, high, offset, inode;
    unsigned major, minor;
    char rights[5];
    int path_at = -1;
    if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &low, &high, rights, &offset, &major,
               &minor, &inode, &path_at) < 7 ||
        low >= high) {
        return false;
    }
    *ret_mapping = (struct ag_remote_mapping){
        .low = low,
        .high = high,
        .protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
                      (rights[2] == 'x' ? PROT_EXEC : 0),
        .file_offset = offset,
        .device = (uint64_t)major << 32 | minor,
        .inode = inode,
        .path = path_at >= 0 ? line + path_at : "",
    };
    return true;
}

int ag_remote_maps_parse(struct ag_remote_maps *maps, char *text) {
    struct ag_remote_maps next = {.text = text};
    for (char *line = text, *end; *line != '\0'; line = end) {
        end = line + strcspn(line, "\n");
        if (*end == '\n') {
            *end++ = '\0';
        }
        if (next.n == next.capacity) {
            const size_t capacity = next.capacity != 0 ? 2 * next.capacity : 256;
            struct ag_remote_mapping *items = reallocarray(next.items, capacity, sizeof *items);
            if (items == NULL) {
                ag_remote_maps_done(&next);
                return -ENOMEM;
            }
            next.items = items;
            next.capacity = capacity;
        }
        next.n += parse_line(line, &next.items[next.n]);
    }
    ag_remote_maps_done(maps);
    *maps = next;
    return 0;
}

int ag_remote_maps_read(struct ag_remote_maps *maps, pid_t pid) {
    char *text = NULL;
    const int r = read_maps_text(pid, &text);
    return r < 0 ? r : ag_remote_maps_parse(maps, text);
}

const struct ag_remote_mapping *ag_remote_maps_find(const struct ag_remote_maps *maps,
                                                    uint64_t address) {
    /* the first mapping that ends after the address */
    const size_t at = AG_SORTED_UNTIL(maps->items, maps->n, high, address);
    return at < maps->n && maps->items[at].low <= address ? &maps->items[at] : NULL;
}

void ag_remote_maps_done(struct ag_remote_maps *maps) {
    free(maps->items);
    free(maps->text);
    *maps = (struct ag_remote_maps){0};
}
