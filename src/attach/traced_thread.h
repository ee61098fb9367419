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
    uint64_t stopped_ns; /* since when, of the monotonic clock */
    struct user_regs_struct registers;
};

/* Stops it: 0; -ESRCH: it is gone; -EPERM: it may not be traced, or another tracer has it;
 * -ETIMEDOUT: it stays in the kernel. Behind any failure it is not ours. */
int ag_traced_thread_stop(pid_t pid, pid_t tid, struct ag_traced_thread *ret_thread);
/* The same in two halves, so that many can be on their way at once: a thread that waits for a CPU
 * comes to its stop when it gets one. Behind a begin that went well finish has to follow. */
int ag_traced_thread_begin_stop(pid_t pid, pid_t tid, struct ag_traced_thread *ret_thread);
int ag_traced_thread_finish_stop(struct ag_traced_thread *thread);
/* Lets it go on where it stood, and is no longer its tracer. Returns how long it stood, in ns. A
 * thread that is not stopped is left alone. */
uint64_t ag_traced_thread_release(struct ag_traced_thread *thread);

/* In a system call? Its number, or -1. */
long ag_traced_thread_call(const struct ag_traced_thread *thread);

uint64_t ag_attach_now_ns(void);

#endif
