/* cgroup_memory.h: reads the memory of control groups (cgroups), and how often the kernel killed
 * processes of them for lack of memory. Both versions of cgroups are supported: version 1 with a
 * hierarchy for the memory controller, and the unified hierarchy of version 2. */
#ifndef AG_CGROUP_MEMORY_H
#define AG_CGROUP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AG_CGROUP_PATH_BYTES = 1024,
    AG_CGROUP_LEVELS = 8, /* levels that are read: the cgroup and up to 7 of its ancestors */
    AG_CGROUP_PIDS = 256, /* maximum number of processes that are listed */
    AG_CGROUP_LIMIT_NONE = -1
};

/* The cgroup that accounts the memory of a process. */
struct ag_cgroup {
    bool is_unified; /* version 2 */
    bool is_machine; /* no cgroup accounts the process; the counters are those of the machine */
    /* the folder of the cgroup; its first mount_length bytes are the mount point of the
     * hierarchy */
    char folder[AG_CGROUP_PATH_BYTES];
    size_t mount_length;
    char name[AG_CGROUP_PATH_BYTES]; /* path in the hierarchy of the cgroup that contains the
                                      * process, as in /proc/PID/cgroup */
    /* number of levels from the cgroup that contains the process up to the one that accounts its
     * memory */
    size_t n_above;
};

/* Finds the cgroup of process PID. If there is none, if it is not visible in this mount namespace,
 * or if it is the root of the unified hierarchy, ret_cgroup->is_machine is true. false: the process
 * is gone. */
bool ag_cgroup_find(uint32_t pid, struct ag_cgroup *ret_cgroup);
/* Reads the path of the cgroup of process PID in its hierarchy, as /proc/PID/cgroup has it. "": it is
 * not known, or the process is gone. */
void ag_cgroup_name(uint32_t pid, char ret_name[AG_CGROUP_PATH_BYTES]);
bool ag_cgroup_is_same(const struct ag_cgroup *a, const struct ag_cgroup *b);
/* Whether process PID is (still) in the cgroup; false if the process is gone. Cheaper than
 * ag_cgroup_find. */
bool ag_cgroup_has(const struct ag_cgroup *cgroup, uint32_t pid);

/* Counters of events since the cgroup was created. UINT64_MAX: unknown. */
struct ag_cgroup_counts {
    uint64_t kills; /* processes of the cgroup that were killed for lack of memory */
    /* For each level (0 is the cgroup itself, 1 its parent ...): how often the limit of this level
     * was reached. Version 1 counts each time that memory has to be reclaimed; version 2 counts
     * only if this fails and the kernel looks for a process to kill. */
    uint64_t limit_hits[AG_CGROUP_LEVELS];
};

struct ag_cgroup_look { /* one reading */
    struct ag_cgroup_counts counts;
    size_t n_levels;
    uint64_t limit_bytes[AG_CGROUP_LEVELS]; /* UINT64_MAX: no limit */
    /* The level is full with this number of bytes: its limit or, if it is lower, memory.high, above
     * which the kernel lets the processes wait while it reclaims memory. UINT64_MAX: neither. */
    uint64_t full_bytes[AG_CGROUP_LEVELS];
    uint64_t used_bytes[AG_CGROUP_LEVELS]; /* only of levels that can be full, and of level 0 */
    /* The level that lacks the least to be full. AG_CGROUP_LIMIT_NONE: no level can be full. */
    int nearest;
    /* Whether the sizes below are known. They are those of level `nearest`, or of level 0 if no
     * level can be full. cache_bytes: page cache of files, without shared memory. */
    bool has_parts;
    uint64_t anonymous_bytes, cache_bytes, shmem_bytes;
};
void ag_cgroup_look(const struct ag_cgroup *cgroup, struct ag_cgroup_look *ret_look);
/* The memory in use at level `nearest` (or 0) without page cache, which the kernel frees before it
 * kills a process. */
uint64_t ag_cgroup_kept_bytes(const struct ag_cgroup_look *look);
/* Reads the share of the last ten seconds, in percent, in which at least one process of the cgroup
 * waited for memory: the kernel read back pages that it had dropped, or looked for free ones
 * (pressure stall information, "some avg10"). Version 1 does not know it for a cgroup; then it is
 * that of the machine. -1: the kernel does not know it. */
double ag_cgroup_pressure_percent(const struct ag_cgroup *cgroup);
/* Reads only the counters. */
void ag_cgroup_count(const struct ag_cgroup *cgroup, struct ag_cgroup_counts *ret_counts);
/* The name of a level: the name of the accounting cgroup without its last LEVEL components. */
void ag_cgroup_level_name(const struct ag_cgroup *cgroup, size_t level,
                          char ret_name[AG_CGROUP_PATH_BYTES]);
/* Lists the processes of the cgroup, as numbers in the writer's PID namespace (0: a process outside
 * of it). Returns their number; AG_CGROUP_PIDS + 1: there are more, the list cannot be read, or the
 * cgroup also accounts processes of cgroups below it. */
size_t ag_cgroup_list(const struct ag_cgroup *cgroup, uint32_t ret_pids[AG_CGROUP_PIDS]);

#endif
