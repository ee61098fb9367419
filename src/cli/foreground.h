/* foreground.h: divides a command that changes another process (`attach`, `control`) into two
 * processes: the foreground process, for which the shell waits, and the worker, which does
 * everything.
 *
 * The worker traces threads of the other process (the target), and must not end meanwhile: the
 * kernel would resume these threads, but would not undo what the worker has changed in them. When a
 * thread of the target has executed a function for the worker, it returns to an instruction that
 * stops the thread (a trap). Without the worker, this trap would kill the target by SIGTRAP. A
 * system call that the stop has interrupted would return EINTR. But the user expects the prompt
 * within a second of Ctrl-C, and may kill the command. So only the foreground process ends then,
 * and the worker completes its work in the background.
 *
 * The worker has a session of its own (setsid), so that the terminal sends its signals to the
 * foreground process only, which passes them on. If the worker stops itself, the foreground process
 * stops by SIGTSTP, and later continues the worker. If the foreground process is killed, the worker
 * gets SIGTERM (end_guard.h watches ag_foreground_fd). */
#ifndef AG_FOREGROUND_H
#define AG_FOREGROUND_H

#include <stdbool.h>

#define AG_ATTACH_WORKER_NAME "allogram-attach" /* at most 15 bytes */

/* Forks, and returns in the worker; NAME is the name that ps shows for it. The foreground process
 * does not return: it ends with the worker's status. passes_stop: the worker gets SIGTSTP, and
 * stops itself by SIGSTOP; otherwise only the foreground process stops. Called while the process
 * has one thread. Returns 0, or a negative errno: there is no second process. */
int ag_foreground_begin(const char *name, bool passes_stop);
/* A descriptor that hangs up (POLLHUP) when the foreground process ends; -1: there is none. */
int ag_foreground_fd(void);
/* Whether the foreground process has ended before ag_foreground_leave was called. */
bool ag_foreground_was_killed(void);
/* Makes the foreground process end with STATUS, and replaces this process' standard input, output
 * and error by /dev/null. Only the first call has an effect; any thread may call it. Returns false
 * if there is no foreground process. */
bool ag_foreground_leave(int status);

#endif
