/* kernel_log.h: the kernel's own messages about processes that it killed for lack of memory. */
#ifndef AG_KERNEL_LOG_H
#define AG_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/records.h"

enum { AG_KERNEL_LOG_KILLS = 64, AG_KERNEL_LOG_PATH_BYTES = 512 };

struct ag_kernel_log_kill {
    uint32_t pid; /* in the initial PID namespace; the number of a thread, if the first thread of
                   * the process had ended */
    uint64_t time_us; /* since the machine was started */
    enum ag_kill_reason reason;
    char cgroup[AG_KERNEL_LOG_PATH_BYTES];             /* the cgroup at its limit; "": not known */
    uint64_t anonymous_bytes, file_bytes, shmem_bytes; /* resident memory of the process */
};

struct ag_kernel_log {
    int fd; /* of /dev/kmsg; -1: it cannot be read, or the writer is in another PID namespace */
    /* time of the first message after the last gap: messages before it were overwritten before they
     * were read. CLOCK_MONOTONIC, in us; 0: there was no gap */
    uint64_t gap_us;
    uint64_t not_before_us; /* older messages are ignored; CLOCK_MONOTONIC, in us */
    bool has_gap;           /* messages before the next one that is read were overwritten */
    /* what the line "oom-kill:" said, which comes before the line "Killed process" */
    struct ag_kernel_log_kill announced;
    struct ag_kernel_log_kill kills[AG_KERNEL_LOG_KILLS]; /* the latest ones, as a ring */
    size_t n_kills;                                       /* number of all kills, also of
                                                           * those overwritten in the ring */
};

/* NOT_BEFORE_US: messages since this time (CLOCK_MONOTONIC, in microseconds) are read; 0: only
 * messages that follow the call. */
void ag_kernel_log_open(struct ag_kernel_log *log, uint64_t not_before_us);
void ag_kernel_log_close(struct ag_kernel_log *log);
/* Returns the latest message since SINCE_US (CLOCK_MONOTONIC, in us) about process PID, a number in
 * the initial PID namespace. NULL: there is none. */
const struct ag_kernel_log_kill *ag_kernel_log_find(struct ag_kernel_log *log, uint32_t pid,
                                                    uint64_t since_us);
/* Takes one record of /dev/kmsg, a text that ends with NUL. Called by ag_kernel_log_find; declared
 * for tests. */
void ag_kernel_log_take(struct ag_kernel_log *log, const char *record);

#endif
