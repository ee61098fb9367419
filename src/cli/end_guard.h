/* end_guard.h: makes a command that examines another process end at most one second after SIGINT,
 * SIGTERM or SIGHUP, whatever the other process does.
 *
 * The signals are blocked. A thread waits for the signals and stores the time of the first signal.
 * The loops of the command poll this time. A loop cannot poll while it waits in the kernel: for a
 * FUSE file system that does not answer, or for a page of memory that the examined process (the
 * target) has to provide itself (userfaultfd) and does not provide. Such waits end only when the
 * waiting process ends. So when the second is nearly over, the thread calls the function
 * last_resort, which removes the command's files. Then the thread ends the command's process, with
 * status 128 + N after signal N, and the kernel resumes the threads of the target that this process
 * had stopped with ptrace. */
#ifndef AG_END_GUARD_H
#define AG_END_GUARD_H

#include <stdint.h>

/* Blocks the signals and starts the thread. NAME: name of the command, for the message of a forced
 * end. last_resort: called by the thread while the command may be at any point of its code, so it
 * may only make system calls; NULL: nothing to do. Returns 0 or a negative errno. Must be called
 * only once. */
int ag_end_guard_begin(const char *name, void (*last_resort)(void *context), void *context);
/* Returns the time of the first signal, in ns of CLOCK_MONOTONIC; 0: no signal was received. */
uint64_t ag_end_guard_asked_ns(void *unused);
/* Called by a command that has read a signal from a signalfd: the thread, which looks at pending
 * signals, may not have seen this signal. */
void ag_end_guard_note(int signal_number);
/* Ends the guard: the rest of the command does not depend on another process, so it may take longer
 * than a second. */
void ag_end_guard_end(void);

#endif
