/* budget.c: adjusts the sampling interval so that the cost stays within the budget.
 *
 * The cost is the time that samples take in the programs, plus the CPU time of the writer, the
 * process that writes the traces. (Each program reads the clock before and after a sample and adds
 * the difference to a sum in its slot, its entry in the memory that it shares with the writer.) The
 * cost is divided by the CPU time of all recorded processes over the same period. The nanosecond or
 * two that an unsampled allocation takes are not counted: measuring that time would take longer.
 *
 * Whenever the programs have used ENOUGH_NS of CPU time since the last adjustment, the interval is
 * multiplied by (cost of the samples since the last adjustment / allowed cost). This factor is
 * limited to [4/5, 4], so the interval rises fast and falls slowly. The allowed cost is W minus the
 * writer's part of the cost so far, where W is three quarters of the budget; the rest is a reserve
 * for busier periods. The allowed cost is at least W / 4, because a larger interval does not reduce
 * the writer's fixed cost. While the total cost so far exceeds W, the allowed cost is also W / 4,
 * which compensates for an expensive start.
 *
 * Estimates remain unbiased: a thread adopts a new interval only after a sample, and each sample is
 * recorded with the interval from which its skip (the bytes since the previous sample) was drawn
 * (record/sampler.c). So the interval may depend on earlier samples, but not on the block that is
 * chosen next: given the earlier samples, each block is chosen with the probability by which it is
 * weighted. */
#include "budget.h"

#include "base/skip.h"
#include "process_watch.h"
#include "session_clock.h"
#include "writer_state.h"

enum {
    LOOK_EVERY_NS = 20 * 1000 * 1000, /* period of the measurements */
    ENOUGH_NS = 5 * 1000 * 1000,      /* least CPU time of the programs between two adjustments */
    /* In bytes. At this interval about one in ten blocks of 400 bytes is sampled. To record more
     * blocks, exact mode (which records all of them) is better. */
    LEAST_INTERVAL = 4096,
};
#define MOST_INTERVAL (UINT64_C(256) << 20)
#define WANTED 0.75 /* W as a fraction of the budget */

/* Adds up the times of all live processes, so the sums decrease when a process ends. */
static void budget_measure(struct ag_writer *writer, uint64_t *ret_samples_ns,
                           uint64_t *ret_programs_ns) {
    const struct ag_session *session = writer->session;
    *ret_samples_ns = *ret_programs_ns = 0;
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase == AG_PHASE_OPEN && !watched->has_ended) {
            const struct ag_process_slot *slot = ag_session_slot(session, i);
            *ret_samples_ns += ag_segment_ns(
                session->header, atomic_load_explicit(&slot->sampler_raw, memory_order_relaxed));
            *ret_programs_ns += ag_process_watch_cpu_ns(&watched->watch);
        }
    }
}

static void move_interval(struct ag_session *session, double factor) {
    struct ag_segment_header *header = session->header;
    const uint64_t was = atomic_load_explicit(&header->interval_bytes, memory_order_relaxed);
    factor = factor < 4 ? factor : 4;
    factor = factor > 0.8 ? factor : 0.8; /* a factor that is not a number becomes 0.8 */
    double wanted = (double)(was < MOST_INTERVAL ? was : MOST_INTERVAL) * factor;
    wanted = wanted > LEAST_INTERVAL ? wanted : LEAST_INTERVAL;
    const uint64_t is = wanted < (double)MOST_INTERVAL ? (uint64_t)wanted : MOST_INTERVAL;
    /* relaxed: no other data depends on the interval; the programs read it after each sample */
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
    uint64_t samples_ns, programs_ns, own_ns, own_rss_bytes;
    budget_measure(writer, &samples_ns, &programs_ns);
    ag_process_own_usage(&own_ns, &own_rss_bytes);
    const uint64_t spent_ns = samples_ns + own_ns;
    if (programs_ns < budget->programs_ns || spent_ns < budget->spent_ns) {
        budget->programs_ns = programs_ns; /* a process has ended: the measurement starts anew from
                                            * these sums */
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
