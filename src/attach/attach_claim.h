/* attach_claim.h: only one allogram at a time attaches to a process, or removes what another one
 * left there.
 *
 * The claim is a lock on the process' auxv in /proc: no other file belongs to one process only and
 * is opened only by processes that may trace it. The lock ends with its holder, and no file of the
 * machine is changed. If the file cannot be opened (the process is gone or belongs to another
 * user), there is nothing to claim; the next step reports the error. */
#ifndef AG_ATTACH_CLAIM_H
#define AG_ATTACH_CLAIM_H

#include <sys/types.h>

#include "attach_end.h"

/* Waits some seconds for another holder, which needs milliseconds. 0, with a descriptor or -1 in
 * ret_fd, for ag_attach_claim_end; -EBUSY with one line in ret_message; -EINTR likewise: the user
 * asked for the end. */
int ag_attach_claim(pid_t pid, const struct ag_attach_end *end, int *ret_fd, char ret_message[512]);
void ag_attach_claim_end(int *fd); /* the end of this process does it, too; may be called twice */

#endif
