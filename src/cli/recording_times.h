/* recording_times.h: the options --delay, --duration and --signal, which determine when `run`
 * records. */
#ifndef AG_RECORDING_TIMES_H
#define AG_RECORDING_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/live_session.h"

struct ag_recording_times {
    uint64_t delay_ms, duration_ms; /* duration 0: no limit */
    bool has_delay, has_duration;
    /* number of the signal that starts, pauses and resumes the recording; 0: none */
    int signal;
    uint64_t end_ms; /* end of the recording on the monotonic clock; 0: not known yet, or no end */
    enum { AG_TIMES_WAIT, AG_TIMES_RECORD, AG_TIMES_OVER } phase;
    uint64_t begin_ms; /* end of the delay on the monotonic clock */
};

enum ag_times_option { AG_OPTION_DELAY = 3072, AG_OPTION_DURATION, AG_OPTION_SIGNAL };
/* Parses the value of an option. Returns false if the value is invalid. */
bool ag_recording_times_set(struct ag_recording_times *times, enum ag_times_option option,
                            const char *value);
/* Called before the program runs. Starts the recording, or the delay. NOW_MS: time of the monotonic
 * clock. */
void ag_recording_times_start(struct ag_recording_times *times, struct ag_session *session,
                              uint64_t now_ms);
/* Starts the recording if the delay is over, and ends it if the duration is over. Returns the time
 * in ms until the next call is needed; -1: no call is needed. */
int ag_recording_times_step(struct ag_recording_times *times, struct ag_session *session,
                            uint64_t now_ms);
/* Called when the signal of --signal was received: starts, pauses or resumes the recording. */
void ag_recording_times_toggle(struct ag_recording_times *times, struct ag_session *session,
                               uint64_t now_ms);

#endif
