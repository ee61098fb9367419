/* host_lock.h: a lock for functions that a program calls rarely. Its word is the holder's tid, so
 * that a forked child does not wait for a thread that exists only in the parent. */
#ifndef AG_HOST_LOCK_H
#define AG_HOST_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/raw_syscall.h"

struct ag_host_lock { /* zero-initialised */
    _Atomic uint32_t owner;
};

/* false: this thread already holds the lock (the caller is a handler that interrupted it). */
static inline bool ag_host_lock_take(struct ag_host_lock *lock) {
    enum { NO_SUCH_THREAD = -3 }; /* -ESRCH */
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
        const long pid = ag_syscall1(SYS_getpid, 0);
        if (ag_syscall3(SYS_tgkill, pid, owner, 0) == NO_SUCH_THREAD &&
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

#endif
