/* attached.h: the interface between the two parts of the agent, the library that `allogram attach`
 * loads into a running process. One part has the libc's hooks (attached.c). The other part has the
 * adapters of runtimes (attached_runtimes.c), or no adapter (attached_alone.c). */
#ifndef AG_ATTACHED_H
#define AG_ATTACHED_H

#include <stdbool.h>

#include "base/compiler.h"
#include "hook/attachment.h"

AG_EXPORT extern struct ag_attachment ag_agent_attachment;

/* Attaches the adapters. Called when the recorder is on, and before the detours (jumps at the start
 * of hooked functions), which are already prepared, are written into the code. */
void ag_attached_runtimes_begin(void);
/* Reports what the runtimes counted. Only the first call does so. */
void ag_attached_runtimes_end(void);
bool ag_attached_runtimes_are_there(void);

#endif
