/* remote_process.h: a process that is looked at: is it there, is it still the same, may we read it.
 *
 * A pid is a number that the kernel gives to somebody else one day. What pins the process is its
 * start time, which is asked for again whenever something looks wrong. */
#ifndef AG_REMOTE_PROCESS_H
#define AG_REMOTE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ag_remote_process {
    pid_t pid;
    uint64_t start_ticks; /* since boot: field 22 of /proc/PID/stat */
    char name[32];        /* as the kernel has it */
    char root[64];        /* "" when it sees the same files as we do, else /proc/PID/root */
    uid_t user;
    bool is_64_bit;
};

/* 0; or a negative errno and in ret_message one line with the remedy: no such process, a zombie, a
 * thread of the kernel, another user's, a 32-bit program. */
int ag_remote_process_open(pid_t pid, struct ag_remote_process *ret_process, char ret_message[512]);
/* Is it there, and not a zombie, and not another one under the same number? */
bool ag_remote_process_is_alive(const struct ag_remote_process *process);
/* By a signal, or by who traces it. */
bool ag_remote_process_is_stopped(const struct ag_remote_process *process);

/* CPU time of all its threads so far, in ns, as fine as the kernel tells (10 ms or better). */
uint64_t ag_remote_process_cpu_ns(const struct ag_remote_process *process);
/* Its resident memory; 0 when it is gone. */
uint64_t ag_remote_process_resident_bytes(const struct ag_remote_process *process);
/* Its arguments, each ended by a zero; at most LIMIT bytes. Returns how many bytes. */
size_t ag_remote_process_command(const struct ag_remote_process *process, char *ret_command,
                                 size_t limit);
/* The program's file as a path in the process' own file system; false: not to be told. */
bool ag_remote_process_exe(const struct ag_remote_process *process, char *ret_path, size_t limit);

/* Its threads now, as many as fit; returns how many there are. */
size_t ag_remote_process_threads(const struct ag_remote_process *process, pid_t *ret_threads,
                                 size_t limit);
/* What the kernel calls a thread; "" when it is gone. */
void ag_remote_process_thread_name(const struct ag_remote_process *process, pid_t thread,
                                   char ret_name[32]);

#endif
