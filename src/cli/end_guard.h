/* end_guard.h: makes a command that examines another process end at most one second after SIGINT,
 * SIGTERM or SIGHUP, whatever the other process does.
 *
 * The signals are blocked. A thread waits for the signals and stores the time of the first signal.
 * The loops of the command poll this time. A loop cannot poll while it waits in the kernel: for a
 * FUSE file system that does not answer, or for a page of memory that the examined process (the
 * target) has to provide itself (userfaultfd) and does not provide. Such waits end only when the
 * waiting process ends. So when the second is nearly over, the guard thread ends the command by
 * force, with status 128 + N after signal N.
 *
 * A command that changes the target has a foreground process (foreground.h). If this process has
 * stopped threads of the target, only the foreground process ends by force, and this process goes
 * on in the background until everything that it did is undone. If the foreground process is killed,
 * the guard thread sends this process SIGTERM. */
#ifndef AG_END_GUARD_H
#define AG_END_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Blocks the signals and starts the guard thread. NAME: name of the command, for the message of a
 * forced end. last_resort: called before a forced end, to remove the command's files. The command's
 * thread may be at any point of its code then, so last_resort may only make system calls and write
 * to memory. last_resort runs in a thread of its own, and the forced end comes 0.1 s later even if
 * last_resort has not returned. NULL: nothing to do. Returns 0 or a negative errno. Must be called
 * only once. */
int ag_end_guard_begin(const char *name, void (*last_resort)(void *context), void *context);
/* Returns the time of the first signal, in ns of CLOCK_MONOTONIC; 0: no signal was received. */
uint64_t ag_end_guard_asked_ns(void *unused);
/* Called by a command that has read one of the signals from a signalfd. The guard thread looks only
 * at pending signals, so it may not have seen the signal. */
void ag_end_guard_note(int signal_number);
/* Ends the guard: the rest of the command does not depend on another process, so it may take longer
 * than a second. */
void ag_end_guard_end(void);

#endif
