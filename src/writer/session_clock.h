/* session_clock.h: the clock of a session, the recording of one or more processes. Recorders (the
 * code inside these processes) store raw values (of the CPU's time stamp counter or
 * CLOCK_MONOTONIC); the writer, the process that makes the traces, calibrates the factor that
 * converts them to nanoseconds, and increments header.tick about every millisecond (segment.h,
 * section 5). */
#ifndef AG_SESSION_CLOCK_H
#define AG_SESSION_CLOCK_H

#include "base/clock.h"
#include "session.h"

uint64_t ag_session_clock_raw(uint32_t kind);
/* Returns the fastest kind of clock that is the same on all CPUs of this machine. */
enum ag_clock_kind ag_session_clock_choose(void);

uint64_t ag_session_clock_now_ns(const struct ag_session *session);

/* Sets the origin of the session's clock, and a first factor. Called by the process that creates
 * the session. */
void ag_session_clock_begin(struct ag_session *session);

struct ag_session_clock {   /* the writer's part; zero-initialize */
    uint64_t last_tick_ns;  /* CLOCK_MONOTONIC of the last tick */
    uint64_t next_refit_ns; /* CLOCK_MONOTONIC when the factor is refitted next */
};
/* Call often. Increments header.tick if a millisecond has passed, and refits the factor now and
 * then. Returns CLOCK_MONOTONIC in ns. */
uint64_t ag_session_clock_tick(struct ag_session_clock *clock, struct ag_session *session);

/* Returns the session's time in ns, and then increments header.tick. An event that happens after
 * the call has a later time in the trace. Without the increment it may have the time of the last
 * tick, and the writer, which shares a full machine or cgroup with the program, may have been
 * stopped for long since then. Call it before a measurement that readers compare with the events
 * before and after it. */
uint64_t ag_session_clock_mark(struct ag_session_clock *clock, struct ag_session *session);

#endif
