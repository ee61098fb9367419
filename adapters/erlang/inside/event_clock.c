/* event_clock.c: the clock of the tracer of Erlang nodes (tracer.c). It excludes the emulator's
 * work for an event from the program's time.
 *
 * 1. Excluded by reading the clock. Before a call, a collection or a change of the schedule the
 * emulator asks the tracer whether it wants the event. The interval since the last event ends at
 * that question, and the next interval begins when the tracer has handled the event. So the
 * tracer's own time, the tuple that the emulator makes, and the list of facts about a collection
 * (some microseconds) are in no interval.
 *
 * 2. Subtracted. The emulator's work before the question (for a return: before the event, since
 * there is no question) and after the event is in every interval. This work is measured for each
 * pair of kinds of events, with functions that do nothing. A typical value is subtracted from each
 * interval. The result may be negative; the sum of a function's intervals is what counts, and the
 * counters keep it from becoming negative. Cutting each interval off at zero would add half of
 * the noise to each call.
 *
 * 3. The pace. The same work takes 140 ns at one time and 210 ns at another, depending on what the
 * other thread of the core does (measured with OTP 25 on a virtual machine with two cores). So the
 * costs are measured, and subtracted, in units of another time: the time that the emulator needs
 * at each call, from its first question whether the call is wanted, to the event. Each thread keeps
 * a moving average of this time, its pace.
 *
 * 4. The rate of the clock. A thread can be preempted between reading the clock and reading
 * CLOCK_MONOTONIC. So each reading of the clock is enclosed by two readings of CLOCK_MONOTONIC,
 * whose distance limits the error. The rate is measured over a window of 2 to 100 ms. At each end
 * of the window the best of many such readings is used. If the limit of the error is too large, the
 * window is made longer. If it remains too large, the report says so. */
#include "event_clock.h"

#include <cpuid.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

struct ag_event_clock ag_event_clock;

enum {
    SAMPLES = 256,
    WINDOW_NS = 2 * 1000 * 1000,
    WINDOWS_MOST = 50,
    READINGS = 20,
    GOOD_PPM = 200,
    PPM = 1000 * 1000,
};
_Thread_local uint64_t ag_event_pace;

/* The newest SAMPLES of each kind; the first ones are slow, since the code is not in the cache. */
struct samples {
    uint64_t values[SAMPLES];
    uint32_t n; /* number of all */
};
static struct { struct samples costs[AG_EVENT_KINDS][AG_EVENT_KINDS], pace; } learned;

struct reading {
    uint64_t raw, ns;
    uint64_t gap_ns; /* `ns` is wrong by at most half of it */
};

/* Reads both clocks several times. Returns the reading with the smallest gap. */
static struct reading read_clocks(void) {
    struct reading best = {.gap_ns = UINT64_MAX};
    for (int i = 0; i < READINGS; i++) {
        const uint64_t before_ns = ag_monotonic_ns();
        const uint64_t raw = ag_event_clock_now();
        const uint64_t gap_ns = ag_monotonic_ns() - before_ns;
        if (gap_ns < best.gap_ns) {
            best = (struct reading){.raw = raw, .ns = before_ns + gap_ns / 2, .gap_ns = gap_ns};
        }
    }
    return best;
}

uint32_t ag_event_clock_start(void) {
    enum { POWER_LEAF = 0x80000007, INVARIANT_TSC = 1 << 8 };
    const struct timespec window = {.tv_nsec = WINDOW_NS};
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool is_constant = __get_cpuid(POWER_LEAF, &a, &b, &c, &d) && d & INVARIANT_TSC;
    ag_event_clock.kind = is_constant ? AG_CLOCK_TSC : AG_CLOCK_MONOTONIC;
    const struct reading first = read_clocks();
    uint64_t error_ppm = PPM;
    for (int i = 0; i < WINDOWS_MOST && error_ppm > GOOD_PPM; i++) {
        (void)nanosleep(&window, NULL); /* a signal only shortens it */
        const struct reading last = read_clocks();
        if (last.raw > first.raw && last.ns > first.ns) {
            const uint64_t ns = last.ns - first.ns;
            error_ppm = (first.gap_ns + last.gap_ns) / 2 * PPM / ns;
            ag_event_clock.ns_per_2_32 =
                (uint64_t)(((unsigned __int128)ns << 32) / (last.raw - first.raw));
        }
    }
    return (uint32_t)(error_ppm < PPM ? error_ppm : PPM);
}

static void add_sample(struct samples *samples, uint64_t value) {
    samples->values[samples->n++ % SAMPLES] = value;
}

void ag_event_clock_learn(uint64_t from, uint64_t to, enum ag_event_kind before,
                          enum ag_event_kind now) {
    if (to > from && ag_event_pace != 0) {
        add_sample(&learned.costs[before][now], ((to - from) << 16) / ag_event_pace);
    }
}

void ag_event_clock_learn_pace(uint64_t sample) {
    ag_event_pace_add(sample);
    add_sample(&learned.pace, sample);
}

static int by_size(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Returns the number that two thirds of the samples are below, and forgets the samples. It is close
 * to the mean without the rare long samples; the median is smaller than the mean. */
static uint64_t settle(struct samples *samples) {
    const uint32_t n = samples->n < SAMPLES ? samples->n : SAMPLES;
    qsort(samples->values, n, sizeof(uint64_t), by_size);
    samples->n = 0;
    return n > 0 ? samples->values[n - 1 - n / 3] : 0;
}

void ag_event_clock_settle(void) {
    for (uint32_t before = 0; before < AG_EVENT_KINDS; before++) {
        for (uint32_t now = 0; now < AG_EVENT_KINDS; now++) {
            ag_event_clock.costs[before][now] = settle(&learned.costs[before][now]);
        }
    }
    ag_event_clock.usual_pace = settle(&learned.pace);
}
