/* event_clock.c: the clock of the tracer of Erlang nodes (tracer.c). It excludes the emulator's
 * work for an event from the program's time.
 *
 * The tracer reads the clock when an event begins and when it ends, so the tracer's own time is in
 * no interval between events. The emulator's work around an event (the breakpoint, the check
 * whether the event is wanted, the tuple) is in every interval, and always the same. That work is
 * measured once for each pair of kinds of events, with functions that do nothing, and subtracted
 * from each interval. Otherwise 500 tiny calls would show more time than three long ones. The lower
 * quartile of the measurements is used, since noise only makes them longer. */
#include "event_clock.h"

#include <cpuid.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

struct ag_event_clock ag_event_clock;

enum { SAMPLES = 256, RATE_NS = 4 * 1000 * 1000 };
static struct {
    uint64_t intervals[AG_EVENT_KINDS][AG_EVENT_KINDS][SAMPLES];
    uint32_t n[AG_EVENT_KINDS][AG_EVENT_KINDS];
} learned;

void ag_event_clock_start(void) {
    enum { POWER_LEAF = 0x80000007, INVARIANT_TSC = 1 << 8 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool is_constant = __get_cpuid(POWER_LEAF, &a, &b, &c, &d) && d & INVARIANT_TSC;
    ag_event_clock.kind = is_constant ? AG_CLOCK_TSC : AG_CLOCK_MONOTONIC;
    const uint64_t raw = ag_event_clock_now(), ns = ag_monotonic_ns();
    uint64_t raw_later, ns_later;
    do {
        raw_later = ag_event_clock_now();
        ns_later = ag_monotonic_ns();
    } while (ns_later - ns < RATE_NS);
    ag_event_clock.ns_per_2_32 =
        (uint64_t)(((unsigned __int128)(ns_later - ns) << 32) / (raw_later - raw));
}

void ag_event_clock_learn(uint64_t from, uint64_t to, enum ag_event_kind before,
                          enum ag_event_kind now) {
    uint32_t *n = &learned.n[before][now];
    if (*n < SAMPLES && to > from) {
        learned.intervals[before][now][(*n)++] = to - from;
    }
}

static int by_size(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void ag_event_clock_settle(void) {
    for (uint32_t before = 0; before < AG_EVENT_KINDS; before++) {
        for (uint32_t now = 0; now < AG_EVENT_KINDS; now++) {
            const uint32_t n = learned.n[before][now];
            qsort(learned.intervals[before][now], n, sizeof(uint64_t), by_size);
            ag_event_clock.costs[before][now] = n > 0 ? learned.intervals[before][now][n / 4] : 0;
            learned.n[before][now] = 0;
        }
    }
}
