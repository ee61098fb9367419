/* remote_process.h: a process that allogram observes or attaches to: whether the process exists, is
 * still the same process, and may be read.
 *
 * The kernel reuses pids. So a process is identified by its pid and its start time, which
 * ag_remote_process_is_alive compares. */
#ifndef AG_REMOTE_PROCESS_H
#define AG_REMOTE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ag_remote_process {
    pid_t pid;
    uint64_t start_ticks; /* start time, in clock ticks since boot: field 22 of /proc/PID/stat */
    char name[32];        /* the kernel's name of the process */
    /* "" if the process sees the same files as we do, otherwise /proc/PID/root */
    char root[64];
    uid_t user;
};

/* Returns 0, or a negative errno with one line in ret_message: there is no such process, or it is a
 * zombie, a kernel thread or a 32-bit program, or the kernel does not let this process read its
 * memory. */
int ag_remote_process_open(pid_t pid, struct ag_remote_process *ret_process, char ret_message[512]);
/* Whether the process still exists, is not a zombie, and is not another process with the same
 * pid. */
bool ag_remote_process_is_alive(const struct ag_remote_process *process);
/* Whether the process is stopped by a signal or by its tracer. */
bool ag_remote_process_is_stopped(const struct ag_remote_process *process);
/* Writes one line, which says that the process has ended, and returns -ESRCH. */
int ag_remote_process_ended_error(const struct ag_remote_process *process, char ret_message[512]);
/* Returns the pid of the parent; 0: the parent is not visible here, or the process is gone. */
pid_t ag_remote_process_parent(pid_t pid);

/* Returns the CPU time of all threads so far, in ns, with the kernel's resolution of 10 ms. */
uint64_t ag_remote_process_cpu_ns(const struct ag_remote_process *process);
/* The kernel's letter for the state of a thread; 'X': the thread is gone. ret_cpu_ns: the CPU time
 * that the thread has used; may be NULL. */
char ag_remote_process_thread_state(pid_t pid, pid_t tid, uint64_t *ret_cpu_ns);
/* Returns the resident memory of the process; 0 if it is gone. */
uint64_t ag_remote_process_resident_bytes(const struct ag_remote_process *process);
/* Finds the path of the program's file in the process' own file system. Returns false if unknown.
 */
bool ag_remote_process_exe(const struct ag_remote_process *process, char *ret_path, size_t limit);

/* Reads /proc/PID/NAME, or with a TID /proc/PID/task/TID/NAME. Stores as much of the file as fits,
 * with a NUL at the end ("" on failure). Returns the number of bytes, or a negative errno. */
ssize_t ag_remote_process_file(pid_t pid, pid_t tid, const char *name, char *ret_text,
                               size_t limit);
/* Stores the ids of at most LIMIT threads of the process. Returns the number of all its threads. */
size_t ag_remote_process_threads(const struct ag_remote_process *process, pid_t *ret_threads,
                                 size_t limit);
/* Reads the kernel's name of a thread; "" if the thread is gone. */
void ag_remote_process_thread_name(const struct ag_remote_process *process, pid_t thread,
                                   char ret_name[32]);

#endif
