/* remote_process.h: a process being observed: whether it exists, is still the same, and may be
 * read.
 *
 * The kernel reuses pids. A process is identified by its start time, which is compared again
 * whenever something looks wrong. */
#ifndef AG_REMOTE_PROCESS_H
#define AG_REMOTE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ag_remote_process {
    pid_t pid;
    uint64_t start_ticks; /* since boot: field 22 of /proc/PID/stat */
    char name[32];        /* the kernel's name for it */
    char root[64];        /* "" if it sees the same files as we do, else /proc/PID/root */
    uid_t user;
    bool is_64_bit;
};

/* 0; or a negative errno and in ret_message one line with the remedy: no such process, a zombie, a
 * kernel thread, another user's, a 32-bit program. */
int ag_remote_process_open(pid_t pid, struct ag_remote_process *ret_process, char ret_message[512]);
/* Whether it still exists, is not a zombie, and is not another process with the same pid. */
bool ag_remote_process_is_alive(const struct ag_remote_process *process);
/* Whether it is stopped by a signal or by its tracer. */
bool ag_remote_process_is_stopped(const struct ag_remote_process *process);

/* CPU time of all its threads so far, in ns, at the kernel's resolution (10 ms or better). */
uint64_t ag_remote_process_cpu_ns(const struct ag_remote_process *process);
/* Its resident memory; 0 when it is gone. */
uint64_t ag_remote_process_resident_bytes(const struct ag_remote_process *process);
/* Its arguments, each terminated by a zero; at most LIMIT bytes. Returns the number of bytes. */
size_t ag_remote_process_command(const struct ag_remote_process *process, char *ret_command,
                                 size_t limit);
/* The program's file as a path in the process' own file system; false: unknown. */
bool ag_remote_process_exe(const struct ag_remote_process *process, char *ret_path, size_t limit);

/* Reads /proc/PID/NAME, or with a TID /proc/PID/task/TID/NAME, as far as it fits, and terminates it
 * ("" on failure). The number of bytes, or a negative errno. */
ssize_t ag_remote_process_file(pid_t pid, pid_t tid, const char *name, char *ret_text,
                               size_t limit);
/* Its current threads, as many as fit; returns how many there are. */
size_t ag_remote_process_threads(const struct ag_remote_process *process, pid_t *ret_threads,
                                 size_t limit);
/* The kernel's name of a thread; "" when the thread is gone. */
void ag_remote_process_thread_name(const struct ag_remote_process *process, pid_t thread,
                                   char ret_name[32]);

#endif
