/* generated_code.c: reads code that a compiler inside the target (the observed process) made, from
 * the three places in which such compilers publish it.
 *
 *     perf map     /tmp/perf-PID.map: a line "START SIZE NAME" per function, numbers in hexadecimal
 *     jitdump      jit-PID.dump, mapped by the program so that perf notices it:
 *                  header: magic "JiTD" u32, version u32, length of the header u32, ...
 *                  record: id u32, length of the record u32, time u64, contents
 *                  contents of a record with id 0, a new function: pid u32, tid u32, vma u64,
 *                  address u64, length of the code u64, number u64, name, 0, code
 *     GDB's list   entries with an ELF object each, in the target's memory
 *
 * All three are untrusted input. A file is read only if it belongs to the target's user or to root,
 * because any user can create a file in /tmp.
 *
 * Functions move and are replaced: of functions that contain an address, the newest is used. A
 * function that begins inside a newer one was replaced by it and is forgotten. An older function
 * that begins before a newer one is kept for its other addresses, because some compilers publish a
 * region and then the functions in it. A replaced function may have been much smaller or larger
 * than the new one, so the functions are sorted into ranges that do not overlap. */
#include "generated_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sorted.h"
#include "remote/foreign_file.h"
#include "remote/remote_elf.h"
#include "table/array.h"

enum {
    MOST_FUNCTIONS = 1 << 22,
    MOST_FILE_BYTES = 1 << 30,
    MOST_NAME_BYTES = 4096,
    MOST_FUNCTION_BYTES = 1 << 28,
    /* limit of the sum of the names' lengths, in multiples of the object's size. The sum can exceed
     * this size, because names may share bytes of the object. */
    SHARED_NAMES = 4,
    DUMP_MAGIC = 0x4a695444,
    DUMP_HEADER_BYTES = 40,
    DUMP_CODE_LOAD = 0,
    DUMP_RECORD_BYTES = 16,
    DUMP_LOAD_BYTES = 40,
};

static void generated_code_add(struct ag_generated_code *code, uint64_t low, uint64_t n_bytes,
                               const char *name, size_t name_bytes) {
    if (n_bytes == 0 || n_bytes > MOST_FUNCTION_BYTES || low + n_bytes < low || name_bytes == 0 ||
        code->n == MOST_FUNCTIONS) {
        return;
    }
    char *kept = strndup(name, name_bytes < MOST_NAME_BYTES ? name_bytes : MOST_NAME_BYTES);
    if (kept == NULL) {
        return;
    }
    for (char *letter = kept; *letter != '\0'; letter++) { /* names are printed to a terminal */
        *letter = (unsigned char)*letter < ' ' || *letter == 0x7f ? '?' : *letter;
    }
    const struct ag_generated_function function = {low, low + n_bytes, kept, ++code->age};
    if (AG_ARRAY_ADD(code->items, code->n, function) < 0) {
        free(kept); /* out of memory: only this function is missing */
    }
}

void ag_generated_code_read_map(struct ag_generated_code *code, char *text) {
    for (char *line = text, *next; *line != '\0'; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end == '\n' ? end + 1 : end;
        *end = '\0';
        char *at, *name;
        const uint64_t low = strtoull(line, &at, 16);
        const uint64_t n_bytes = at != line && *at == ' ' ? strtoull(at, &name, 16) : 0;
        if (n_bytes != 0 && *name == ' ') {
            generated_code_add(code, low, n_bytes, name + 1, strlen(name + 1));
        }
    }
}

static uint64_t number_at(const uint8_t *bytes, size_t n) {
    uint64_t value = 0;
    memcpy(&value, bytes, n);
    return value;
}

void ag_generated_code_read_dump(struct ag_generated_code *code, const uint8_t *bytes,
                                 size_t n_bytes) {
    if (n_bytes < DUMP_HEADER_BYTES || number_at(bytes, 4) != DUMP_MAGIC) {
        return; /* not a jitdump file, or one in the other byte order */
    }
    size_t at = number_at(bytes + 8, 4);
    while (at <= n_bytes && n_bytes - at >= DUMP_RECORD_BYTES) {
        const uint8_t *record = bytes + at;
        const size_t length = number_at(record + 4, 4);
        if (length < DUMP_RECORD_BYTES || length > n_bytes - at) {
            return;
        }
        if (number_at(record, 4) == DUMP_CODE_LOAD &&
            length > DUMP_RECORD_BYTES + DUMP_LOAD_BYTES) {
            const uint8_t *load = record + DUMP_RECORD_BYTES;
            const char *name = (const char *)load + DUMP_LOAD_BYTES;
            const size_t room = length - DUMP_RECORD_BYTES - DUMP_LOAD_BYTES;
            generated_code_add(code, number_at(load + 16, 8), number_at(load + 24, 8), name,
                               strnlen(name, room));
        }
        at += length;
    }
}

void ag_generated_code_read_object(struct ag_generated_code *code, const void *file,
                                   size_t n_bytes) {
    uint8_t *copy = malloc(n_bytes);
    struct ag_remote_elf elf;
    if (copy == NULL) {
        return;
    }
    memcpy(copy, file, n_bytes);
    if (ag_remote_elf_adopt(copy, n_bytes, &elf) < 0) {
        return;
    }
    size_t left = SHARED_NAMES * n_bytes;
    (void)ag_remote_elf_function(&elf, 0); /* reads the symbols */
    for (size_t i = 0; i < elf.n_symbols; i++) {
        const struct ag_remote_symbol *symbol = &elf.symbols[i];
        const uint64_t base =
            elf.is_object ? ag_remote_elf_section_address(&elf, symbol->section) : 0;
        if (symbol->is_function && base + symbol->address != 0) {
            const size_t name_bytes = strnlen(symbol->name, MOST_NAME_BYTES);
            if (name_bytes > left) {
                break; /* what was read so far is kept */
            }
            left -= name_bytes;
            generated_code_add(code, base + symbol->address, symbol->n_bytes, symbol->name,
                               name_bytes);
        }
    }
    ag_remote_elf_close(&elf);
}

/* ---- files ---------------------------------------------------------------------- */

/* Returns the whole file with a terminating zero, if it belongs to the user or to root and has
 * changed since the last call; otherwise NULL. */
static char *read_file(const char *path, uid_t user, int64_t *last_bytes, int64_t *last_time_ns,
                       size_t *ret_bytes) {
    struct stat facts;
    const int fd = ag_foreign_file_open(path, AG_LINK_REFUSED, &facts);
    char *text = NULL;
    if (fd < 0) {
        return NULL;
    }
    if ((facts.st_uid == user || facts.st_uid == 0) && facts.st_size <= MOST_FILE_BYTES &&
        !ag_foreign_file_is_sparse(&facts)) {
        const int64_t time_ns = facts.st_mtim.tv_sec * INT64_C(1000000000) + facts.st_mtim.tv_nsec;
        const bool is_new = facts.st_size != *last_bytes || time_ns != *last_time_ns;
        const size_t n_bytes = (size_t)facts.st_size;
        text = is_new ? malloc(n_bytes + 1) : NULL;
        const ssize_t n = text != NULL ? pread(fd, text, n_bytes, 0) : -1;
        if (n < 0) {
            free(text);
            text = NULL;
        } else {
            text[n] = '\0';
            *ret_bytes = (size_t)n;
            *last_bytes = facts.st_size;
            *last_time_ns = time_ns;
        }
    }
    close(fd);
    return text;
}

/* Returns the pid of the process in its own pid namespace. The names of its perf map and jitdump
 * file contain this pid. */
static pid_t own_number(const struct ag_remote_process *process) {
    char path[64], line[256];
    pid_t number = process->pid;
    (void)snprintf(path, sizeof path, "/proc/%d/status", process->pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "NSpid:", 6) == 0) {
            const char *last = strrchr(line, '\t');
            number = last != NULL ? (pid_t)strtol(last, NULL, 10) : number;
        }
    }
    if (file != NULL) {
        (void)fclose(file); /* was only read */
    }
    return number > 0 ? number : process->pid;
}

static void read_perf_map(struct ag_generated_code *code, const struct ag_observed_images *images) {
    char name[64], path[256];
    size_t n_bytes;
    (void)snprintf(name, sizeof name, "/tmp/perf-%d.map", own_number(images->process));
    ag_observed_images_path(images, name, path, sizeof path);
    char *text =
        read_file(path, images->process->user, &code->map_bytes, &code->map_time_ns, &n_bytes);
    if (text != NULL) {
        ag_generated_code_read_map(code, text);
    }
    free(text);
}

static void read_jitdump(struct ag_generated_code *code, const struct ag_observed_images *images) {
    for (size_t i = 0; i < images->maps.n; i++) {
        const char *path = images->maps.items[i].path, *name = strrchr(path, '/');
        const size_t length = strlen(path);
        if (name == NULL || strncmp(name, "/jit-", 5) != 0 || length < 5 ||
            strcmp(path + length - 5, ".dump") != 0) {
            continue;
        }
        char place[4096 + 64];
        size_t n_bytes;
        ag_observed_images_path(images, path, place, sizeof place);
        char *bytes = read_file(place, images->process->user, &code->dump_bytes,
                                &code->dump_time_ns, &n_bytes);
        if (bytes != NULL) {
            ag_generated_code_read_dump(code, (const uint8_t *)bytes, n_bytes);
        }
        free(bytes);
        return;
    }
}

static bool read_entry(void *context, uint64_t entry_address, const void *file, size_t n_bytes) {
    (void)entry_address;
    ag_generated_code_read_object(context, file, n_bytes);
    return true;
}

/* ---- look-up ----------------------------------------------------------------------- */

static int by_low(const void *a, const void *b) {
    const struct ag_generated_function *first = a, *second = b;
    if (first->low != second->low) {
        return first->low < second->low ? -1 : 1;
    }
    return first->age < second->age ? -1 : first->age > second->age;
}

static int ranges_add(struct ag_generated_code *code, uint64_t low, uint32_t item) {
    const struct ag_generated_range range = {low, item};
    return AG_ARRAY_ADD(code->ranges, code->n_ranges, range);
}

/* The functions that contain the current address; each begins after the one before it and is newer.
 * The last one is the result for the current address. */
struct nested {
    uint32_t *items;
    size_t n;
};

static uint32_t newest_of(const struct nested *nested) {
    return nested->n != 0 ? nested->items[nested->n - 1] : UINT32_MAX;
}

/* Removes the functions that end at or before UNTIL, and adds the ranges that begin at their ends.
 */
static int end_functions(struct ag_generated_code *code, struct nested *nested, uint64_t until) {
    int r = 0;
    while (r == 0 && nested->n != 0 && code->items[newest_of(nested)].high <= until) {
        const uint64_t high = code->items[newest_of(nested)].high;
        while (nested->n != 0 && code->items[newest_of(nested)].high <= high) {
            nested->n--; /* an older function may end inside a newer one */
        }
        r = ranges_add(code, high, newest_of(nested));
    }
    return r;
}

/* Computes the ranges of the sorted functions. Frees the functions that were replaced. */
static int make_ranges(struct ag_generated_code *code, struct nested *nested) {
    const size_t n_before = code->n;
    int r = 0;
    code->n = code->n_ranges = 0;
    for (size_t i = 0; i < n_before; i++) {
        const struct ag_generated_function function = code->items[i];
        r = r < 0 ? r : end_functions(code, nested, function.low);
        if (r == 0 && nested->n != 0) {
            struct ag_generated_function *newest = &code->items[newest_of(nested)];
            if (newest->age > function.age) {
                free(function.name);
                continue;
            }
            if (newest->low == function.low) {
                free(newest->name);
                *newest = function;
                continue;
            }
        }
        nested->items[nested->n++] = (uint32_t)code->n;
        r = r < 0 ? r : ranges_add(code, function.low, (uint32_t)code->n);
        code->items[code->n++] = function;
    }
    return r < 0 ? r : end_functions(code, nested, UINT64_MAX);
}

/* Sorts the functions by address, removes those that were replaced, and computes the ranges. */
void ag_generated_code_sort(struct ag_generated_code *code) {
    struct nested nested = {.items = calloc(code->n + 1, sizeof *nested.items)};
    code->n_ranges = 0;
    if (code->n != 0 && nested.items != NULL) {
        qsort(code->items, code->n, sizeof code->items[0], by_low);
        if (make_ranges(code, &nested) < 0) {
            code->n_ranges = 0; /* out of memory: functions have no names until the next refresh */
        }
    }
    free(nested.items);
}

void ag_generated_code_refresh(struct ag_generated_code *code, struct ag_observed_images *images,
                               struct allogram_target *target) {
    const uint32_t age = code->age;
    read_perf_map(code, images);
    read_jitdump(code, images);
    const uint64_t stamp = allogram_target_code_stamp(target);
    if (stamp != code->list_stamp) {
        code->list_stamp = stamp;
        (void)allogram_target_code_entries(target, read_entry, code); /* what was read so far is
                                                                       * kept */
    }
    if (code->age != age) {
        ag_generated_code_sort(code);
    }
}

const struct ag_generated_function *ag_generated_code_find(const struct ag_generated_code *code,
                                                           uint64_t pc) {
    const size_t n = AG_SORTED_UNTIL(code->ranges, code->n_ranges, low, pc);
    const uint32_t item = n != 0 ? code->ranges[n - 1].item : UINT32_MAX;
    return item != UINT32_MAX ? &code->items[item] : NULL;
}

void ag_generated_code_done(struct ag_generated_code *code) {
    for (size_t i = 0; i < code->n; i++) {
        free(code->items[i].name);
    }
    free(code->items);
    free(code->ranges);
    *code = (struct ag_generated_code){0};
}
