/* end_guard.h: makes a command that examines another process end at most one second after SIGINT,
 * SIGTERM or SIGHUP, whatever the other process does.
 *
 * The signals are blocked. A thread waits for them and stores the time of the first one, which the
 * loops of the command poll. A loop cannot poll while it waits in the kernel: for a FUSE file
 * system of the target's user that does not answer, or for a page of the target's memory that the
 * target handles itself (userfaultfd) and does not provide. Such waits end only with the waiting
 * process. So when the second is nearly over, the thread calls the function last_resort, which
 * removes the command's files, and ends the process. The kernel then releases the traced threads.
 */
#ifndef AG_END_GUARD_H
#define AG_END_GUARD_H

#include <stdint.h>

/* name: of the command, for the message at a forced end. last_resort: called in another thread
 * while the command is at any point, so it may only make system calls; NULL: nothing to do. Returns
 * 0 or a negative errno. Call it only once. */
int ag_end_guard_begin(const char *name, void (*last_resort)(void *context), void *context);
/* Returns the time of the first signal, in ns of CLOCK_MONOTONIC; 0: none has come. */
uint64_t ag_end_guard_asked_ns(void *unused);
/* Ends the guard: the rest of the command does not depend on another process and may take longer.
 */
void ag_end_guard_end(void);

#endif
