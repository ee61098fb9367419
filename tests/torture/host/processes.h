/* processes.h: functions for acts of torture programs that create processes: to end a process in
 * one of several ways, and to wait for it. */
#ifndef TORTURE_PROCESSES_H
#define TORTURE_PROCESSES_H

#include <stdint.h>
#include <sys/types.h>

/* Ends the process in the way with this number, 0 to 9 (exit, abort, a signal ...). For 0 the
 * function returns, so that the caller can return from main. */
void process_end(int kind);

/* Waits for a child and returns its wait status, without the bit for a core dump. */
uint64_t process_wait(pid_t child);

/* The code of a new child process: runs the inner acts of the node, stores their result in the slot
 * `result` of the file of counts (truth.h), and ends the process by process_end(ending) or, if
 * process_end returns, by _exit. */
_Noreturn void process_live(const void *node, uint64_t seed, unsigned result, int ending);

#endif
