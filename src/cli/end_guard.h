/* end_guard.h: makes a command that examines another process end at most one second after SIGINT,
 * SIGTERM or SIGHUP, whatever the other process does. In two cases described below the end takes up
 * to ten seconds: the command finds no free CPU, or it has stopped threads of the other process and
 * makes progress.
 *
 * The signals are blocked. A thread waits for the signals and stores the time of the first signal.
 * The loops of the command poll this time. A loop cannot poll while it waits in the kernel: for a
 * FUSE file system that does not answer, or for a page of memory that the examined process (the
 * target) has to provide itself (userfaultfd) and does not provide. Such waits end only when the
 * waiting process ends. So when the second is nearly over, the guard thread ends the command by
 * force: it calls the function last_resort, which removes the command's files, and ends the
 * command's process, with status 128 + N after signal N.
 *
 * A forced end is dangerous while the command has stopped threads of the target with ptrace. The
 * kernel then resumes these threads, but it restores nothing: a thread that executes a function for
 * the command (a remote call) returns to a trap and dies of SIGTRAP with its process; a system call
 * that the stop has interrupted returns EINTR; code that is changed in two steps may be half
 * changed. So the command holds the guard (ag_end_guard_hold) while a thread of the target is
 * stopped, and reports progress (ag_end_guard_alive). While the guard is held, the guard thread
 * ends the command in two cases only: the command is blocked, because its thread has waited in the
 * kernel for nearly a second without progress; or ten seconds have passed since the signal. A
 * thread of the command that wants to run but gets no CPU is not blocked. */
#ifndef AG_END_GUARD_H
#define AG_END_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Blocks the signals and starts the guard thread. NAME: name of the command, for the message of a
 * forced end. last_resort: called while the command's thread may be at any point of its code, so
 * last_resort may only make system calls and write to memory; is_held is true if the command holds
 * the guard. last_resort runs in a thread of its own, and the command ends 0.1 s later even if
 * last_resort has not returned. NULL: nothing to do. Returns 0 or a negative errno. Must be called
 * only once. */
int ag_end_guard_begin(const char *name, void (*last_resort)(void *context, bool is_held),
                       void *context);
/* Returns the time of the first signal, in ns of CLOCK_MONOTONIC; 0: no signal was received. */
uint64_t ag_end_guard_asked_ns(void *unused);
/* Called by a command that has read one of the signals from a signalfd. The guard thread looks only
 * at pending signals, so it may not have seen the signal. */
void ag_end_guard_note(int signal_number);
/* The next two functions are called by the thread that called ag_end_guard_begin. BY is 1 before
 * the first thread of the target is stopped, and -1 after the last one is resumed; such pairs of
 * calls may be nested. A call with 1 does not return if the forced end has begun. */
void ag_end_guard_hold(int by);
/* Reports progress. Called at each pass of a loop that runs while the guard is held. */
void ag_end_guard_alive(void);
/* Ends the guard: the rest of the command does not depend on another process, so it may take longer
 * than a second. */
void ag_end_guard_end(void);

#endif
