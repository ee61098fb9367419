/* clock.h: reads a clock of the kernel, in ns. Hooks (functions of allogram's library that the
 * profiled program calls instead of its own) must not use this file, because it calls the C
 * library. */
#ifndef AG_CLOCK_H
#define AG_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK must be one that every kernel has for the caller: CLOCK_MONOTONIC, CLOCK_REALTIME ... */
static inline uint64_t ag_kernel_clock_ns(clockid_t clock) {
    struct timespec now = {0};
    (void)clock_gettime(clock, &now); /* cannot fail with these clocks */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t ag_monotonic_ns(void) {
    return ag_kernel_clock_ns(CLOCK_MONOTONIC);
}

#endif
