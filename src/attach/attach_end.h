/* attach_end.h: decides when an attach has to stop waiting because its user asked it to end. An
 * attach loads the agent (a shared library that records allocations) into a running process, the
 * target.
 *
 * A user who presses Ctrl-C gets the prompt back within a second, whatever the target does. For
 * example, its threads may never reach a point at which they can load the agent, or may be blocked
 * in the kernel. Every loop in this directory that waits for the target calls ag_attach_end_is_due,
 * except in two cases: a thread that executes a function for us is not interrupted, because it may
 * hold locks; and a thread that was asked to stop can be resumed only after it has stopped. These
 * two waits may take longer than a second; the command then continues in the background
 * (cli/foreground.h). */
#ifndef AG_ATTACH_END_H
#define AG_ATTACH_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "traced_thread.h"

struct ag_attach_end { /* all zero: the user cannot ask for the end */
    /* When the user asked for the end, by ag_monotonic_ns; 0: not yet. May be NULL. */
    uint64_t (*asked_ns)(void *context);
    void *context;
    /* The agent is being removed. The removal may continue for AG_ATTACH_LEAVE_NS after the
     * request. */
    bool is_leaving;
};

enum { AG_ATTACH_LEAVE_NS = 500 * 1000 * 1000 };

static inline bool ag_attach_end_is_due(const struct ag_attach_end *end) {
    const uint64_t asked_ns = end->asked_ns != NULL ? end->asked_ns(end->context) : 0;
    return asked_ns != 0 &&
           ag_monotonic_ns() >= asked_ns + (end->is_leaving ? AG_ATTACH_LEAVE_NS : 0);
}

#endif
