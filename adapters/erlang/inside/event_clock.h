/* event_clock.h: reads the time of the events of the tracer (the code that Erlang's call tracing
 * calls at each call and return), and subtracts the time that an event itself takes; see
 * event_clock.c. */
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
    /* The work of the emulator (Erlang's virtual machine) between the end of an event and the
     * beginning of the next event, by the kinds of the two events, times 2^16 and divided by the
     * pace of the thread (ag_event_pace, below). */
    uint64_t costs[AG_EVENT_KINDS][AG_EVENT_KINDS];
    uint64_t usual_pace; /* a typical sample of the pace while costs were measured */
};
extern struct ag_event_clock ag_event_clock AG_HIDDEN;

/* Measures the clock's rate; takes some milliseconds. Returns the limit of the rate's error, in
 * millionths of the rate. */
uint32_t ag_event_clock_start(void);
/* The current time, in clock ticks. Unlike the recorder's time stamps, this function does not wait
 * until earlier instructions have finished: waiting takes 10 ns, twice for each event. So some
 * instructions may run before or after the reading; this effect is part of the measured costs. */
AG_FAST uint64_t ag_event_clock_now(void) {
    return AG_LIKELY(ag_event_clock.kind == AG_CLOCK_TSC) ? __builtin_ia32_rdtsc()
                                                          : ag_raw_clock(ag_event_clock.kind);
}
/* The pace of a thread: how many clock ticks the emulator needs from its first question whether a
 * call is wanted to the event, see event_clock.c. */
extern _Thread_local uint64_t ag_event_pace AG_HIDDEN; /* 0: unknown */
AG_FAST void ag_event_pace_add(uint64_t sample) {
    enum { LONGEST = 8, OLD_LOG2 = 3 };
    const uint64_t usual = ag_event_clock.usual_pace;
    if (usual == 0 || sample < usual * LONGEST) { /* otherwise the thread was preempted */
        ag_event_pace = ag_event_pace == 0
                            ? sample
                            : ag_event_pace + (sample >> OLD_LOG2) - (ag_event_pace >> OLD_LOG2);
    }
}

/* Nanoseconds that the program ran between the end of an event (of the kind BEFORE, at the clock
 * FROM) and the beginning of the next (of the kind NOW, at the clock TO). If the emulator needed
 * less time than usual for its own work, the result is negative: then it is the negative number
 * modulo 2^64, which the counters add. */
AG_FAST uint64_t ag_event_clock_ns(uint64_t from, uint64_t to, enum ag_event_kind before,
                                   enum ag_event_kind now) {
    const uint64_t cost = ag_event_clock.costs[before][now] * ag_event_pace >> 16;
    const int64_t ticks = (int64_t)(to - from) - (int64_t)cost;
    return (uint64_t)((__int128)ticks * (int64_t)ag_event_clock.ns_per_2_32 >> 32);
}

/* While costs are measured: adds the interval between two events, and a sample of the pace. */
void ag_event_clock_learn(uint64_t from, uint64_t to, enum ag_event_kind before,
                          enum ag_event_kind now);
void ag_event_clock_learn_pace(uint64_t sample);
/* Computes the costs from what was added. */
void ag_event_clock_settle(void);

#endif
