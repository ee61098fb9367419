/* process_map.h: the mappings of this process, from /proc/self/maps, without allocating: for the
 * protection of a page, and for free addresses. */
#ifndef AG_PROCESS_MAP_H
#define AG_PROCESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_mapping {
    uintptr_t low, high; /* [low, high) */
    int protection;      /* PROT_READ, PROT_WRITE, PROT_EXEC */
};
/* Called for each mapping, by rising address; false ends the walk. */
typedef bool ag_mapping_fn(void *context, const struct ag_mapping *mapping);

/* 0, or the negative errno of opening or reading. Async-signal-safe. */
int ag_process_map_walk(ag_mapping_fn *visit, void *context);

/* The absolute path of the file that is mapped at ADDRESS, as this process sees it. 0; -ENOENT: no
 * file is mapped there; -ENAMETOOLONG; an errno of reading. After a failure ret_path is invalid. */
int ag_process_map_path(uintptr_t address, char *ret_path, size_t path_bytes);

#endif
