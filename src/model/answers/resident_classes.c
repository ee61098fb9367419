/* resident_classes.c: the table of the classes, and the rules that decide by the kernel's
 * description of a mapping to which class its resident memory belongs. */
#include "model/answers/resident_classes.h"

#include <string.h>

#include "format/page_runs.h"

enum { OF_MAPPINGS = 1 << AG_LEDGER_OF_MAPPINGS, OF_BLOCKS = 1 << AG_LEDGER_OF_BLOCKS };

static const struct {
    const char *name, *words;
    unsigned ledgers; /* bits of enum ag_ledger_kind: which divisions have the class */
} classes[AG_RESIDENT_CLASSES] = {
    [AG_CLASS_LIVE] = {"live", "blocks in use, bytes that the program requested", OF_BLOCKS},
    [AG_CLASS_ROUNDING] = {"rounding", "headers and rounding of blocks", OF_BLOCKS},
    [AG_CLASS_PINNED_FREE] = {"pinned_free", "free bytes on pages with blocks in use", OF_BLOCKS},
    [AG_CLASS_RETURNABLE] = {"returnable", "free pages that malloc could give back", OF_BLOCKS},
    [AG_CLASS_PROGRAM_MAPPINGS] = {"program_mappings", "mapped by the program itself", OF_BLOCKS},
    [AG_CLASS_MANAGED_IN_USE] = {"managed_in_use", "objects in heaps of garbage collectors",
                                 OF_BLOCKS},
    [AG_CLASS_MANAGED_FREE] = {"managed_free", "free memory in heaps of garbage collectors",
                               OF_BLOCKS},
    [AG_CLASS_HEAP] = {"heap", "memory of malloc, in use and free", OF_MAPPINGS},
    [AG_CLASS_ANONYMOUS] = {"anonymous", "other private memory: allocators, runtimes, mmap",
                            OF_MAPPINGS},
    [AG_CLASS_SHARED] = {"shared_memory", "shared memory", OF_MAPPINGS | OF_BLOCKS},
    [AG_CLASS_STACKS] = {"stacks", "stacks of threads", OF_MAPPINGS | OF_BLOCKS},
    [AG_CLASS_THREAD_STORAGE] = {"thread_storage", "thread control blocks, thread-local storage",
                                 OF_MAPPINGS | OF_BLOCKS},
    [AG_CLASS_FILES] = {"files", "pages of files: programs, libraries, data",
                        OF_MAPPINGS | OF_BLOCKS},
    [AG_CLASS_COPIES] = {"private_file_copies", "changed copies of file pages, static data",
                         OF_MAPPINGS | OF_BLOCKS},
    [AG_CLASS_JIT] = {"jit", "generated code", OF_MAPPINGS | OF_BLOCKS},
    [AG_CLASS_AGENT] = {"agent", "memory of allogram in the process", OF_MAPPINGS | OF_BLOCKS},
    [AG_CLASS_UNKNOWN] = {"unknown", "", OF_BLOCKS},
};

bool ag_resident_class_is_in(enum ag_resident_class resident_class, enum ag_ledger_kind kind) {
    return (classes[resident_class].ledgers & 1u << kind) != 0;
}

const char *ag_resident_class_name(enum ag_resident_class resident_class) {
    return classes[resident_class].name;
}

const char *ag_resident_class_words(enum ag_resident_class resident_class) {
    return classes[resident_class].words;
}

/* Files that exist only in memory. Shared memory without a name is "/dev/zero (deleted)". */
static bool is_memory_file(const char *path) {
    return strncmp(path, "/dev/shm/", 9) == 0 || strncmp(path, "/memfd:", 7) == 0 ||
           strncmp(path, "/SYSV", 5) == 0 || strncmp(path, "/dev/zero", 9) == 0;
}

/* The files of a recording: its shared memory, and the library in the process. */
static bool is_of_agent(const char *path) {
    const char *name = strrchr(path, '/');
    return strstr(path, "/.allogram-live.") != NULL ||
           (name != NULL && strncmp(name, "/liballogram", 12) == 0);
}

/* ---- thread storage ---- */

/* Returns the resident bytes of [low, high), which is in the mapping of RUNS. LOW never decreases
 * between two calls with the same RUNS, so each run is read once. */
static uint64_t resident_bytes_of(struct ag_page_runs *runs, uint64_t low, uint64_t high) {
    uint64_t bytes = 0;
    while (runs->high <= low && ag_page_runs_next(runs)) {
    }
    while (runs->low < high) {
        const uint64_t first = runs->low > low ? runs->low : low,
                       last = runs->high < high ? runs->high : high;
        bytes += last > first ? last - first : 0;
        if (runs->high > high || !ag_page_runs_next(runs)) {
            break;
        }
    }
    return bytes;
}

static uint64_t thread_storage_bytes(const struct ag_resident_look *look,
                                     const struct ag_resident_mapping *mapping) {
    size_t first = 0, end = look->n_storage;
    while (first < end) { /* the first range that ends in the mapping, or after it */
        const size_t middle = first + (end - first) / 2;
        if (look->storage[middle].high <= mapping->low) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    struct ag_page_runs runs = ag_page_runs_of(mapping, look->page_bytes);
    uint64_t bytes = 0;
    for (size_t i = first; i < look->n_storage && look->storage[i].low < mapping->high; i++) {
        const struct ag_storage_range *range = &look->storage[i];
        const uint64_t low = range->low > mapping->low ? range->low : mapping->low,
                       high = range->high < mapping->high ? range->high : mapping->high;
        bytes += high <= low              ? 0
                 : mapping->pages == NULL ? high - low
                                          : resident_bytes_of(&runs, low, high);
    }
    return bytes < mapping->rss_bytes ? bytes : mapping->rss_bytes;
}

void ag_resident_mapping_divide(const struct ag_resident_look *look,
                                const struct ag_resident_mapping *mapping,
                                uint64_t ret_bytes[AG_RESIDENT_CLASSES]) {
    const uint32_t flags = mapping->flags;
    const uint64_t anonymous = mapping->anonymous_bytes < mapping->rss_bytes
                                   ? mapping->anonymous_bytes
                                   : mapping->rss_bytes;
    const bool is_file = (flags & AG_RESIDENT_FILE) != 0;
    enum ag_resident_class all = AG_RESIDENT_CLASSES;
    memset(ret_bytes, 0, AG_RESIDENT_CLASSES * sizeof *ret_bytes);
    if ((is_file || (flags & AG_RESIDENT_STATIC_DATA)) && is_of_agent(mapping->path)) {
        all = AG_CLASS_AGENT;
    } else if (flags & AG_RESIDENT_STACK) {
        all = AG_CLASS_STACKS;
    } else if ((flags & AG_RESIDENT_EXECUTE) && mapping->path[0] != '[' &&
               (!is_file || is_memory_file(mapping->path))) {
        all = AG_CLASS_JIT;
    } else if (flags & AG_RESIDENT_HEAP) {
        all = AG_CLASS_HEAP;
    } else if (flags & AG_RESIDENT_STATIC_DATA) {
        all = AG_CLASS_COPIES;
    } else if (is_file ? is_memory_file(mapping->path) : (flags & AG_RESIDENT_SHARED) != 0) {
        all = AG_CLASS_SHARED;
    } else if (!is_file && strcmp(mapping->path, "[vdso]") != 0) {
        all = AG_CLASS_ANONYMOUS;
    }
    if (all < AG_RESIDENT_CLASSES) {
        ret_bytes[AG_CLASS_THREAD_STORAGE] = is_file ? 0 : thread_storage_bytes(look, mapping);
        ret_bytes[all] = mapping->rss_bytes - ret_bytes[AG_CLASS_THREAD_STORAGE];
        return;
    }
    ret_bytes[AG_CLASS_COPIES] = is_file ? anonymous : 0;
    ret_bytes[AG_CLASS_FILES] = mapping->rss_bytes - ret_bytes[AG_CLASS_COPIES];
}
