/* awake_cpus.h: no CPU that is needed sleeps while threads of a program stand.
 *
 * A thread that is made to call something is woken and waited for a dozen times. On a virtual
 * machine that has nothing else to do the CPU it wakes on, and ours, sleep in between, and to wake
 * one takes longer than the call: with the CPUs awake a thread stood 589 us at an attach and 294 at
 * a detach, without 962 and 634 (medians of 30, docs/overhead.md). */
#ifndef AG_AWAKE_CPUS_H
#define AG_AWAKE_CPUS_H

#include <stdbool.h>
#include <sys/types.h>

/* May a CPU of ours be free, so that it sleeps? Where all are busy, what gives way to everybody
 * comes to run late, and a process is not gone before the last of its threads. */
bool ag_awake_cpus_are_wanted(void);
/* Returns how many CPUs are kept awake: from here to the end our own CPU, the one that PID's first
 * thread ran on last, and a few others run threads of ours that only the idle loop gives way to
 * (SCHED_IDLE): whoever wants a CPU has it at once. Where that is not allowed, nothing happens.
 * Called from one thread, with the signals blocked that the caller waits for. Neither waits, but
 * for a beginning that comes while threads of the turn before have not yet run to their end; an end
 * without a beginning is nothing. */
int ag_awake_cpus_begin(pid_t pid);
void ag_awake_cpus_end(void);
/* After an end: until all have run to theirs. For who has to be alone then; our own end waits
 * anyway. */
void ag_awake_cpus_wait(void);

#endif
