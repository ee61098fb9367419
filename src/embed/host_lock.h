/* host_lock.h: the lock of src/embed/, for registrations, sessions, counter sets and tables of
 * blocks. A waiting thread yields the CPU. The lock's word is the holder's tid, so that a forked
 * child does not wait for a thread that exists only in the parent. */
#ifndef AG_HOST_LOCK_H
#define AG_HOST_LOCK_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/raw_syscall.h"

struct ag_host_lock { /* zero-initialized */
    _Atomic uint32_t owner;
};

static inline bool ag_host_thread_has_ended(uint32_t thread_id) {
    enum { NO_SUCH_THREAD = -3 }; /* -ESRCH */
    const long pid = ag_syscall1(SYS_getpid, 0);
    return ag_syscall3(SYS_tgkill, pid, thread_id, 0) == NO_SUCH_THREAD;
}

/* Returns false if this thread already holds the lock: then the caller is a signal handler that
 * interrupted the holder, or a callback that the holder called. */
static inline bool ag_host_lock_take(struct ag_host_lock *lock) {
    const uint32_t self = (uint32_t)ag_syscall1(SYS_gettid, 0);
    for (;;) {
        uint32_t owner = 0;
        if (atomic_compare_exchange_strong_explicit(&lock->owner, &owner, self,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        if (owner == self) {
            return false;
        }
        if (ag_host_thread_has_ended(owner) &&
            atomic_compare_exchange_strong_explicit(&lock->owner, &owner, self,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        (void)ag_syscall1(SYS_sched_yield, 0);
    }
}

static inline void ag_host_lock_give(struct ag_host_lock *lock) {
    atomic_store_explicit(&lock->owner, 0, memory_order_release);
}

enum { AG_HOST_SIGNAL_SET_BYTES = 8 }; /* size of the kernel's sigset_t */

/* Does what ag_host_lock_take does, and blocks all signals of the thread until
 * ag_host_lock_give_unblock. */
static inline bool ag_host_lock_take_blocking(struct ag_host_lock *lock, uint64_t *ret_signals) {
    const uint64_t all = ~UINT64_C(0);
    (void)ag_syscall6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)ret_signals,
                      AG_HOST_SIGNAL_SET_BYTES, 0, 0); /* cannot fail with these arguments */
    return ag_host_lock_take(lock);
}

/* signals: what ag_host_lock_take_blocking stored in ret_signals. */
static inline void ag_host_lock_give_unblock(struct ag_host_lock *lock, const uint64_t *signals) {
    ag_host_lock_give(lock);
    (void)ag_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)signals, 0, AG_HOST_SIGNAL_SET_BYTES,
                      0, 0);
}

#endif
