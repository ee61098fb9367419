/* remote_maps.h: the mappings of another process, from /proc/PID/maps. */
#ifndef AG_REMOTE_MAPS_H
#define AG_REMOTE_MAPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ag_remote_mapping {
    uint64_t low, high; /* [low, high) */
    int protection;     /* PROT_READ | PROT_WRITE | PROT_EXEC */
    uint64_t file_offset;
    uint64_t device, inode; /* 0, 0: not a file */
    const char *path;       /* never NULL; " (deleted)" is part of it */
};
struct ag_remote_maps { /* all zero: empty */
    struct ag_remote_mapping *items;
    size_t n, capacity;
    char *text; /* the paths point into it */
};

/* Reads the mappings of PID into MAPS. Returns 0, or a negative errno; after an error MAPS is
 * unchanged. */
int ag_remote_maps_read(struct ag_remote_maps *maps, pid_t pid);
/* Does what ag_remote_maps_read does, with TEXT as the contents of /proc/PID/maps. Takes ownership
 * of TEXT. */
int ag_remote_maps_parse(struct ag_remote_maps *maps, char *text);
const struct ag_remote_mapping *ag_remote_maps_find(const struct ag_remote_maps *maps,
                                                    uint64_t address);
void ag_remote_maps_done(struct ag_remote_maps *maps);

#endif
