/* urgency.h: real-time priority for the processes of allogram that a user or a stopped program
 * waits for. If a process may not get it (only root may, as a rule), these functions do nothing,
 * and the wait takes longer when the machine is busy. */
#ifndef AG_URGENCY_H
#define AG_URGENCY_H

#include <sys/types.h>

/* Gives this thread the priority until ag_urgency_end. The caller may use the CPU only briefly
 * between two waits. */
void ag_urgency_begin(void);
void ag_urgency_end(void);

/* Must be called by a process before another process passes its pid to ag_urgency_hurry: installs a
 * handler of SIGXCPU that gives the priority back. Without it, the signal ends the process. */
void ag_urgency_allow(void);
/* Gives the first thread of process PID (0: this process) and all threads that it starts later the
 * priority, so that the process ends soon although thousands of threads want to run. The process
 * loses the priority when one of its threads has used 0.3 s of CPU time without a wait. Call it
 * only when the process will start no further processes, because they would inherit the
 * priority. */
void ag_urgency_hurry(pid_t pid);

#endif
