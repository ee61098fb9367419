/* session_control.h: requests from outside to a running session (`allogram control PID`).
 *
 * Pausing, resuming, resetting and stopping concern all processes of the session: they are words of
 * the header, which recorders read with each tick. A dump concerns one process and is written by
 * the session's writer. */
#ifndef AG_SESSION_CONTROL_H
#define AG_SESSION_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "live_session.h"

enum ag_control {
    AG_CONTROL_PAUSE,
    AG_CONTROL_RESUME,
    AG_CONTROL_RESET,
    AG_CONTROL_DUMP,
    AG_CONTROL_STOP,
};

/* A process of the session, as it identifies itself. */
struct ag_controlled {
    uint32_t pid;
    uint64_t pid_namespace; /* inode of /proc/PID/ns/pid; 0: unknown */
};

/* Performs ACTION and returns when it is done: for DUMP when the file is complete, for the others
 * when recorders are notified (a program that allocates sees it within some milliseconds).
 * ret_path: of the trace, for DUMP of the dump. 0; -ENOENT: the process is not in the session;
 * -EALREADY: nothing to change; -EBUSY, -ETIMEDOUT, ... each with one line in ret_message. */
int ag_session_ask(struct ag_session *session, const struct ag_controlled *process,
                   enum ag_control action, char ret_path[4096], char ret_message[512]);

/* Returns the session's keeper; ret_pid is its pid, in the namespace of the process that made the
 * session. */
enum ag_keeper ag_session_keeper(const struct ag_session *session, pid_t *ret_pid);

#endif
