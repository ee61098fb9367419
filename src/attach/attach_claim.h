/* attach_claim.h: one allogram at a time begins with a process, or takes out what another one left
 * there.
 *
 * The claim is a lock on the process' auxv in /proc: no other file is of one process only and
 * opened by nobody but those who may trace it. It ends with who holds it, and no file of the
 * machine is touched. Where it cannot be had for want of a file (the process is gone or somebody
 * else's), there is nothing to be claimed; what comes next says so. */
#ifndef AG_ATTACH_CLAIM_H
#define AG_ATTACH_CLAIM_H

#include <sys/types.h>

#include "attach_end.h"

/* Waits some seconds for another one, who takes milliseconds. 0, with a descriptor or -1 in ret_fd,
 * which ag_attach_claim_end takes; -EBUSY with one line in ret_message; -EINTR likewise:
 * the end was asked for. */
int ag_attach_claim(pid_t pid, const struct ag_attach_end *end, int *ret_fd, char ret_message[512]);
void ag_attach_claim_end(int *fd); /* at the latest with our end; may be said twice */

#endif
