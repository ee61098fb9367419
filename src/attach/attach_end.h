/* attach_end.h: decides when an attach has to stop waiting because its user asked it to end. An
 * attach loads the agent (a shared library that records allocations) into a running process, the
 * target.
 *
 * A user who presses Ctrl-C gets the prompt back within a second, whatever the target does. For
 * example, its threads may never reach a point at which they can load the agent, may be blocked in
 * the kernel, or may never return from the loader. Every loop in this directory that waits for the
 * target calls ag_attach_end_is_due or ag_attach_end_has_passed. */
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
    /* These two functions postpone the forced end of this process; both may be NULL. While a thread
     * of the target is stopped or executes a function for us, a forced end would harm the target:
     * the kernel resumes the thread without restoring its registers. hold(1) is called before the
     * first stop, and hold(-1) after the last thread is resumed; such pairs of calls may be nested.
     * alive is called at each pass of a loop between hold(1) and hold(-1). */
    void (*hold)(int by);
    void (*alive)(void);
    /* The agent is being removed. The removal may continue for AG_ATTACH_LEAVE_NS after the
     * request. */
    bool is_leaving;
};

enum {
    AG_ATTACH_LEAVE_NS = 500 * 1000 * 1000,
    /* How long, after the user's request, a function that a thread of the target executes for us
     * may continue. Such a call is not aborted at once, because the function may hold locks. After
     * this time, no new call begins, except a call that undoes what was done. */
    AG_ATTACH_CALL_NS = 820 * 1000 * 1000,
    /* A function that a thread of the target executes for us may wait in the kernel, or use CPU
     * time, for at least this time, even if it begins shortly before AG_ATTACH_CALL_NS is over. */
    AG_ATTACH_CALL_LEAST_NS = 300 * 1000 * 1000,
};

static inline void ag_attach_end_hold(const struct ag_attach_end *end, int by) {
    if (end->hold != NULL) {
        end->hold(by);
    }
}

static inline void ag_attach_end_alive(const struct ag_attach_end *end) {
    if (end->alive != NULL) {
        end->alive();
    }
}

/* Whether TIME_NS have passed since the user asked for the end. */
static inline bool ag_attach_end_has_passed(const struct ag_attach_end *end, uint64_t time_ns) {
    const uint64_t asked_ns = end->asked_ns != NULL ? end->asked_ns(end->context) : 0;
    return asked_ns != 0 && ag_monotonic_ns() >= asked_ns + time_ns;
}

static inline bool ag_attach_end_is_due(const struct ag_attach_end *end) {
    return ag_attach_end_has_passed(end, end->is_leaving ? AG_ATTACH_LEAVE_NS : 0);
}

#endif
