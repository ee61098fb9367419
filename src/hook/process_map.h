/* process_map.h: reads the mappings of this process from /proc/self/maps without allocating memory,
 * to find the protection of a page, free addresses, and the file that is mapped at an address. */
#ifndef AG_PROCESS_MAP_H
#define AG_PROCESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_mapping {
    uintptr_t low, high; /* [low, high) */
    int protection;      /* PROT_READ, PROT_WRITE, PROT_EXEC */
};
/* Called for each mapping, in the order of addresses. The result false ends the walk. */
typedef bool ag_mapping_fn(void *context, const struct ag_mapping *mapping);

/* Calls VISIT for the mappings. Returns 0, or the negative errno of opening or reading.
 * Async-signal-safe. */
int ag_process_map_walk(ag_mapping_fn *visit, void *context);

/* Stores the absolute path of the file that is mapped at ADDRESS, as this process sees it. Returns
 * 0; -ENOENT: no file is mapped at ADDRESS; -ENAMETOOLONG: the path does not fit into path_bytes;
 * or the negative errno of opening or reading. After a failure the content of ret_path is not
 * valid. */
int ag_process_map_path(uintptr_t address, char *ret_path, size_t path_bytes);

#endif
