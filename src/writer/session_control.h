/* session_control.h: performs requests of another process to a running session (`allogram control
 * PID`).
 *
 * Pausing, resuming, resetting and stopping concern all processes of the session. These actions
 * change words in the header of the live segment, the memory that the session shares with its
 * processes. A recorded thread reads these words at its first event after a tick of the writer (a
 * tick is about a millisecond). A dump (a trace of one process up to now) is written by the
 * session's writer, the process that makes the traces. */
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

struct ag_controlled {      /* a process of the session */
    uint32_t pid;           /* in its own PID namespace */
    uint64_t pid_namespace; /* inode of /proc/PID/ns/pid; 0: unknown */
};

/* Performs ACTION. A dump is complete on return. A resume returns when all processes have installed
 * their hooks again, or after 30 s (-ETIMEDOUT). The other actions take effect in the recorded
 * processes some milliseconds later. ret_path: the path of the dump, or of the process' trace.
 * Returns 0; -ENOENT: the process is not in the session; -EALREADY: nothing to change; or another
 * negative errno. Each failure has one line in ret_message. */
int ag_session_ask(struct ag_session *session, const struct ag_controlled *process,
                   enum ag_control action, char ret_path[4096], char ret_message[512]);

/* Returns which kind of process made the session and waits for its end (enum ag_keeper in
 * segment.h). *ret_pid: the pid of that process, in its own PID namespace. */
enum ag_keeper ag_session_keeper(const struct ag_session *session, pid_t *ret_pid);

#endif
