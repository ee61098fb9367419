/* resident_look.c: reads /proc/PID/smaps, for the writer and for `observe --rss`.
 *
 * The kernel computes the file while it is read: for each mapping it counts the pages that are
 * present in the page table, some 40 ns for a page of 4 KiB. The threads of the process go on
 * running; a thread that calls mmap or munmap waits until the kernel has counted the current
 * mapping. All numbers come from one reading of the file, so their sum is the Rss that smaps_rollup
 * shows.
 *
 * Which pages of a mapping are resident is read from /proc/PID/pagemap: by the call PAGEMAP_SCAN
 * (Linux 6.7), which returns ranges of pages and takes about 1 ns for a page, or else by reading an
 * entry for each page. Entries do not show which pages are the kernel's shared page of zeros, which
 * a program gets when it reads untouched memory. So if entries are read, such pages count as
 * resident, although Rss excludes them.
 *
 * The kernel knows only one stack, that of the first thread. The stacks of other threads are found
 * by the way thread libraries map them: with MAP_STACK, which Linux 6.7 and newer show as the flag
 * "nh", and above a guard, which is a small mapping without access or (glibc 2.42) pages that
 * madvise made inaccessible. A mapping with that flag is a stack if it has a guard, or if the stack
 * pointer of a thread, as /proc/PID/task/TID/syscall shows it for a thread that sleeps, is in it. A
 * mapping without the flag, as on older kernels, is a stack only if both conditions are true. A
 * stack pointer alone is not sufficient: Go runs its functions on stacks within the memory of its
 * collector. */
#include "resident_look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/varint.h"
#include "table/array.h"
#include "thread_storage.h"

enum { GUARD_BYTES_MOST = 1 << 20 };

struct reading {
    struct ag_resident_look look;
    struct ag_resident_mapping mapping; /* the mapping whose lines are being read */
    bool is_open;                       /* mapping is valid */
    bool is_readable, is_of_stack_kind, has_guard_pages, is_unreserved;
    uint64_t swap_bytes, hugetlb_bytes;
    struct ag_resident_mapping before; /* the previous mapping, even if it has no resident pages */
    bool before_is_readable;
    char *before_path; /* path of `before`; for static data, that of its file */
    uint64_t *stack_pointers;
    size_t n_stack_pointers;
    size_t unsettled; /* 1 + index of a mapping that is an arena if the next mapping is its reserve;
                       * 0: none */
};

static FILE *open_of(uint32_t pid, const char *name) {
    char path[384];
    (void)snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    return fopen(path, "re");
}

/* ---- stack pointers of threads ---- */

static void read_stack_pointers(struct reading *reading, uint32_t pid) {
    char folder[64];
    (void)snprintf(folder, sizeof folder, "/proc/%u/task", pid);
    DIR *tasks = opendir(folder);
    struct dirent *entry;
    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        char name[sizeof entry->d_name + 16], line[256] = "";
        (void)snprintf(name, sizeof name, "task/%s/syscall", entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? open_of(pid, name) : NULL;
        if (file == NULL) {
            continue;
        }
        /* "number arguments... sp pc", or "-1 sp pc" outside of a system call, or "running" */
        char *last = fgets(line, sizeof line, file) != NULL ? strrchr(line, ' ') : NULL;
        (void)fclose(file); /* nothing was written */
        if (last != NULL) {
            *last = '\0';
            char *before = strrchr(line, ' ');
            const uint64_t sp = before != NULL ? strtoull(before, NULL, 16) : 0;
            (void)AG_ARRAY_ADD(reading->stack_pointers, reading->n_stack_pointers, sp);
        }
    }
    if (tasks != NULL) {
        (void)closedir(tasks);
    }
}

static bool has_stack_pointer(const struct reading *reading,
                              const struct ag_resident_mapping *mapping) {
    for (size_t i = 0; i < reading->n_stack_pointers; i++) {
        if (reading->stack_pointers[i] >= mapping->low &&
            reading->stack_pointers[i] < mapping->high) {
            return true;
        }
    }
    return false;
}

/* ---- mappings ---- */

static bool is_anonymous(const struct ag_resident_mapping *mapping) {
    return (mapping->flags & (AG_RESIDENT_FILE | AG_RESIDENT_SHARED)) == 0;
}

static bool is_stack(const struct reading *reading, const struct ag_resident_mapping *mapping) {
    const struct ag_resident_mapping *before = &reading->before;
    const bool has_guard = before->high == mapping->low && !reading->before_is_readable &&
                           before->high - before->low <= GUARD_BYTES_MOST;
    if (strncmp(mapping->path, "[stack", 6) == 0) {
        return true;
    }
    if (!is_anonymous(mapping) || !(mapping->flags & AG_RESIDENT_WRITE) ||
        (mapping->path[0] != '\0' && strncmp(mapping->path, "[anon:", 6) != 0)) {
        return false;
    }
    return reading->is_of_stack_kind
               ? has_guard || reading->has_guard_pages || has_stack_pointer(reading, mapping)
               : has_guard && has_stack_pointer(reading, mapping);
}

/* The zero-initialized data of a file follows the pages of its writable segment. This data has
 * several mappings if a part of it got other rights or advice (mprotect, madvise). */
static bool is_static_data(const struct reading *reading,
                           const struct ag_resident_mapping *mapping) {
    const struct ag_resident_mapping *before = &reading->before;
    const uint32_t kind =
        before->flags & (AG_RESIDENT_FILE | AG_RESIDENT_SHARED | AG_RESIDENT_WRITE);
    return is_anonymous(mapping) && mapping->path[0] == '\0' && before->high == mapping->low &&
           (mapping->flags & AG_RESIDENT_WRITE) &&
           (kind == (AG_RESIDENT_FILE | AG_RESIDENT_WRITE) ||
            (before->flags & AG_RESIDENT_STATIC_DATA));
}

/* An arena of glibc's malloc begins at a multiple of its greatest size, and reserves the addresses
 * up to the next multiple by a mapping without access. A full arena has no such mapping. */
static bool may_be_arena(const struct reading *reading, const struct ag_resident_mapping *mapping) {
    return is_anonymous(mapping) && mapping->path[0] == '\0' && reading->is_unreserved &&
           (mapping->flags & AG_RESIDENT_WRITE) && mapping->low % AG_ARENA_BYTES == 0 &&
           mapping->high - mapping->low <= AG_ARENA_BYTES;
}

static int close_mapping(struct reading *reading) {
    struct ag_resident_mapping *mapping = &reading->mapping;
    struct ag_resident_look *look = &reading->look;
    int r = 0;
    if (!reading->is_open) {
        return 0;
    }
    if (reading->unsettled != 0) { /* the reserve of an arena ends where the next arena may begin */
        struct ag_resident_mapping *arena = &look->mappings[reading->unsettled - 1];
        if (arena->high == mapping->low && !reading->is_readable &&
            mapping->high % AG_ARENA_BYTES == 0) {
            arena->flags |= AG_RESIDENT_HEAP;
        }
        reading->unsettled = 0;
    }
    look->swap_bytes += reading->swap_bytes;
    look->hugetlb_bytes += reading->hugetlb_bytes;
    if (is_static_data(reading, mapping) && !is_stack(reading, mapping)) {
        mapping->flags |= AG_RESIDENT_STATIC_DATA;
        free((char *)mapping->path);
        mapping->path = reading->before_path;
        reading->before_path = NULL;
    }
    if (mapping->rss_bytes > 0) {
        const bool is_arena = may_be_arena(reading, mapping);
        mapping->flags |= reading->is_unreserved ? AG_RESIDENT_NORESERVE : 0u;
        if (is_stack(reading, mapping)) {
            mapping->flags |= AG_RESIDENT_STACK;
        } else if (strcmp(mapping->path, "[heap]") == 0 ||
                   (is_arena && mapping->high - mapping->low == AG_ARENA_BYTES)) {
            mapping->flags |= AG_RESIDENT_HEAP;
        }
        struct ag_resident_mapping kept = *mapping;
        char *path = strdup(mapping->path);
        kept.path = path;
        r = path != NULL ? AG_ARRAY_ADD(look->mappings, look->n_mappings, kept) : -ENOMEM;
        if (r < 0) {
            free(path);
        } else {
            look->rss_bytes += mapping->rss_bytes;
            reading->unsettled = is_arena ? look->n_mappings : 0;
        }
    }
    reading->before = *mapping;
    free(reading->before_path);
    reading->before_path = (char *)mapping->path;
    reading->before.path = "";
    reading->before_is_readable = reading->is_readable;
    reading->is_open = false;
    return r;
}

static bool open_mapping(struct reading *reading, char *line) {
    unsigned long long low, high, inode;
    char rights[5];
    int path_at = -1;
    if (sscanf(line, "%llx-%llx %4s %*x %*x:%*x %llu %n", &low, &high, rights, &inode, &path_at) <
            4 ||
        low >= high) {
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    char *path = strdup(path_at >= 0 ? line + path_at : "");
    reading->mapping =
        (struct ag_resident_mapping){.low = low,
                                     .high = high,
                                     .flags = (rights[1] == 'w' ? AG_RESIDENT_WRITE : 0u) |
                                              (rights[2] == 'x' ? AG_RESIDENT_EXECUTE : 0u) |
                                              (rights[3] == 's' ? AG_RESIDENT_SHARED : 0u) |
                                              (inode != 0 ? AG_RESIDENT_FILE : 0u),
                                     .path = path};
    reading->is_open = path != NULL;
    reading->is_readable = rights[0] == 'r';
    reading->is_of_stack_kind = reading->has_guard_pages = reading->is_unreserved = false;
    reading->swap_bytes = reading->hugetlb_bytes = 0;
    return path != NULL;
}

/* Returns whether LINE is "NAME: number kB"; then adds the number to *number_bytes. */
static bool take_number(const char *line, const char *name, uint64_t *number_bytes) {
    const size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != ':') {
        return false;
    }
    *number_bytes += strtoull(line + length + 1, NULL, 10) * 1024;
    return true;
}

static void take_line(struct reading *reading, const char *line) {
    (void)(take_number(line, "Rss", &reading->mapping.rss_bytes) ||
           take_number(line, "Anonymous", &reading->mapping.anonymous_bytes) ||
           take_number(line, "Swap", &reading->swap_bytes) ||
           take_number(line, "Shared_Hugetlb", &reading->hugetlb_bytes) ||
           take_number(line, "Private_Hugetlb", &reading->hugetlb_bytes));
    if (strncmp(line, "VmFlags:", 8) == 0) {
        reading->is_of_stack_kind = strstr(line, " nh") != NULL || strstr(line, " gd") != NULL;
        reading->has_guard_pages = strstr(line, " gu") != NULL;
        reading->is_unreserved = strstr(line, " nr") != NULL;
    }
}

static int read_smaps(struct reading *reading, FILE *smaps) {
    char *line = NULL;
    size_t capacity = 0;
    int r = 0;
    while (r == 0 && getline(&line, &capacity, smaps) > 0) {
        /* a mapping's first line begins with its address in lower-case digits; all others with a
         * name that begins with a capital letter */
        if (line[0] >= 'A' && line[0] <= 'Z') {
            if (reading->is_open) {
                take_line(reading, line);
            }
        } else {
            r = close_mapping(reading);
            (void)open_mapping(reading, line);
        }
    }
    r = r < 0 ? r : close_mapping(reading);
    if (r == 0 && ferror(smaps)) {
        r = -errno;
    }
    if (reading->is_open) { /* after an error */
        free((char *)reading->mapping.path);
    }
    free(line);
    return r;
}

static uint64_t page_tables_of(uint32_t pid) {
    uint64_t bytes = 0;
    char *line = NULL;
    size_t capacity = 0;
    FILE *status = open_of(pid, "status");
    while (status != NULL && getline(&line, &capacity, status) > 0) {
        if (take_number(line, "VmPTE", &bytes)) {
            break;
        }
    }
    free(line);
    if (status != NULL) {
        (void)fclose(status); /* nothing was written */
    }
    return bytes;
}

int ag_resident_look_read(uint32_t pid, struct ag_resident_look *ret_look) {
    struct reading reading = {.look.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
                              .before_is_readable = true};
    FILE *smaps = open_of(pid, "smaps");
    if (smaps == NULL) {
        return errno == ENOENT ? -ESRCH : -errno;
    }
    read_stack_pointers(&reading, pid);
    int r = read_smaps(&reading, smaps);
    (void)fclose(smaps); /* nothing was written */
    reading.look.page_table_bytes = page_tables_of(pid);
    free(reading.stack_pointers);
    free(reading.before_path);
    if (r == 0 && reading.look.n_mappings == 0) {
        r = -ESRCH; /* the file of a zombie, or of a process that is ending, is empty */
    }
    if (r < 0) {
        ag_resident_look_done(&reading.look);
        return r;
    }
    *ret_look = reading.look;
    return 0;
}

/* ---- pages ---- */

/* The argument of PAGEMAP_SCAN and its results (linux/fs.h of Linux 6.7), which older headers
 * lack. */
struct scan_range {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
enum { PAGE_IS_PRESENT = 1 << 3, PAGE_IS_ZERO = 1 << 5 };

enum {
    RANGES_AT_ONCE = 1024,
    ENTRIES_AT_ONCE = 4096,
    PAGES_LENGTH_MOST = 8 << 20, /* bytes of all lists; a chunk of a trace has 16 MiB at most */
};
static const uint64_t scan_bytes = UINT64_C(1)
                                   << 28; /* bytes per call, during which the kernel holds a lock */

struct pages { /* the list of a mapping while it is being made */
    uint8_t *bytes;
    size_t length, capacity;
    uint64_t page_bytes;
    uint64_t done;      /* the list describes the addresses up to here */
    uint64_t low, high; /* a resident range that is not in the list yet */
};

static int put_range(struct pages *pages) {
    if (pages->low == pages->high) {
        return 0;
    }
    if (AG_ARRAY_RESERVE(pages->bytes, pages->capacity,
                         pages->length + 2 * (size_t)AG_VARINT_MAX_BYTES) < 0) {
        return -ENOMEM;
    }
    uint8_t *at = pages->bytes + pages->length;
    at = ag_varint_put(at, (pages->low - pages->done) / pages->page_bytes);
    at = ag_varint_put(at, (pages->high - pages->low) / pages->page_bytes);
    pages->length = (size_t)(at - pages->bytes);
    pages->done = pages->low = pages->high;
    return 0;
}

static int add_range(struct pages *pages, uint64_t low, uint64_t high) {
    int r = 0;
    if (low != pages->high || pages->low == pages->high) {
        r = put_range(pages);
        pages->low = low;
    }
    pages->high = high;
    return r;
}

static int scan_pages(int fd, const struct ag_resident_mapping *mapping, struct pages *pages) {
    struct scan_range ranges[RANGES_AT_ONCE];
    for (uint64_t at = mapping->low; at < mapping->high;) {
        struct scan scan = {.size = sizeof scan,
                            .start = at,
                            .end =
                                mapping->high - at > scan_bytes ? at + scan_bytes : mapping->high,
                            .vec = (uint64_t)(uintptr_t)ranges,
                            .vec_len = RANGES_AT_ONCE,
                            .category_inverted = PAGE_IS_ZERO,
                            .category_mask = PAGE_IS_PRESENT | PAGE_IS_ZERO,
                            .return_mask = PAGE_IS_PRESENT};
        const int n = ioctl(fd, _IOWR('f', 16, struct scan), &scan);
        if (n < 0) {
            return -errno;
        }
        for (int i = 0; i < n; i++) {
            if (ranges[i].start < at || ranges[i].end > mapping->high ||
                ranges[i].start >= ranges[i].end) {
                return -EIO;
            }
            if (add_range(pages, ranges[i].start, ranges[i].end) < 0) {
                return -ENOMEM;
            }
            at = ranges[i].end;
        }
        /* After more than 512 ranges, Linux (seen: 6.18) may say that it stopped at the 512th,
         * although it also returned the ranges after it. */
        at = scan.walk_end > at ? scan.walk_end : at;
        if (at == scan.start) {
            return -EIO;
        }
    }
    return 0;
}

static int read_entries(int fd, const struct ag_resident_mapping *mapping, struct pages *pages) {
    uint64_t entries[ENTRIES_AT_ONCE];
    const uint64_t page_bytes = pages->page_bytes;
    for (uint64_t at = mapping->low; at < mapping->high;) {
        const uint64_t left = (mapping->high - at) / page_bytes;
        const uint64_t wanted = left < ENTRIES_AT_ONCE ? left : ENTRIES_AT_ONCE;
        const ssize_t got = pread(fd, entries, wanted * sizeof entries[0],
                                  (off_t)(at / page_bytes * sizeof entries[0]));
        if (got < (ssize_t)sizeof entries[0]) {
            return got < 0 ? -errno : -EIO;
        }
        for (size_t i = 0; i < (size_t)got / sizeof entries[0]; i++, at += page_bytes) {
            const bool is_present = entries[i] >> 63 != 0;
            if (is_present && add_range(pages, at, at + page_bytes) < 0) {
                return -ENOMEM;
            }
        }
    }
    return 0;
}

/* Whether the process still has memory. A process that ends loses its memory before it becomes a
 * zombie. */
static bool has_memory(uint32_t pid) {
    char path[64];
    unsigned long long pages = 0;
    (void)snprintf(path, sizeof path, "/proc/%u/statm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        (void)(fscanf(file, "%llu", &pages) == 1); /* otherwise 0 */
        (void)fclose(file);
    }
    return pages > 0;
}

int ag_resident_look_read_pages(uint32_t pid, struct ag_resident_look *look) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%u/pagemap", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    bool has_failed = false;
    if (fd < 0) {
        return -errno;
    }
    for (size_t i = 0; i < look->n_mappings; i++) {
        struct ag_resident_mapping *mapping = &look->mappings[i];
        struct pages pages = {.page_bytes = look->page_bytes,
                              .done = mapping->low,
                              .low = mapping->low,
                              .high = mapping->low};
        if (!is_anonymous(mapping) || !(mapping->flags & AG_RESIDENT_WRITE)) {
            continue;
        }
        int r = scan_pages(fd, mapping, &pages);
        if (r == -ENOTTY || r == -EINVAL) {
            pages.length = 0;
            pages.done = pages.low = pages.high = mapping->low;
            r = read_entries(fd, mapping, &pages);
        }
        r = r < 0 ? r : put_range(&pages);
        if (r == 0 && pages.length > 0 && length + pages.length <= PAGES_LENGTH_MOST) {
            mapping->pages = pages.bytes;
            mapping->pages_length = pages.length;
            length += pages.length;
        } else {
            free(pages.bytes);
        }
        has_failed |= r < 0; /* this mapping has no pages then */
    }
    ag_descriptor_close(fd);
    return has_failed && !has_memory(pid) ? -ESRCH : ag_thread_storage_find(pid, look);
}

void ag_resident_look_done(struct ag_resident_look *look) {
    for (size_t i = 0; i < look->n_mappings; i++) {
        free((uint8_t *)look->mappings[i].pages);
        free((char *)look->mappings[i].path);
    }
    free(look->mappings);
    free(look->storage);
    *look = (struct ag_resident_look){0};
}
