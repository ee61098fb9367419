/* processes.h: how processes of a rude program end, and how one waits for them. */
#ifndef TORTURE_PROCESSES_H
#define TORTURE_PROCESSES_H

#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_ENDS = 10 };

/* Ends the process in the way with this number; returns for 0, so that main returns. */
void process_end(int kind);

/* Waits for a child and makes a number of how it ended. */
uint64_t process_wait(pid_t child);

/* In a new child: runs the node's children, leaves their result, ends. */
_Noreturn void process_live(const void *node, uint64_t seed, unsigned result, int ending);

#endif
