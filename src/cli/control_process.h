/* control_process.h: `allogram control PID`: sends a request to the recording of a process on this
 * machine. */
#ifndef AG_CONTROL_PROCESS_H
#define AG_CONTROL_PROCESS_H

#include <sys/types.h>

/* The words of the command line, in the order of enum ag_control; then NULL. */
extern const char *const ag_control_actions[];

/* PID is a recorded process, or the `allogram run` or `attach` that records it. Prints the path of
 * a dump. Returns the exit status. */
int ag_control_process(pid_t pid, const char *action);

#endif
