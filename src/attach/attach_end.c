/* attach_end.c: see attach_end.h. */
#include "attach_end.h"

#include <stddef.h>

#include "traced_thread.h"

/* Whether so much time has passed since the user asked for the end. */
static bool has_passed(const struct ag_attach_end *end, uint64_t time_ns) {
    const uint64_t asked_ns = end->asked_ns != NULL ? end->asked_ns(end->context) : 0;
    return asked_ns != 0 && ag_attach_now_ns() >= asked_ns + time_ns;
}

bool ag_attach_end_is_due(const struct ag_attach_end *end) {
    return has_passed(end, end->is_leaving ? AG_ATTACH_LEAVE_NS : 0);
}

bool ag_attach_end_is_due_for_call(const struct ag_attach_end *end) {
    return has_passed(end, AG_ATTACH_CALL_NS);
}
