/* budget.c: the interval follows the cost.
 *
 * What is measured: the time of samples in the programs (clock before and behind each, added up in
 * the slots) and the writer's own CPU; over the same time the CPU of all recorded processes.
 * What is not: the nanosecond or two of an allocation that is no sample, which cannot be measured
 * without costing more than it is.
 *
 * Every fiftieth of a second in which the programs took enough CPU to tell, the interval is
 * multiplied by what samples cost lately over what they may cost, at most by 4 and at least by
 * 4/5: up fast, down slowly. They may cost three quarters of the budget, since the next moment may
 * be busier, less what the writer has taken so far; and a quarter of that at least: what the
 * writer takes for being there, and for its start, does not depend on the interval, and to see
 * nothing would make it no cheaper. Where all the time so far is above the budget's three quarters
 * it is that quarter too, so that an expensive beginning is paid back.
 *
 * Why estimates stay unbiased: a thread takes a new interval over behind a sample, and each sample
 * is recorded with the interval that its skip was drawn with (record/sampler.c). Which interval
 * holds may depend on all that was sampled before, never on the block that is about to be chosen;
 * given that past, each block is chosen with the chance that it is weighed by. */
#include "budget.h"

#include <sys/resource.h>

#include "base/skip.h"
#include "process_watch.h"
#include "session_clock.h"
#include "writer_state.h"

enum {
    LOOK_EVERY_NS = 20 * 1000 * 1000,
    ENOUGH_NS = 5 * 1000 * 1000, /* of the programs */
    LEAST_INTERVAL = 4096,       /* a sample in some ten blocks: less is exact mode's business */
};
#define MOST_INTERVAL (UINT64_C(256) << 20)
#define WANTED 0.75 /* of the budget */

static uint64_t own_cpu_ns(void) {
    struct rusage own = {0};
    (void)getrusage(RUSAGE_SELF, &own); /* cannot fail */
    return (uint64_t)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) * 1000u;
}

/* Of the processes that live. What one had that has ended since is not there any more. */
static void look(struct ag_writer *writer, uint64_t *ret_samples_ns, uint64_t *ret_programs_ns) {
    const struct ag_session *session = writer->session;
    const uint64_t ns_per_2_32 =
        atomic_load_explicit(&session->header->clock_ns_per_2_32, memory_order_relaxed);
    *ret_samples_ns = *ret_programs_ns = 0;
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase == AG_PHASE_OPEN && !watched->has_ended) {
            const struct ag_process_slot *slot = ag_session_slot(session, i);
            *ret_samples_ns += ag_session_clock_ns(
                ns_per_2_32, atomic_load_explicit(&slot->sampler_raw, memory_order_relaxed));
            *ret_programs_ns += ag_process_watch_cpu_ns(&watched->watch);
        }
    }
}

static void move_interval(struct ag_session *session, double factor) {
    struct ag_segment_header *header = session->header;
    const uint64_t was = atomic_load_explicit(&header->interval_bytes, memory_order_relaxed);
    factor = factor < 4 ? factor : 4;
    factor = factor > 0.8 ? factor : 0.8; /* also what is no number */
    double wanted = (double)(was < MOST_INTERVAL ? was : MOST_INTERVAL) * factor;
    wanted = wanted > LEAST_INTERVAL ? wanted : LEAST_INTERVAL;
    const uint64_t is = wanted < (double)MOST_INTERVAL ? (uint64_t)wanted : MOST_INTERVAL;
    /* relaxed: nothing depends on it; the recorders look at it behind each sample */
    atomic_store_explicit(&header->interval_bytes, is, memory_order_relaxed);
    if (is < session->least_interval_bytes) {
        session->least_interval_bytes = is;
    }
    if (is > session->most_interval_bytes) {
        session->most_interval_bytes = is;
    }
}

void ag_budget_keep(struct ag_budget *budget, struct ag_writer *writer, uint64_t now_ns) {
    struct ag_session *session = writer->session;
    if (!(session->budget_percent > 0) || now_ns < budget->next_ns) {
        return;
    }
    budget->next_ns = now_ns + LOOK_EVERY_NS;
    uint64_t samples_ns, programs_ns;
    look(writer, &samples_ns, &programs_ns);
    const uint64_t spent_ns = samples_ns + own_cpu_ns();
    if (programs_ns < budget->programs_ns || spent_ns < budget->spent_ns) {
        budget->programs_ns = programs_ns; /* a process has ended: count anew from here */
        budget->spent_ns = spent_ns;
        budget->samples_ns = samples_ns;
        return;
    }
    if (programs_ns - budget->programs_ns < ENOUGH_NS) {
        return;
    }
    const double wanted = session->budget_percent / 100 * WANTED, least = wanted / 4,
                 so_far = (double)spent_ns / (double)programs_ns,
                 for_samples = wanted - (double)(spent_ns - samples_ns) / (double)programs_ns,
                 may_cost = so_far > wanted || for_samples < least ? least : for_samples,
                 cost = ((double)samples_ns - (double)budget->samples_ns) /
                        (double)(programs_ns - budget->programs_ns);
    budget->programs_ns = programs_ns;
    budget->spent_ns = spent_ns;
    budget->samples_ns = samples_ns;
    move_interval(session, cost / may_cost);
}
