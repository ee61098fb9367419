/* forked_hook.h: a child that was forked in a signal handler which interrupted a hook. */
#ifndef AG_FORKED_HOOK_H
#define AG_FORKED_HOOK_H

#include "thread_state.h"

/* First thing in the child, where thread is inside a hook. That hook goes on as soon as the handler
 * returns: it keeps its state, and what it may still write to of its parent's chunks becomes
 * private memory of the child. ag_recorder names other mappings of the segment from here on, and
 * the calling thread has no state. false: no memory, and the child must not be recorded. */
bool ag_forked_hook_part(struct ag_thread *thread);

#endif
