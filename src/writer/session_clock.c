/* session_clock.c: one factor converts raw clock values to nanoseconds since the session began.
 *
 * Both clocks (raw and CLOCK_MONOTONIC) are read when the session begins, and again at each refit
 * of the factor. The factor is the elapsed nanoseconds divided by the elapsed raw units. So the
 * factor is exact at the session's beginning and at the refit. The two clocks are read about 100 ns
 * apart, an error that matters less the longer the session lasts. A refit moves times by less than
 * that error; decoding keeps the times of each stream (the events of a thread) from decreasing
 * (chunk_words.c). */
#include "session_clock.h"

#include <cpuid.h>
#include <time.h>

enum {
    TICK_NS = 1000 * 1000,
    REFIT_DIVISOR = 64, /* refit when the session's age has grown by 1/64: about 45 times until it
                         * has doubled */
    PAIR_TRIES = 4,
    FIRST_FIT_NS = 200 * 1000,
};

uint64_t ag_session_clock_raw(uint32_t kind) {
    return kind == AG_CLOCK_TSC ? __builtin_ia32_rdtsc() : ag_monotonic_ns();
}

enum ag_clock_kind ag_session_clock_choose(void) {
    enum { POWER_LEAF = 0x80000007, INVARIANT_TSC = 1 << 8 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(POWER_LEAF, &a, &b, &c, &d) && d & INVARIANT_TSC ? AG_CLOCK_TSC
                                                                        : AG_CLOCK_MONOTONIC;
}

/* Reads both clocks as close together as a few tries allow. */
static void read_pair(uint32_t kind, uint64_t *ret_raw, uint64_t *ret_ns) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < PAIR_TRIES; i++) {
        const uint64_t before = ag_session_clock_raw(kind);
        const uint64_t ns = ag_monotonic_ns(), after = ag_session_clock_raw(kind);
        if (after - before < best) {
            best = after - before;
            *ret_raw = before + best / 2;
            *ret_ns = ns;
        }
    }
}

/* Returns the factor (ns per 2^32 raw units) for values RAW and NS of the two clocks that were read
 * together. */
static uint64_t clock_factor(const struct ag_session *session, uint64_t raw, uint64_t ns) {
    const uint64_t raw_age = raw - session->clock_origin;
    const bool is_ns = session->clock_kind == AG_CLOCK_MONOTONIC || raw_age == 0;
    return is_ns ? UINT64_C(1) << 32
                 : (uint64_t)(((unsigned __int128)(ns - session->clock_origin_monotonic_ns) << 32) /
                              raw_age);
}

uint64_t ag_session_clock_now_ns(const struct ag_session *session) {
    return ag_segment_ns(session->header,
                         ag_session_clock_raw(session->clock_kind) - session->clock_origin);
}

void ag_session_clock_begin(struct ag_session *session) {
    uint64_t raw = 0, ns = 0;
    read_pair(session->clock_kind, &session->clock_origin, &session->clock_origin_monotonic_ns);
    do { /* the first factor has an error of 0.1 %; the writer refits it a millisecond later */
        read_pair(session->clock_kind, &raw, &ns);
    } while (ns - session->clock_origin_monotonic_ns < FIRST_FIT_NS);
    const uint64_t factor = clock_factor(session, raw, ns);
    atomic_store_explicit(&session->header->clock_ns_per_2_32, factor, memory_order_relaxed);
}

static void refit(struct ag_session_clock *clock, struct ag_session *session) {
    uint64_t raw = 0, ns = 0;
    read_pair(session->clock_kind, &raw, &ns);
    atomic_store_explicit(&session->header->clock_ns_per_2_32, clock_factor(session, raw, ns),
                          memory_order_relaxed);
    clock->next_refit_ns = ns + (ns - session->clock_origin_monotonic_ns) / REFIT_DIVISOR;
}

static void tick_at(struct ag_session_clock *clock, struct ag_session *session, uint64_t now_ns) {
    clock->last_tick_ns = now_ns;
    atomic_fetch_add_explicit(&session->header->tick, 1, memory_order_relaxed);
}

uint64_t ag_session_clock_mark(struct ag_session_clock *clock, struct ag_session *session) {
    const uint64_t time_ns = ag_session_clock_now_ns(session);
    tick_at(clock, session, ag_monotonic_ns());
    return time_ns;
}

uint64_t ag_session_clock_tick(struct ag_session_clock *clock, struct ag_session *session) {
    const uint64_t now_ns = ag_monotonic_ns();
    if (now_ns - clock->last_tick_ns >= TICK_NS) {
        tick_at(clock, session, now_ns);
        if (now_ns >= clock->next_refit_ns && session->clock_origin_monotonic_ns != 0) {
            refit(clock, session);
        }
    }
    return now_ns;
}
