/* session_control.h: what somebody outside asks of a session that runs (`allogram control PID`).
 *
 * Pausing, resuming, resetting and stopping concern all processes of the session: they are words of
 * the header, which recorders look at with each tick. A dump is one process': its writer writes
 * it. */
#ifndef AG_SESSION_CONTROL_H
#define AG_SESSION_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "writer.h"

enum ag_control {
    AG_CONTROL_PAUSE,
    AG_CONTROL_RESUME,
    AG_CONTROL_RESET,
    AG_CONTROL_DUMP,
    AG_CONTROL_STOP,
};

/* A process of the session, as it knows itself. */
struct ag_controlled {
    uint32_t pid;
    uint64_t pid_namespace; /* inode of /proc/PID/ns/pid; 0: unknown */
};

/* Does ACTION, and returns when it is done: with DUMP when the file is whole, with the others when
 * recorders are told (a program that allocates sees it within some milliseconds). ret_path: of the
 * trace, with DUMP of the dump. 0; -ENOENT: that process has no part in the session; -EALREADY: it
 * is so; -EBUSY, -ETIMEDOUT, ... each with one line in ret_message. */
int ag_session_ask(struct ag_session *session, const struct ag_controlled *process,
                   enum ag_control action, char ret_path[4096], char ret_message[512]);

/* Is there somebody who drains it, and seals its traces? */
bool ag_session_has_writer(const struct ag_session *session);

/* Who keeps it; ret_pid is its pid, in the namespace of who made the session. */
enum ag_keeper ag_session_keeper(const struct ag_session *session, pid_t *ret_pid);

#endif
