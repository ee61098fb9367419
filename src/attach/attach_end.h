/* attach_end.h: when an attach has to stop waiting, because its user asked it to end.
 *
 * Somebody who presses Ctrl-C gets the prompt back within a second, whatever the target does: a
 * thread that never comes to a safe point, one that waits in the kernel, a loader that never
 * returns. Every loop here that waits for the target asks ag_attach_end_is_due. */
#ifndef AG_ATTACH_END_H
#define AG_ATTACH_END_H

#include <stdbool.h>
#include <stdint.h>

struct ag_attach_end { /* all zero: nobody can ask */
    /* When somebody asked for the end, by ag_attach_now_ns; 0: nobody has. May be NULL. */
    uint64_t (*asked_ns)(void *context);
    void *context;
    /* What is under way leaves the target: it has AG_ATTACH_LEAVE_NS from the question on. */
    bool is_leaving;
};

enum {
    AG_ATTACH_LEAVE_NS = 500 * 1000 * 1000,
    /* A call in the target that is under way gets this long: it may hold locks. */
    AG_ATTACH_CALL_NS = 820 * 1000 * 1000,
};

bool ag_attach_end_is_due(const struct ag_attach_end *end);
/* The same for a call in the target that is under way. */
bool ag_attach_end_is_due_for_call(const struct ag_attach_end *end);

#endif
