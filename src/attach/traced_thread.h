/* traced_thread.h: one thread of another process, stopped briefly by ptrace, and resumed without a
 * visible effect. */
#ifndef AG_TRACED_THREAD_H
#define AG_TRACED_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct ag_traced_thread { /* all zero: no thread */
    pid_t pid, tid;
    bool is_stopped;
    bool is_late;        /* the thread did not stop within the first wait */
    bool is_held;        /* the thread's whole process is stopped by a signal such as SIGSTOP */
    bool is_killed;      /* the thread was killed while it was stopped, and has to be waited for by
                          * ag_traced_thread_finish_stop: its process cannot end, or execute another
                          * program, before its tracer knows of its end */
    uint64_t stopped_ns; /* time of CLOCK_MONOTONIC: when the stop was requested or, if the thread
                          * is late, when it had stopped */
    struct user_regs_struct registers;
};

/* Requests a stop. Returns 0; then ag_traced_thread_finish_stop has to be called, because the
 * thread stays stopped; -ESRCH: the thread is gone; -EPERM: it may not be traced, or another
 * process traces it. */
int ag_traced_thread_begin_stop(pid_t pid, pid_t tid, struct ag_traced_thread *ret_thread);
/* Whether this process has ever requested a stop. Any thread may call it. */
bool ag_traced_thread_was_any(void);
/* Waits for the stop until UNTIL_NS, a time of CLOCK_MONOTONIC (0: only polls). Returns 0; -ESRCH:
 * the thread is gone; -ETIMEDOUT: it has not stopped, and this function has to be called again. */
int ag_traced_thread_finish_stop(struct ag_traced_thread *thread, uint64_t until_ns);
/* Whether the thread has ended. The first thread of a process is still listed after its end, as
 * long as other threads live. */
bool ag_thread_has_ended(pid_t pid, pid_t tid);
/* Whether the thread is the first one of its process and has ended. waitpid reports its end only
 * after the ends of all other threads, and the ends of those that are traced are delayed until
 * their tracer waits for them. So a tracer must not wait for the first thread alone. */
bool ag_traced_thread_ended_first(const struct ag_traced_thread *thread);
/* Resumes the thread and stops tracing it. Returns how long it was stopped, in ns. A thread that is
 * not stopped is left alone. */
uint64_t ag_traced_thread_release(struct ag_traced_thread *thread);

/* Lets the stopped thread run for about TURN_NS (less than a second), after waiting a few ms until
 * it gets a CPU, and stops it again. The thread is traced all the time, and must not be held by a
 * signal (is_held). Returns 0; -ESRCH: the thread is gone; -ETIMEDOUT: as
 * ag_traced_thread_finish_stop. */
int ag_traced_thread_give_turn(struct ag_traced_thread *thread, uint64_t turn_ns);

/* The number of the system call that the thread is in, or -1. */
long ag_traced_thread_call(const struct ag_traced_thread *thread);

/* Whether a signal is pending that would end a system call of the thread if the thread were not
 * traced: a signal that is neither blocked nor ignored. Returns true if the pending signals cannot
 * be read. */
bool ag_traced_thread_has_signal(const struct ag_traced_thread *thread);

/* Whether CALL, the number of a system call, changes the memory map. Allocators make such calls. */
bool ag_call_changes_map(long call);

/* Whether the thread runs, or is in a system call that an allocator may make. */
bool ag_traced_thread_may_hold_lock(const struct ag_traced_thread *thread);

/* Whether the stopped thread intercepts its own system calls (prctl PR_SET_SYSCALL_USER_DISPATCH).
 * Also returns false if the kernel does not report it (before Linux 6.4). */
bool ag_traced_thread_intercepts(const struct ag_traced_thread *thread);

/* Sleeps until a traced thread changes its state, or the time is over. SIGCHLD is blocked. */
void ag_attach_sleep_until_woken(uint64_t most_ns);

#endif
