/* attached.h: the two halves of the agent that is put into a running process: the libc's hooks
 * (attached.c), and the adapters of runtimes, or none (attached_runtimes.c, attached_alone.c). */
#ifndef AG_ATTACHED_H
#define AG_ATTACHED_H

#include <stdbool.h>

#include "base/compiler.h"
#include "hook/attachment.h"

AG_EXPORT extern struct ag_attachment ag_agent_attachment;

/* The recorder acts, detours are only prepared: asks the adapters. */
void ag_attached_runtimes_begin(void);
/* What the runtimes counted is told; once. */
void ag_attached_runtimes_end(void);
bool ag_attached_runtimes_are_there(void);

#endif
