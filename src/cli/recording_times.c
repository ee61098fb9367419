/* recording_times.c: starts, pauses and ends the recording of `run` as --delay, --duration and
 * --signal request. During the delay, the signal starts the recording; afterwards it pauses and
 * resumes the recording. The duration includes pauses. When the duration is over, the recording
 * cannot be resumed: the trace shows what was in use at that moment. */
#include "cli/recording_times.h"

#include <limits.h>

#include "cli/options.h"
#include "cli/recording_options.h"

enum { NS_PER_MS = 1000 * 1000 };

static bool parse_ms(const char *text, uint64_t *ret_ms) {
    uint64_t time_ns;
    if (!ag_parse_time(text, &time_ns)) {
        return false;
    }
    *ret_ms = time_ns / NS_PER_MS + (time_ns % NS_PER_MS != 0);
    return true;
}

bool ag_recording_times_set(struct ag_recording_times *times, enum ag_times_option option,
                            const char *value) {
    uint64_t number;
    switch (option) {
    case AG_OPTION_DELAY:
        times->has_delay = parse_ms(value, &times->delay_ms);
        return times->has_delay;
    case AG_OPTION_DURATION:
        times->has_duration = parse_ms(value, &times->duration_ms) && times->duration_ms > 0;
        return times->has_duration;
    case AG_OPTION_SIGNAL:
        if (!ag_dump_signal_parse(value, &number)) {
            return false;
        }
        times->signal = (int)number;
        return true;
    }
    return false;
}

static void recording_times_begin(struct ag_recording_times *times, struct ag_session *session,
                                  uint64_t now_ms) {
    times->phase = AG_TIMES_RECORD;
    times->end_ms = times->has_duration ? now_ms + times->duration_ms : 0;
    (void)ag_session_pause(session, AG_PAUSE_NONE);
}

void ag_recording_times_start(struct ag_recording_times *times, struct ag_session *session,
                              uint64_t now_ms) {
    times->begin_ms = now_ms + times->delay_ms;
    if (times->delay_ms > 0) {
        (void)ag_session_pause(session, AG_PAUSE_ALL);
    } else {
        recording_times_begin(times, session, now_ms);
    }
}

int ag_recording_times_step(struct ag_recording_times *times, struct ag_session *session,
                            uint64_t now_ms) {
    if (times->phase == AG_TIMES_WAIT && now_ms >= times->begin_ms) {
        recording_times_begin(times, session, now_ms);
    }
    if (times->phase != AG_TIMES_WAIT && times->end_ms != 0 && now_ms >= times->end_ms) {
        times->phase = AG_TIMES_OVER;
        times->end_ms = 0;
        (void)ag_session_pause(session, AG_PAUSE_ALL);
    }
    const uint64_t next_ms = times->phase == AG_TIMES_WAIT ? times->begin_ms : times->end_ms;
    if (next_ms == 0) {
        return -1;
    }
    return next_ms - now_ms < INT_MAX ? (int)(next_ms - now_ms) : INT_MAX;
}

void ag_recording_times_toggle(struct ag_recording_times *times, struct ag_session *session,
                               uint64_t now_ms) {
    switch (times->phase) {
    case AG_TIMES_WAIT:
        recording_times_begin(times, session, now_ms);
        break;
    /* `control` may have paused the recording, too, so its current state is examined */
    case AG_TIMES_RECORD:
        (void)ag_session_pause(
            session, ag_session_paused(session) == AG_PAUSE_NONE ? AG_PAUSE_BIRTHS : AG_PAUSE_NONE);
        break;
    case AG_TIMES_OVER:
        break;
    }
}
