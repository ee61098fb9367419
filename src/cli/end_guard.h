/* end_guard.h: a command that looks at a process ends within one second of SIGINT, SIGTERM or
 * SIGHUP, whatever that process does.
 *
 * The signals are blocked; a thread waits for them and notes when the first one came, for the loops
 * of the command to ask. A loop cannot ask while it waits in the kernel: a file system of the
 * target's user that does not answer, a page of its memory that its own handler holds back. Such
 * waits end only with the process. So when the second is nearly over the thread ends it, after the
 * command's last resort: removing its files. The kernel lets go what was traced. */
#ifndef AG_END_GUARD_H
#define AG_END_GUARD_H

#include <stdint.h>

/* NAME of the command, for the line of the last resort. last_resort runs in another thread while
 * the command is anywhere: system calls only; may be NULL. 0 or a negative errno. Once. */
int ag_end_guard_begin(const char *name, void (*last_resort)(void *context), void *context);
/* When the end was asked for, by CLOCK_MONOTONIC; 0: it was not. */
uint64_t ag_end_guard_asked_ns(void *unused);
/* What follows depends on nobody: it may take its time. */
void ag_end_guard_end(void);

#endif
