/* processes.h: functions for acts of torture programs that create processes: to end a process in
 * one of several ways, and to wait for it. */
#ifndef TORTURE_PROCESSES_H
#define TORTURE_PROCESSES_H

#include <stdint.h>
#include <sys/types.h>

/* Ends the process in the way with this number, 0 to 9; for 0 it returns, so that main returns. */
void process_end(int kind);

/* Waits for a child and returns its wait status, without the bit for a core dump. */
uint64_t process_wait(pid_t child);

/* In a new child: runs the node's children, stores their result in the slot of this number,
 * ends. */
_Noreturn void process_live(const void *node, uint64_t seed, unsigned result, int ending);

#endif
