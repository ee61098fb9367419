/* attach_claim.c: see attach_claim.h. Without the claim two tools that start at the same time would
 * both load the agent, and one would overwrite what the other has written to it. */
#include "attach_claim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error_message.h"
#include "traced_thread.h"

enum { LOOK_MS = 5 };
/* finding a safe point takes at most five */
static const uint64_t patience_ns = UINT64_C(10000000000);

int ag_attach_claim(pid_t pid, const struct ag_attach_end *end, int *ret_fd,
                    char ret_message[512]) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const uint64_t end_ns = ag_attach_now_ns() + patience_ns;
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        if (ag_attach_now_ns() > end_ns) {
            (void)close(fd); /* nothing was written */
            return ag_error_message(
                ret_message, -EBUSY,
                "%d: another allogram is attaching to it and makes no progress; end that one", pid);
        }
        if (ag_attach_end_is_due(end)) {
            (void)close(fd); /* nothing was written */
            return ag_error_message(ret_message, -EINTR, "%d: ended before the recording began",
                                    pid);
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
    *ret_fd = fd;
    return 0;
}

void ag_attach_claim_end(int *fd) {
    if (*fd >= 0) {
        (void)flock(*fd, LOCK_UN); /* a child of this process may have inherited the descriptor */
        (void)close(*fd);          /* nothing was written */
    }
    *fd = -1;
}
