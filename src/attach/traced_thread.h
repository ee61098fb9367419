/* traced_thread.h: one thread of another process, stopped for a moment by ptrace, and let go as if
 * it had not been. */
#ifndef AG_TRACED_THREAD_H
#define AG_TRACED_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct ag_traced_thread { /* all zero: none */
    pid_t pid, tid;
    bool is_stopped;
    bool is_late;        /* it did not come in the time that it was given first */
    bool is_held;        /* by a signal such as SIGSTOP, as others of its process are */
    uint64_t stopped_ns; /* since when, of the monotonic clock */
    struct user_regs_struct registers;
};

/* Asks it to stop. 0: finish has to follow, since it stands when it comes; -ESRCH: it is gone;
 * -EPERM: it may not be traced, or another tracer has it: it is not ours. */
int ag_traced_thread_begin_stop(pid_t pid, pid_t tid, struct ag_traced_thread *ret_thread);
/* Waits for it, until so late by ag_attach_now_ns (0: looks only). 0; -ESRCH: it is gone;
 * -ETIMEDOUT: it has not come, and finish has to be called again. */
int ag_traced_thread_finish_stop(struct ag_traced_thread *thread, uint64_t until_ns);
/* Lets it go on where it stood, and is no longer its tracer. Returns how long it stood, in ns. A
 * thread that is not stopped is left alone. */
uint64_t ag_traced_thread_release(struct ag_traced_thread *thread);

/* In a system call? Its number, or -1. */
long ag_traced_thread_call(const struct ag_traced_thread *thread);

uint64_t ag_attach_now_ns(void);
/* Until a thread that we trace changes its state, or the time is over. SIGCHLD is blocked. */
void ag_attach_sleep_until_woken(uint64_t most_ns);

#endif
