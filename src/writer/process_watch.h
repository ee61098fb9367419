/* process_watch.h: functions by which the writer asks the kernel which pids the recorded processes
 * have, whether they live, and for their memory, CPU time and names. The writer is the process that
 * writes the traces of a session, a recording of one or several processes.
 *
 * A process in a PID namespace of its own has several pids. In this file, `pid` is its pid in the
 * writer's namespace, and `own_pid` is the pid in its own namespace, which the process reports. */
#ifndef AG_PROCESS_WATCH_H
#define AG_PROCESS_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The inode that identifies the current PID namespace; 0: unknown. */
uint64_t ag_process_own_namespace(void);
/* The current time in clock ticks since boot, the unit in which /proc dates processes. */
uint64_t ag_process_boot_ticks(void);

struct ag_process_sought { /* a process whose pid is searched, as it reported itself */
    uint32_t own_pid;      /* 0: the process could not determine it */
    uint64_t namespace;    /* the process' PID namespace; 0: the process could not determine it */
    /* The process was forked and did not look up its namespace: `namespace` is its parent's. The
     * process is in another namespace if the parent chose one for its children (unshare, setns). */
    bool namespace_is_inherited;
    /* path of the live file (the file of the session's shared memory), which the process has
     * mapped */
    const char *path;
    uint32_t parent;           /* pid of the process that forked it; 0: unknown */
    uint64_t not_before_ticks; /* earliest possible start, in the unit of ag_process_boot_ticks */
    /* Is PID another recorded process? Asked only if own_pid is 0. */
    bool (*is_other)(const void *context, uint32_t pid);
    const void *context;
};
enum ag_process_found {
    AG_PROCESS_GONE,   /* the process has ended */
    AG_PROCESS_FOUND,  /* *ret_pid is the pid; the process may have ended since */
    AG_PROCESS_UNCLEAR /* the process may live, but its pid cannot be determined */
};
/* *ret_pid is 0 unless the result is AG_PROCESS_FOUND. */
enum ag_process_found ag_process_find(const struct ag_process_sought *sought, uint32_t *ret_pid);

/* Returns the own_pid of the live process PID, and its PID namespace in *ret_namespace. If the
 * namespace cannot be read (the process belongs to another user), *ret_namespace is 0, and PID is
 * returned. */
uint32_t ag_process_own_pid(uint32_t pid, uint64_t *ret_namespace);

/* Reads the name of a thread of process PID. THREAD_ID is the thread's number in the namespace of
 * its process; shares_namespace: the process is in the writer's namespace. ret_name is unchanged
 * when the thread has ended or cannot be found. */
void ag_process_thread_name(uint32_t pid, bool shares_namespace, uint32_t thread_id,
                            char ret_name[16]);
/* Is the process in the writer's PID namespace? OWN_PID is the pid that the process reported. */
bool ag_process_shares_namespace(uint32_t pid, uint32_t own_pid);

bool ag_process_lives(uint32_t pid);           /* false for a zombie */
uint32_t ag_process_parent(uint32_t pid);      /* works for a zombie, too; 0: the parent is unknown,
                                                * or there is none */
uint64_t ag_process_start_ticks(uint32_t pid); /* since boot; UINT64_MAX: unknown */
/* A process sets its name itself, so the name may contain any bytes. ret_name is unchanged when the
 * process is gone. */
void ag_process_name(uint32_t pid, char ret_name[16]);
/* Has process PID ended, and has its parent, the process PARENT, not waited for it yet? */
bool ag_process_is_unreaped(uint32_t pid, uint32_t parent);
/* A number that identifies the file that process PID executes; 0: unknown. */
uint64_t ag_process_program(uint32_t pid);
/* Whether OWN_PID is the pid of process PID in its own namespace. */
bool ag_process_has_own_pid(uint32_t pid, uint32_t own_pid);
/* Does the environment of the process FIRST, or of a process that was created after it, contain
 * ENTRY? An environment of more than 1 MiB counts as containing ENTRY; an environment that cannot
 * be read does not. */
bool ag_process_any_with(uint32_t first, const char *entry);
/* Whether process PID has mapped the live file at PATH. Also false if its mappings cannot be
 * read. */
bool ag_process_has_surely_mapped(uint32_t pid, const char *path);

/* CPU time and largest resident memory of the calling process so far. */
void ag_process_own_usage(uint64_t *ret_cpu_ns, uint64_t *ret_max_rss_bytes);

struct ag_process_watch { /* what the writer keeps open to watch one process */
    uint32_t pid;         /* 0: the process ended before the watch began, or its pid is unknown */
    int pidfd;            /* readable when the process has ended; -1: none, so /proc is polled */
    int statm_fd;         /* descriptor of /proc/PID/statm; -1: not open */
};
void ag_process_watch_start(struct ag_process_watch *watch, uint32_t pid);
void ag_process_watch_done(struct ag_process_watch *watch);
/* A zombie counts as ended. */
bool ag_process_watch_ended(const struct ag_process_watch *watch);
/* Is the process exiting, or gone? Its memory may be gone before it counts as ended. */
bool ag_process_is_leaving(uint32_t pid);
/* The resident memory and the CPU time of the process; 0: unknown, or the process is gone. */
uint64_t ag_process_watch_rss_bytes(struct ag_process_watch *watch);
uint64_t ag_process_watch_cpu_ns(const struct ag_process_watch *watch);
/* The resident memory of a process, as the kernel counts it, and its memory in the swap space. */
struct ag_process_memory {
    uint64_t anonymous_bytes, file_bytes, shmem_bytes, swap_bytes;
};
/* Reads up to CAPACITY - 1 bytes of /proc/PID/NAME and terminates them with NUL. Returns their
 * number; 0: the file is empty, or the process is gone. */
size_t ag_process_file_read(uint32_t pid, const char *name, char *text, size_t capacity);
/* false: the process has no memory any more, a signal that ends it at once (SIGKILL) is pending,
 * the pid is 0, or the kernel is older than 4.5. */
bool ag_process_memory(uint32_t pid, struct ag_process_memory *ret_memory);
/* Returns the status that wait(2) gives to the parent of an ended process, also when the parent is
 * another process. false: the status is unknown, for one of these reasons: the process lives; its
 * parent has waited for it already, and the kernel is older than 6.15; its parent has not waited
 * for it yet, and /proc shows 0, which may only mean that the status is hidden. */
bool ag_process_watch_wait_status(const struct ag_process_watch *watch, uint32_t *ret_status);

/* Whether process PID lives and has mapped the live file at PATH. Also true if its mappings cannot
 * be read. Called for a PID that was noted earlier, which another process may have by now. */
bool ag_process_has_mapped(uint32_t pid, const char *path);

#endif
