/* end_guard.h: ends a command that examines another process within one second of SIGINT, SIGTERM or
 * SIGHUP, whatever that process does.
 *
 * The signals are blocked; a thread waits for them and stores when the first one came, and the
 * loops of the command poll that. A loop cannot poll while it waits in the kernel: for a file
 * system of the target's user that does not answer, or for a page of its memory that its own
 * handler holds back. Such waits end only with the waiting process. So when the second is nearly
 * over, the thread executes the command's last resort, which removes its files, and ends the
 * process. The kernel then releases the traced threads. */
#ifndef AG_END_GUARD_H
#define AG_END_GUARD_H

#include <stdint.h>

/* NAME of the command, for the message of the last resort. last_resort runs in another thread at
 * any point of the command: it may only make system calls; may be NULL. 0 or a negative errno. Call
 * it once. */
int ag_end_guard_begin(const char *name, void (*last_resort)(void *context), void *context);
/* Returns when the end was requested, by CLOCK_MONOTONIC; 0: it was not. */
uint64_t ag_end_guard_asked_ns(void *unused);
/* Ends the guard: what follows does not depend on another process and may take its time. */
void ag_end_guard_end(void);

#endif
