/* blocked_signals.h: for short sections of code that no signal handler may interrupt in the thread
 * that executes them.
 *
 * Signals that an instruction or system call of the thread itself raises are not blocked: the
 * kernel kills a process that raises such a signal while it is blocked. One of these signals is
 * SIGSYS, with which a sandbox intercepts system calls; the handler of the sandbox needs it. */
#ifndef AG_BLOCKED_SIGNALS_H
#define AG_BLOCKED_SIGNALS_H

#include <signal.h>
#include <stdint.h>

#include "base/raw_syscall.h"

enum { AG_KERNEL_SIGNAL_SET_BYTES = 8 };

AG_FAST uint64_t ag_signal_bit(int signal) {
    return UINT64_C(1) << (signal - 1);
}

/* Blocks the signals of this thread, and returns the previous mask for ag_signals_restore. */
AG_FAST uint64_t ag_signals_block(void) {
    const uint64_t most = ~(ag_signal_bit(SIGSYS) | ag_signal_bit(SIGSEGV) | ag_signal_bit(SIGBUS) |
                            ag_signal_bit(SIGFPE) | ag_signal_bit(SIGILL) | ag_signal_bit(SIGTRAP));
    uint64_t before = 0;
    (void)ag_syscall6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&most, (long)&before,
                      /* fails only if a sandbox forbids the call */
                      AG_KERNEL_SIGNAL_SET_BYTES, 0, 0);
    return before;
}

/* before: the result of ag_signals_block. */
AG_FAST void ag_signals_restore(uint64_t before) {
    (void)ag_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, AG_KERNEL_SIGNAL_SET_BYTES,
                      0, 0);
}

#endif
