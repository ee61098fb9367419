/* memory_kill.h: samples the memory of the recorded processes and of their cgroups (control
 * groups), and decides whether the kernel killed a process for lack of memory. */
#ifndef AG_MEMORY_KILL_H
#define AG_MEMORY_KILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cgroup_memory.h"
#include "kernel_log.h"

struct ag_writer;

struct ag_watched_cgroup { /* a cgroup that has or had a recorded process */
    struct ag_cgroup cgroup;
    struct ag_cgroup_look look; /* the latest reading */
    uint64_t looked_ns;         /* CLOCK_MONOTONIC of the latest reading; 0: there is none */
    /* the processes of the cgroup as they were at listed_ns (CLOCK_MONOTONIC) */
    uint32_t pids[AG_CGROUP_PIDS];
    size_t n_pids; /* more than AG_CGROUP_PIDS: not known */
    uint64_t listed_ns;
};

struct ag_memory_kills { /* the state of a writer */
    struct ag_kernel_log log;
    struct ag_watched_cgroup **cgroups;
    size_t n_cgroups;
    size_t n_cgroups_kept; /* n_cgroups after cgroups without processes were last removed */
};

struct ag_memory_watch {                  /* the samples of a process */
    uint32_t pid;                         /* in the writer's PID namespace; 0: no sample yet */
    struct ag_watched_cgroup *cgroup;     /* NULL: not searched yet */
    uint64_t looked_ns, looked_rss_bytes; /* CLOCK_MONOTONIC and result of the last sample */
    uint64_t began_us; /* CLOCK_MONOTONIC of the first sample, in us as in the kernel's log */
    /* The counters of the cgroup before the last two samples at which the process certainly lived,
     * the older ones first (memory_kill.c, section 2). */
    struct ag_counts_before {
        const struct ag_watched_cgroup *cgroup; /* NULL: there are none */
        uint64_t time_ns;
        struct ag_cgroup_counts counts;
    } before[2];
};

/* IS_RESUMED: another writer of the session died before; then the messages of the last minute in
 * the kernel's log are read, too. */
void ag_memory_kills_start(struct ag_memory_kills *kills, bool is_resumed);
void ag_memory_kills_done(struct ag_memory_kills *kills);

/* Whether a sample of the process in slot INDEX is due. RSS_BYTES: its resident memory now; 0:
 * unknown. */
bool ag_memory_watch_is_due(const struct ag_writer *writer, uint32_t index, uint64_t rss_bytes,
                            uint64_t now_ns);
/* Samples the memory of the process and of its cgroup. */
void ag_memory_watch_look(struct ag_writer *writer, uint32_t index, uint64_t now_ns);

struct ag_kernel_kill { /* the record of a kill, and the text that it refers to */
    struct ag_kernel_kill_record record;
    char cgroup[AG_CGROUP_PATH_BYTES];
};
/* Called when the process in slot INDEX has ended. wait_status: that of wait(2), or NULL if it is
 * not known. false: there is no sign that the kernel killed it. */
bool ag_memory_kill_find(struct ag_writer *writer, uint32_t index, const uint32_t *wait_status,
                         struct ag_kernel_kill *ret_kill);

#endif
