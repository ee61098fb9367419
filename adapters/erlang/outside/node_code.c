/* node_code.c: the code map of an Erlang node: finds the function, file and line of an address of
 * generated code. It reads the data that the node's JIT registers for debuggers, so the node needs
 * no option and no signal.
 *
 * The emulator maintains the list of GDB's JIT interface even without a debugger. The list has one
 * entry per loaded module, and another for the fragments, which functions share. An entry's symbol
 * file has the emulator's own format, the same in OTP 25 and 27:
 *
 *     0   u32  1: a module (0: facts about the emulator, not used here)
 *     8   u64  base: where the code starts
 *     16  u32  number of ranges
 *     20  u32  bytes of code
 *     24  u16  bytes of the name, with its zero
 *     26       name, then padding; the ranges start at 32 + bytes of the name
 *
 *     range:  u32 start, u32 end (from the base), u32 number of lines, u16 bytes of the name, name,
 *             2 bytes of padding, then its lines
 *     line:   u32 start, u32 line, u16 bytes of the file's name, the name, 2 bytes of padding
 *
 * (erts/emulator/beam/jit/beam_jit_metadata.cpp of OTP writes it). The copy of the file is kept,
 * and names and lines are used in place: about 1.4 MB for the hundred modules of a small node. The
 * list also keeps modules that are unloaded, whose addresses are reused when a module is loaded
 * again. The newest entry is first: a module whose code overlaps that of a newer one is obsolete.
 *
 * A file may be damaged: each length is checked against the rest of the file, and names must end
 * with a zero byte. */
#include "node_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/little_endian.h"
#include "base/sorted.h"

enum {
    FILE_MODULE = 1,
    FILE_HEAD_BYTES = 32,
    FILE_NAME_LEN = 24,
    RANGE_HEAD_BYTES = 14,
    LINE_HEAD_BYTES = 10,
    TRAILER_BYTES = 2, /* after each name */
};
/* The maximum size of all files together; a node with two million functions has about a tenth of
 * it. */
static const size_t file_most_bytes = (size_t)1 << 30;

struct node_code_file {
    struct node_code_file *next;
    uint64_t low, high; /* its code */
    uint8_t bytes[];
};

/* FILES_MOST: maximum number of entries. A node with ten thousand modules can load each ten
 * times. */
enum { FILES_MOST = 100000, TRIES = 10 };

static const char prologue[] = "-CodeInfoPrologue";

void node_code_clear(struct node_code *code) {
    while (code->files != NULL) {
        struct node_code_file *file = code->files;
        code->files = file->next;
        free(file);
    }
    free(code->items);
    *code = (struct node_code){0};
}

static int node_code_append(struct node_code *code, const struct node_function *function) {
    if (code->n == code->capacity) {
        const size_t capacity = code->capacity ? code->capacity * 2 : 4096;
        struct node_function *items = realloc(code->items, capacity * sizeof *items);
        if (items == NULL) {
            return -ENOMEM;
        }
        code->items = items;
        code->capacity = capacity;
    }
    code->items[code->n++] = *function;
    return 0;
}

/* The name at AT, of N bytes with the terminating zero; NULL: there is no valid name. *ret_end: the
 * address after the name and its trailer. */
static uint8_t *name_at(uint8_t *at, const uint8_t *end, uint16_t n, uint8_t **ret_end) {
    if (n == 0 || (size_t)(end - at) < (size_t)n + TRAILER_BYTES || at[n - 1] != 0) {
        return NULL;
    }
    *ret_end = at + n + TRAILER_BYTES;
    return at;
}

/* Skips N lines. Returns NULL if the lines extend beyond END. */
static uint8_t *skip_lines(uint8_t *at, const uint8_t *end, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (end - at < LINE_HEAD_BYTES ||
            name_at(at + LINE_HEAD_BYTES, end, ag_get_16(at + 8), &at) == NULL) {
            return NULL;
        }
    }
    return at;
}

/* The JIT lists the prologue of a function as a range of its own, which gets the function's
 * name. */
static void strip_prologue(char *name, size_t len) {
    const size_t suffix_len = sizeof prologue - 1;
    if (len > suffix_len && memcmp(name + len - suffix_len, prologue, suffix_len) == 0) {
        name[len - suffix_len] = '\0';
    }
}

/* Appends the range at *at, and sets *at to the end of the range. */
static int add_range(struct node_code *code, uint64_t base, uint8_t **at, const uint8_t *end) {
    if (end - *at < RANGE_HEAD_BYTES) {
        return -EBADMSG;
    }
    const uint32_t low = ag_get_32(*at), high = ag_get_32(*at + 4);
    struct node_function function = {
        .low = base + low, .high = base + high, .base = base, .n_lines = ag_get_32(*at + 8)};
    uint8_t *lines;
    char *name = (char *)name_at(*at + RANGE_HEAD_BYTES, end, ag_get_16(*at + 12), &lines);
    if (name == NULL || high < low || function.high < base) {
        return -EBADMSG;
    }
    uint8_t *next = skip_lines(lines, end, function.n_lines);
    if (next == NULL) {
        return -EBADMSG;
    }
    strip_prologue(name, strlen(name));
    function.name = name;
    function.lines = lines;
    function.lines_end = next;
    function.is_fragment = strncmp(name, "global::", 8) == 0 || strstr(name, "::") != NULL;
    *at = next;
    return low == high ? 0 : node_code_append(code, &function);
}

/* Whether newer code overlaps the range. */
static bool is_replaced(const struct node_code *code, uint64_t base, uint64_t n_bytes) {
    for (const struct node_code_file *file = code->files; file != NULL; file = file->next) {
        if (base < file->high && file->low < base + n_bytes) {
            return true;
        }
    }
    return false;
}

int node_code_add(struct node_code *code, const void *bytes, size_t n_bytes) {
    if (n_bytes < FILE_HEAD_BYTES || ag_get_32(bytes) != FILE_MODULE) {
        return n_bytes >= 4 && ag_get_32(bytes) == 0 ? 0 : -EBADMSG;
    }
    if (n_bytes > file_most_bytes - code->file_bytes) {
        return -EBADMSG;
    }
    if (is_replaced(code, ag_get_64((const uint8_t *)bytes + 8),
                    ag_get_32((const uint8_t *)bytes + 20))) {
        return 0;
    }
    struct node_code_file *file = malloc(sizeof *file + n_bytes);
    if (file == NULL) {
        return -ENOMEM;
    }
    memcpy(file->bytes, bytes, n_bytes);
    const uint64_t base = ag_get_64(file->bytes + 8);
    const uint32_t n_ranges = ag_get_32(file->bytes + 16);
    const size_t head = FILE_HEAD_BYTES + (size_t)ag_get_16(file->bytes + FILE_NAME_LEN);
    file->low = base;
    file->high = base + ag_get_32(file->bytes + 20);
    file->next = code->files;
    code->files = file;
    code->file_bytes += n_bytes;
    if (head > n_bytes || file->high < file->low || code->n_files++ >= FILES_MOST) {
        return -EBADMSG;
    }
    uint8_t *at = file->bytes + head;
    for (uint32_t i = 0; i < n_ranges; i++) {
        const int r = add_range(code, base, &at, file->bytes + n_bytes);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int compare_functions(const void *a, const void *b) {
    const struct node_function *left = a, *right = b;
    return (left->low > right->low) - (left->low < right->low);
}

void node_code_sort(struct node_code *code) {
    if (code->n == 0) {
        return;
    }
    qsort(code->items, code->n, sizeof *code->items, compare_functions);
    code->low = code->items[0].low;
    code->high = 0;
    for (size_t i = 0; i < code->n; i++) {
        code->high = code->items[i].high > code->high ? code->items[i].high : code->high;
    }
}

struct loading {
    struct node_code code;
    int result;
};

static bool load_entry(void *context, uint64_t entry_address, const void *file, size_t n_bytes) {
    struct loading *loading = context;
    (void)entry_address;
    loading->result = node_code_add(&loading->code, file, n_bytes);
    return loading->result == 0;
}

/* A node that loads code all the time changes its list while the list is read. Afterwards the list
 * has another first entry; or the memory of a file was used for something else before the file was
 * read, so that the file seems to be damaged. In both cases the list is read several times, and the
 * reading with the most modules is used. It misses only code that is new, or about to be
 * unloaded. */
int node_code_load(struct node_code *code, struct allogram_target *target) {
    struct node_code best = {0};
    int r = 0;
    bool may_differ_next_time = true;
    for (int i = 0; i < TRIES && may_differ_next_time; i++) {
        struct loading loading = {0};
        r = allogram_target_code_entries(target, load_entry, &loading);
        may_differ_next_time = r == -EAGAIN || loading.result == -EBADMSG;
        r = r == 0 ? loading.result : r;
        if (r == 0 || (r == -EAGAIN && loading.code.n_files > best.n_files)) {
            node_code_clear(&best);
            best = loading.code;
        } else {
            node_code_clear(&loading.code);
        }
    }
    const bool is_usable = r == 0 || (r == -EAGAIN && best.n_files != 0 &&
                                      best.n_files >= code->n_files - code->n_files / 8);
    if (!is_usable) {
        node_code_clear(&best);
        return r;
    }
    node_code_sort(&best);
    node_code_clear(code);
    *code = best;
    return 0;
}

const struct node_function *node_code_find(const struct node_code *code, uint64_t address) {
    const size_t after = AG_SORTED_UNTIL(code->items, code->n, low, address);
    return after > 0 && address < code->items[after - 1].high ? &code->items[after - 1] : NULL;
}

bool node_function_is_plumbing(const struct node_function *function) {
    return function->is_fragment || strncmp(function->name, "erts_beamasm:", 13) == 0;
}

bool node_function_line(const struct node_function *function, uint64_t address,
                        const char **ret_file, uint32_t *ret_line) {
    const uint8_t *at = function->lines;
    bool is_known = false;
    uint64_t nearest = 0;
    /* the lines were checked when they were added; they are not always in the order of addresses */
    for (uint32_t i = 0; i < function->n_lines; i++) {
        const uint64_t start = function->base + ag_get_32(at);
        if (start <= address && (!is_known || start >= nearest)) {
            nearest = start;
            *ret_line = ag_get_32(at + 4);
            *ret_file = (const char *)at + LINE_HEAD_BYTES;
            is_known = true;
        }
        at += LINE_HEAD_BYTES + ag_get_16(at + 8) + TRAILER_BYTES;
    }
    return is_known;
}
