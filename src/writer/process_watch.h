/* process_watch.h: what the kernel knows about the session's processes: whether they live, their
 * memory and CPU time.
 *
 * "Outer" numbers below are pids in the writer's PID namespace; a process' own number is its pid in
 * its own namespace. */
#ifndef AG_PROCESS_WATCH_H
#define AG_PROCESS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* The inode that identifies the current PID namespace; 0: unknown. */
uint64_t ag_process_own_namespace(void);
/* The current time in clock ticks since boot, the unit in which /proc dates processes. */
uint64_t ag_process_boot_ticks(void);

/* A process as it identifies itself. */
struct ag_process_sought {
    uint32_t pid;
    /* PID namespace in which pid counts; 0: the process could not find out */
    uint64_t namespace;
    /* it was forked and did not look: its parent's namespace or one that its parent chose */
    bool namespace_is_inherited;
    const char *path;          /* of the live file, which the process has mapped */
    uint32_t parent;           /* outer number of the process that forked it; 0: unknown */
    uint64_t not_before_ticks; /* earliest possible start, as ag_process_boot_ticks counts */
};
enum ag_process_found {
    AG_PROCESS_GONE,   /* there is no such process */
    AG_PROCESS_FOUND,  /* ret_pid is its outer number */
    AG_PROCESS_UNCLEAR /* it may live; its outer number cannot be determined */
};
/* ret_pid is 0 unless the process is found. */
enum ag_process_found ag_process_find(const struct ag_process_sought *sought, uint32_t *ret_pid);

/* Returns the number by which the live process PID (outer number) knows itself, in the innermost of
 * its PID namespaces. ret_namespace is 0 when it cannot be read, for example by another user; the
 * outer number is returned then. */
uint32_t ag_process_own_pid(uint32_t pid, uint64_t *ret_namespace);

/* Reads the name of a thread, given the outer number of its process and its own thread id. ret_name
 * is unchanged when the thread is gone or cannot be found. shares_namespace: the process is in the
 * writer's namespace. */
void ag_process_thread_name(uint32_t pid, bool shares_namespace, uint32_t thread_id,
                            char ret_name[16]);
/* Does the process know itself and its threads by their outer numbers? */
bool ag_process_shares_namespace(uint32_t pid, uint32_t own_pid);

/* By the process' outer number. Names are set by the process and may contain any bytes. */
bool ag_process_lives(uint32_t pid);
uint64_t ag_process_start_ticks(uint32_t pid); /* as ag_process_boot_ticks; UINT64_MAX: unknown */
void ag_process_name(uint32_t pid, char ret_name[16]); /* unchanged when the process is gone */
/* Has it ended without its parent (outer number) having waited for it? */
bool ag_process_is_unreaped(uint32_t pid, uint32_t parent);
/* A number that identifies the file that it executes; 0: unknown. */
uint64_t ag_process_program(uint32_t pid);
bool ag_process_has_own_pid(uint32_t pid, uint32_t number);
/* false: also when it is unknown. */
bool ag_process_has_surely_mapped(uint32_t pid, const char *path);

/* CPU time and largest resident memory of the calling process so far. */
void ag_process_own_usage(uint64_t *ret_cpu_ns, uint64_t *ret_max_rss_bytes);

struct ag_process_watch { /* of one process */
    uint32_t pid;         /* 0: the process had ended before, or is not known */
    /* readable when the process has ended; -1: the kernel has none, /proc is polled */
    int pidfd;
    int statm_fd; /* -1: not open */
};
void ag_process_watch_start(struct ag_process_watch *watch, uint32_t pid);
void ag_process_watch_done(struct ag_process_watch *watch);
/* A zombie counts as ended. */
bool ag_process_watch_ended(const struct ag_process_watch *watch);
/* It is exiting: its memory may be gone before it counts as ended. */
bool ag_process_watch_is_leaving(const struct ag_process_watch *watch);
/* 0 when unknown or when the process is gone. */
uint64_t ag_process_watch_rss_bytes(struct ag_process_watch *watch);
uint64_t ag_process_watch_cpu_ns(const struct ag_process_watch *watch);
/* Returns the status that wait(2) gives to the parent of an ended process, also when the parent is
 * another process. false: unknown, because the process lives, or because its parent has waited for
 * it already and the kernel is older than 6.15. */
bool ag_process_watch_wait_status(const struct ag_process_watch *watch, uint32_t *ret_status);

/* Does a process of this outer number live, and does it have the file mapped? For sessions whose
 * writer is gone: the number may belong to another process by now. A process that cannot be
 * examined counts as living. */
bool ag_process_has_mapped(uint32_t pid, const char *path);

#endif
