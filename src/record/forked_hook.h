/* forked_hook.h: handles a child that was forked in a signal handler which interrupted a hook (the
 * code that records a call of malloc, free or the like). */
#ifndef AG_FORKED_HOOK_H
#define AG_FORKED_HOOK_H

#include "thread_state.h"

/* Must be called first in the child, when THREAD is inside a hook. The hook continues when the
 * handler returns: it keeps its state, and the part of the parent's chunks (memory for events) to
 * which it may still write becomes private memory of the child. After the call, the recorder's
 * state refers to other mappings of the segment (the memory that is shared with the writer
 * process), and the calling thread has no state. Returns false if there is no memory; then the
 * child must not be recorded. */
bool ag_forked_hook_part(struct ag_thread *thread);

#endif
