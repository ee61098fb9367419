/* raw_clock.h: reads the clock of the session (the recording of one or more processes) as a raw
 * number. The clock is the TSC if the process that created the session found that the rate of the
 * TSC is constant; otherwise it is CLOCK_MONOTONIC in ns. A read of the TSC takes 10 ns on the
 * measured machines, which is too slow to read the clock at every event. */
#ifndef AG_RAW_CLOCK_H
#define AG_RAW_CLOCK_H

#include <time.h>

#include "base/raw_syscall.h"
#include "format/segment.h"

AG_FAST uint64_t ag_raw_clock(uint32_t kind) {
    if (AG_LIKELY(kind == AG_CLOCK_TSC)) {
        /* Earlier instructions must be complete when the clock is read: rdtsc alone may overtake
         * them (AMD and Intel manuals, RDTSC). GCC's builtin for lfence is not used: it does not
         * compile with -mgeneral-regs-only. */
        __asm__ volatile("lfence" : : : "memory");
        return __builtin_ia32_rdtsc();
    }
    struct timespec now = {0};
    (void)ag_syscall2(SYS_clock_gettime, CLOCK_MONOTONIC,
                      (long)&now); /* cannot fail with this clock */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Raw time since the session began; ag_segment_ns (format/segment.h) converts it to ns. */
AG_FAST uint64_t ag_raw_clock_elapsed(const struct ag_segment_header *header) {
    return ag_raw_clock(header->clock_kind) - header->clock_origin;
}

#endif
