/* resident_look.c: reads /proc/PID/smaps, for `observe --rss`.
 *
 * The kernel computes the file while it is read: for each mapping it counts the pages that are
 * present in the page table, some 40 ns for a page of 4 KiB. The threads of the process go on
 * running; a thread that calls mmap or munmap waits until the kernel has counted the current
 * mapping. All numbers come from one reading of the file, so their sum is the Rss that smaps_rollup
 * shows.
 *
 * The kernel knows only one stack, that of the first thread. The stacks of other threads are found
 * by what libraries of threads do: they map a stack above a guard, which is a small mapping without
 * access or (glibc 2.42) pages that madvise made inaccessible, and with MAP_STACK, which Linux 6.7
 * and newer show as the flag "nh". On older kernels a mapping above a guard is a stack if the stack
 * pointer of a thread, as /proc/PID/task/TID/syscall shows it for a thread that sleeps, is in it.
 * The stack pointer alone is no sufficient condition: Go runs its functions on stacks within the
 * memory of its collector. */
#include "writer/resident_look.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table/array.h"

enum { GUARD_BYTES_MOST = 1 << 20 };
static const uint64_t arena_bytes = UINT64_C(64)
                                    << 20; /* glibc: HEAP_MAX_SIZE of 64-bit programs */

struct reading {
    struct ag_resident_look look;
    struct ag_resident_mapping mapping; /* the mapping whose lines are being read */
    bool is_open;                       /* mapping is valid */
    bool is_readable, is_of_stack_kind, has_guard_pages, is_unreserved;
    uint64_t swap_bytes, hugetlb_bytes;
    struct ag_resident_mapping before; /* the mapping before, also if it has no resident pages */
    bool before_is_readable;
    uint64_t *stack_pointers;
    size_t n_stack_pointers;
    size_t unsettled; /* 1 + index of a mapping that is an arena if the next one is its reserve */
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

/* The zero-initialized data of a file follows the pages of its writable segment. */
static bool is_static_data(const struct reading *reading,
                           const struct ag_resident_mapping *mapping) {
    const struct ag_resident_mapping *before = &reading->before;
    const uint32_t kind =
        before->flags & (AG_RESIDENT_FILE | AG_RESIDENT_SHARED | AG_RESIDENT_WRITE);
    return is_anonymous(mapping) && mapping->path[0] == '\0' && before->high == mapping->low &&
           (mapping->flags & AG_RESIDENT_WRITE) && kind == (AG_RESIDENT_FILE | AG_RESIDENT_WRITE);
}

/* An arena of glibc's malloc begins at a multiple of its greatest size, and reserves the addresses
 * up to the next multiple by a mapping without access. A full arena has no such mapping. */
static bool may_be_arena(const struct reading *reading, const struct ag_resident_mapping *mapping) {
    return is_anonymous(mapping) && mapping->path[0] == '\0' && reading->is_unreserved &&
           (mapping->flags & AG_RESIDENT_WRITE) && mapping->low % arena_bytes == 0 &&
           mapping->high - mapping->low <= arena_bytes;
}

static int close_mapping(struct reading *reading) {
    struct ag_resident_mapping *mapping = &reading->mapping;
    struct ag_resident_look *look = &reading->look;
    int r = 0;
    if (!reading->is_open) {
        return 0;
    }
    if (reading->unsettled != 0) { /* the reserve of an arena ends where the next may begin */
        struct ag_resident_mapping *arena = &look->mappings[reading->unsettled - 1];
        if (arena->high == mapping->low && !reading->is_readable &&
            mapping->high % arena_bytes == 0) {
            arena->flags |= AG_RESIDENT_HEAP;
        }
        reading->unsettled = 0;
    }
    look->swap_bytes += reading->swap_bytes;
    look->hugetlb_bytes += reading->hugetlb_bytes;
    if (mapping->rss_bytes > 0) {
        const bool is_arena = may_be_arena(reading, mapping);
        if (is_stack(reading, mapping)) {
            mapping->flags |= AG_RESIDENT_STACK;
        } else if (strcmp(mapping->path, "[heap]") == 0 ||
                   (is_arena && mapping->high - mapping->low == arena_bytes)) {
            mapping->flags |= AG_RESIDENT_HEAP;
        } else if (is_static_data(reading, mapping)) {
            mapping->flags |= AG_RESIDENT_STATIC_DATA;
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
    reading->before.path = "";
    reading->before_is_readable = reading->is_readable;
    free((char *)mapping->path);
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

/* Returns whether LINE is "NAME: number kB". */
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
    struct reading reading = {.before_is_readable = true};
    FILE *smaps = open_of(pid, "smaps");
    if (smaps == NULL) {
        return errno == ENOENT ? -ESRCH : -errno;
    }
    read_stack_pointers(&reading, pid);
    int r = read_smaps(&reading, smaps);
    (void)fclose(smaps); /* nothing was written */
    reading.look.page_table_bytes = page_tables_of(pid);
    free(reading.stack_pointers);
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

void ag_resident_look_done(struct ag_resident_look *look) {
    for (size_t i = 0; i < look->n_mappings; i++) {
        free((char *)look->mappings[i].path);
    }
    free(look->mappings);
    *look = (struct ag_resident_look){0};
}
