/* attached_runtimes.c: starts and ends the adapters (the code for language runtimes) in the
 * attached agent. `allogram attach` loads an agent with this file into processes that have a
 * supported runtime. */
#include <errno.h>
#include <stdatomic.h>

#include "attached.h"
#include "embed/adapter.h"
#include "embed/session_joined.h"
#include "record/recorder.h"

AG_EXPORT int ag_agent_switch_runtimes(int is_on);

void ag_attached_runtimes_begin(void) {
    struct ag_attachment *attachment = &ag_agent_attachment;
    struct ag_late_sum sum;
    attachment->adapters[sizeof(attachment->adapters) - 1] = '\0';
    ag_host_join();
    ag_adapters_attach_late(attachment->adapters, &attachment->is_leaving, &attachment->n_left,
                            &sum);
    for (size_t i = 0; i < sum.n_quiet && i < AG_ATTACHMENT_RANGES; i++) {
        attachment->quiet[i] = (struct ag_attachment_range){sum.quiet[i].low, sum.quiet[i].high};
    }
    attachment->n_quiet =
        (uint32_t)(sum.n_quiet < AG_ATTACHMENT_RANGES ? sum.n_quiet : AG_ATTACHMENT_RANGES);
    attachment->n_leaving = (uint32_t)sum.n_leaving;
    attachment->wants_all_stopped = sum.n_acting > 0;
}

int ag_agent_switch_runtimes(int is_on) {
    const int host_errno = errno;
    const int r = ag_adapters_stand(is_on != 0);
    errno = host_errno;
    return r;
}

bool ag_attached_runtimes_are_there(void) {
    return ag_adapters_are_there();
}

void ag_attached_runtimes_end(void) {
    static _Atomic int is_over;
    if (!atomic_exchange_explicit(&is_over, 1, memory_order_relaxed)) {
        ag_adapters_end();
        ag_host_leave();
    }
}
