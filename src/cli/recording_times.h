/* recording_times.h: --delay, --duration and --signal of `run`, which decide when it records. */
#ifndef AG_RECORDING_TIMES_H
#define AG_RECORDING_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/live_session.h"

struct ag_recording_times {
    uint64_t delay_ms, duration_ms; /* duration 0: no limit */
    bool has_delay, has_duration;
    int signal;      /* the one that starts, pauses and resumes; 0: none */
    uint64_t end_ms; /* on the monotonic clock; 0: not known yet, or never */
    enum { AG_TIMES_WAIT, AG_TIMES_RECORD, AG_TIMES_OVER } phase;
    uint64_t begin_ms;
};

enum ag_times_option { AG_OPTION_DELAY = 3072, AG_OPTION_DURATION, AG_OPTION_SIGNAL };
/* Parses the value of an option. Returns false if the value is invalid. */
bool ag_recording_times_set(struct ag_recording_times *times, enum ag_times_option option,
                            const char *value);
/* Called before the program runs, at NOW_MS of the monotonic clock. */
void ag_recording_times_start(struct ag_recording_times *times, struct ag_session *session,
                              uint64_t now_ms);
/* Starts or ends the recording if that is due. Returns the ms until the next step; -1: there is
 * none. */
int ag_recording_times_step(struct ag_recording_times *times, struct ag_session *session,
                            uint64_t now_ms);
/* Called when the signal was received. */
void ag_recording_times_toggle(struct ag_recording_times *times, struct ag_session *session,
                               uint64_t now_ms);

#endif
