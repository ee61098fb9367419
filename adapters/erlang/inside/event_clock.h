/* event_clock.h: reads the time of the tracer's events, and subtracts the time that an event itself
 * takes; see event_clock.c. */
#ifndef AG_BEAM_EVENT_CLOCK_H
#define AG_BEAM_EVENT_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "record/raw_clock.h"

enum ag_event_kind { AG_EVENT_CALL, AG_EVENT_RETURN, AG_EVENT_OTHER, AG_EVENT_KINDS };

struct ag_event_clock {
    uint32_t kind;        /* enum ag_clock_kind */
    uint64_t ns_per_2_32; /* nanoseconds in 2^32 clock ticks */
    /* The emulator's own work, in clock ticks, between the end of an event and the beginning of the
     * next one; by the kinds of the two events. */
    uint64_t costs[AG_EVENT_KINDS][AG_EVENT_KINDS];
};
extern struct ag_event_clock ag_event_clock AG_HIDDEN;

/* Measures the clock's rate; takes some milliseconds. */
void ag_event_clock_start(void);
/* The current time, in clock ticks. Unlike the recorder's time stamps, this function does not wait
 * until earlier instructions have finished: waiting takes 10 ns, twice for each event. So some
 * instructions may run before or after the reading; this effect is part of the measured costs. */
AG_FAST uint64_t ag_event_clock_now(void) {
    return AG_LIKELY(ag_event_clock.kind == AG_CLOCK_TSC) ? __builtin_ia32_rdtsc()
                                                          : ag_raw_clock(ag_event_clock.kind);
}
/* Nanoseconds that the program ran between the end of an event (of the kind BEFORE, at the clock
 * FROM) and the beginning of the next (of the kind NOW, at the clock TO). */
AG_FAST uint64_t ag_event_clock_ns(uint64_t from, uint64_t to, enum ag_event_kind before,
                                   enum ag_event_kind now) {
    const uint64_t cost = ag_event_clock.costs[before][now];
    const uint64_t between = to - from;
    return to > from && between > cost
               ? (uint64_t)((unsigned __int128)(between - cost) * ag_event_clock.ns_per_2_32 >> 32)
               : 0;
}

/* While costs are measured: adds the interval between two events. */
void ag_event_clock_learn(uint64_t from, uint64_t to, enum ag_event_kind before,
                          enum ag_event_kind now);
/* Computes the costs from the added intervals. */
void ag_event_clock_settle(void);

#endif
