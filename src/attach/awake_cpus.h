/* awake_cpus.h: keeps the needed CPUs from sleeping while threads of a program are stopped.
 *
 * A thread that is made to call functions is woken and waited for a dozen times. On an otherwise
 * idle virtual machine the CPU on which it wakes, and ours, sleep in between, and waking one takes
 * longer than the call. Medians of 30 attachments to a thread that sleeps, us; the second numbers
 * are of another day (bench/results/diary.md):
 *
 *                    attach          detach
 *     CPUs awake     589, 655        294
 *     CPUs asleep    962, 1460       634
 *
 * So without this file an attach does not keep below a millisecond on every day. The cost is the
 * time that such a stop takes, on CPUs that nothing else uses, and half a second at most. */
#ifndef AG_AWAKE_CPUS_H
#define AG_AWAKE_CPUS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether one of our CPUs may be idle, so that it sleeps. If all are busy, threads that yield to
 * all others run late, and a process does not end before the last of its threads. */
bool ag_awake_cpus_are_wanted(void);
/* Returns the number of CPUs kept awake: until the end our own CPU, the one that PID's first thread
 * last ran on, and a few others run threads of allogram that yield to everything but the idle loop
 * (SCHED_IDLE): other threads get the CPU at once. If that is not permitted, nothing happens.
 * Called from one thread, with the signals blocked that the caller waits for. Neither begin nor end
 * waits, except a begin while threads of the previous turn still run; an end without a begin does
 * nothing. */
int ag_awake_cpus_begin(pid_t pid);
void ag_awake_cpus_end(void);
/* Called after an end: waits until all of its threads have ended. For callers that must be
 * single-threaded; process exit waits anyway. */
void ag_awake_cpus_wait(void);

#endif
