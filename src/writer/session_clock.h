/* session_clock.h: the session's clock: the writer ticks it and calibrates its raw unit. */
#ifndef AG_SESSION_CLOCK_H
#define AG_SESSION_CLOCK_H

#include "base/clock.h"
#include "session.h"

uint64_t ag_session_clock_raw(uint32_t kind);
/* Returns the kind of clock that this machine keeps equal on all CPUs. */
enum ag_clock_kind ag_session_clock_choose(void);

uint64_t ag_session_clock_now_ns(const struct ag_session *session);

/* Sets the session's origin and a first factor; called by the process that makes the session. */
void ag_session_clock_begin(struct ag_session *session);

struct ag_session_clock {   /* zero-initialise */
    uint64_t last_tick_ns;  /* CLOCK_MONOTONIC of the last tick */
    uint64_t next_refit_ns; /* CLOCK_MONOTONIC when the factor is refitted next */
};
/* Call often: bumps header.tick when a millisecond has passed and refits the factor now and then.
 * Returns monotonic ns. */
uint64_t ag_session_clock_tick(struct ag_session_clock *clock, struct ag_session *session);

#endif
