/* process_watch.h: what the kernel tells about the session's processes: do they live, how much
 * memory, how much time. */
#ifndef AG_PROCESS_WATCH_H
#define AG_PROCESS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* The inode that names the pid namespace we live in; 0: unknown. */
uint64_t ag_process_own_namespace(void);
/* Now, in the clock ticks since the start of the machine by which /proc dates processes. */
uint64_t ag_process_boot_ticks(void);

/* A process as it names itself. */
struct ag_process_sought {
    uint32_t pid;
    uint64_t namespace;          /* in which pid counts; 0: it could not learn that */
    bool namespace_is_inherited; /* it did not look: its parent's, or one that its parent chose */
    const char *path;            /* of the live file, which it has mapped */
    uint32_t parent;             /* our number of the process that forked it; 0: unknown */
    uint64_t not_before_ticks;   /* it began then or later, as ag_process_boot_ticks counts */
};
enum ag_process_found {
    AG_PROCESS_GONE,   /* there is no such process */
    AG_PROCESS_FOUND,  /* ret_pid is our number of it */
    AG_PROCESS_UNCLEAR /* it may live; which of our numbers it has cannot be said */
};
/* ret_pid: 0 where it is not found. */
enum ag_process_found ag_process_find(const struct ag_process_sought *sought, uint32_t *ret_pid);

/* Of a process that lives, by our number: how it knows itself, in the innermost of its pid
 * namespaces. ret_namespace: 0 where it cannot be told, as to another user; the number is ours
 * then. */
uint32_t ag_process_know(uint32_t pid, uint64_t *ret_namespace);

/* Of a thread by our number of its process and its own number of itself. Untouched where it is gone
 * or cannot be found. has_our_numbers: of that process. */
void ag_process_thread_name(uint32_t pid, bool has_our_numbers, uint32_t thread_id,
                            char ret_name[16]);
/* Does it know itself, and its threads, by the numbers that we have for them? */
bool ag_process_has_our_numbers(uint32_t pid, uint32_t own_pid);

/* Of a process by our number. Names are its own: any bytes. */
bool ag_process_lives(uint32_t pid);
uint64_t ag_process_start_ticks(uint32_t pid); /* as ag_process_boot_ticks; UINT64_MAX: unknown */
void ag_process_name(uint32_t pid, char ret_name[16]); /* untouched when it is gone */
/* It has ended, and its parent, which it knew by this number of ours, has not asked how. */
bool ag_process_is_unreaped(uint32_t pid, uint32_t parent);
/* Which file it executes, as a number; 0: it may not be known. */
uint64_t ag_process_program(uint32_t pid);
bool ag_process_names_itself(uint32_t pid, uint32_t number);
/* false: also where it may not be known. */
bool ag_process_has_surely_mapped(uint32_t pid, const char *path);

struct ag_process_watch { /* of one process */
    uint32_t pid;         /* 0: it had ended before, or is not known */
    int pidfd;    /* readable when the process has ended; -1: the kernel has none, /proc is asked
                     instead */
    int statm_fd; /* -1: not open */
};
void ag_process_watch_start(struct ag_process_watch *watch, uint32_t pid);
void ag_process_watch_done(struct ag_process_watch *watch);
/* A zombie has ended. */
bool ag_process_watch_ended(const struct ag_process_watch *watch);
/* It is on its way out: its memory may be gone before it counts as ended. */
bool ag_process_watch_is_leaving(const struct ag_process_watch *watch);
/* 0 when nobody knows (any more). */
uint64_t ag_process_watch_rss_bytes(struct ag_process_watch *watch);
uint64_t ag_process_watch_cpu_ns(const struct ag_process_watch *watch);
/* What wait(2) tells the parent of one that has ended, also when that is not us. false: nobody
 * knows: it lives, or its parent was faster and the kernel is older than 6.15. */
bool ag_process_watch_wait_status(const struct ag_process_watch *watch, uint32_t *ret_status);

/* Does a process of this number (ours, not its own) live, and does it have the file mapped? For
 * sessions whose writer is gone: the number may be somebody else's by now. A process that cannot
 * be looked into counts as living. */
bool ag_process_has_mapped(uint32_t pid, const char *path);

#endif
