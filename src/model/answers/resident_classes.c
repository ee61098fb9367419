/* resident_classes.c: decides by the kernel's description of a mapping to which class its resident
 * memory belongs. */
#include "model/answers/resident_classes.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    const char *name, *words;
} classes[AG_RESIDENT_CLASSES] = {
    [AG_RESIDENT_OF_HEAP] = {"heap", "memory of malloc, in use and free"},
    [AG_RESIDENT_OF_ANONYMOUS] = {"anonymous", "other private memory: allocators, runtimes, mmap"},
    [AG_RESIDENT_OF_SHARED] = {"shared_memory", "shared memory"},
    [AG_RESIDENT_OF_STACKS] = {"stacks", "stacks of threads"},
    [AG_RESIDENT_OF_FILES] = {"files", "pages of files: programs, libraries, data"},
    [AG_RESIDENT_OF_COPIES] = {"private_file_copies", "changed copies of file pages, static data"},
    [AG_RESIDENT_OF_JIT] = {"jit", "generated code"},
    [AG_RESIDENT_OF_AGENT] = {"agent", "allogram's files"},
};

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

void ag_resident_mapping_divide(const struct ag_resident_mapping *mapping,
                                uint64_t ret_bytes[AG_RESIDENT_CLASSES]) {
    const uint32_t flags = mapping->flags;
    const uint64_t anonymous = mapping->anonymous_bytes < mapping->rss_bytes
                                   ? mapping->anonymous_bytes
                                   : mapping->rss_bytes;
    const bool is_file = (flags & AG_RESIDENT_FILE) != 0;
    enum ag_resident_class all = AG_RESIDENT_CLASSES;
    memset(ret_bytes, 0, AG_RESIDENT_CLASSES * sizeof *ret_bytes);
    if (is_file && is_of_agent(mapping->path)) {
        all = AG_RESIDENT_OF_AGENT;
    } else if (flags & AG_RESIDENT_STACK) {
        all = AG_RESIDENT_OF_STACKS;
    } else if ((flags & AG_RESIDENT_EXECUTE) && mapping->path[0] != '[' &&
               (!is_file || is_memory_file(mapping->path))) {
        all = AG_RESIDENT_OF_JIT;
    } else if (flags & AG_RESIDENT_HEAP) {
        all = AG_RESIDENT_OF_HEAP;
    } else if (flags & AG_RESIDENT_STATIC_DATA) {
        all = AG_RESIDENT_OF_COPIES;
    } else if (is_file ? is_memory_file(mapping->path) : (flags & AG_RESIDENT_SHARED) != 0) {
        all = AG_RESIDENT_OF_SHARED;
    } else if (!is_file && strcmp(mapping->path, "[vdso]") != 0) {
        all = AG_RESIDENT_OF_ANONYMOUS;
    }
    if (all < AG_RESIDENT_CLASSES) {
        ret_bytes[all] = mapping->rss_bytes;
        return;
    }
    ret_bytes[AG_RESIDENT_OF_COPIES] = is_file ? anonymous : 0;
    ret_bytes[AG_RESIDENT_OF_FILES] = mapping->rss_bytes - ret_bytes[AG_RESIDENT_OF_COPIES];
}
