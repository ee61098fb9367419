/* short_wait.h: waits without reading a clock and without nanosleep.
 *
 * nanosleep and sched_yield are system calls that a sandbox may forbid. A futex is allowed wherever
 * there are threads, and its wait has a timeout. If a sandbox refuses the futex, too, ag_short_wait
 * returns at once. So a caller that waits in a loop must limit the number of iterations. */
#ifndef AG_SHORT_WAIT_H
#define AG_SHORT_WAIT_H

#include <linux/futex.h>
#include <stdint.h>
#include <time.h>

#include "base/raw_syscall.h"

/* Waits for wait_ns, less than a second. The kernel adds the timer slack of the thread, about 50
 * us. A signal ends the wait early. */
AG_FAST void ag_short_wait(uint32_t wait_ns) {
    uint32_t unchanged = 0;
    const struct timespec timeout = {.tv_nsec = wait_ns};
    (void)ag_syscall6(SYS_futex, (long)&unchanged, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0,
                      /* no thread wakes this futex: the wait ends by its timeout */
                      (long)&timeout, 0, 0);
}

#endif
