/* stopped_threads.h: the threads of one process that are stopped, and the late threads: those whose
 * stop was requested but has not happened yet. */
#ifndef AG_STOPPED_THREADS_H
#define AG_STOPPED_THREADS_H

#include "attach_end.h"
#include "remote/remote_process.h"
#include "traced_thread.h"

enum { AG_THREADS_MOST = 4096, AG_SPARED_THREADS_MOST = 64 };

struct ag_stopped_threads { /* zero-initialize, then set process and end */
    const struct ag_remote_process *process;
    const struct ag_attach_end *end;
    struct ag_traced_thread items[AG_THREADS_MOST]; /* the threads, while all are stopped */
    size_t n;
    struct ag_traced_thread late[AG_THREADS_MOST];
    size_t n_late;
    struct {
        pid_t tid;
        uint64_t since_ns;
    } spared[AG_SPARED_THREADS_MOST]; /* see ag_stopped_threads_spares */
    size_t n_spared;
    pid_t busy_tid; /* a thread that executes a function for us: ag_stopped_threads_all leaves it
                     * alone; 0: none */
};

/* Whether the thread should not be stopped now. A call such as write waits until all bytes are
 * transferred, and a stop would end it early. So a thread in such a call is spared: it is not
 * stopped for 0.1 s. The array `spared` has these threads; the caller sets n_spared to 0 when it no
 * longer waits for them. */
bool ag_stopped_threads_spares(struct ag_stopped_threads *threads, pid_t tid);

/* Stops one thread, which the caller has to release. Returns 0; -ESRCH: the thread is gone; -EPERM:
 * it may not be traced; -ETIMEDOUT: it has not stopped yet, and another call for the same thread
 * continues to wait. */
int ag_stopped_threads_one(struct ag_stopped_threads *threads, pid_t tid,
                           struct ag_traced_thread *ret_thread);
/* Stops all threads of the process but busy_tid, and of the other processes in its memory. The
 * caller has to release the threads, whatever the result is. 0: all are stopped. -EAGAIN: one
 * thread is late, and the other threads must not wait for it: after they are released, the next
 * call waits for the late thread before it stops other threads. -ESRCH: the process has ended.
 * -EBUSY: a thread that was late at the previous call still has not stopped. -EINTR: the user asked
 * for the end (attach_end.h). Another negative errno, with a message: a thread cannot be
 * stopped. */
int ag_stopped_threads_all(struct ag_stopped_threads *threads, char ret_message[512]);
/* Whether so many threads of the process want to run, or did before they were stopped, that each
 * waits long for a CPU. */
bool ag_stopped_threads_are_crowded(const struct ag_stopped_threads *threads);
/* Lets items[I] run briefly, for TURN_NS, while the others stay stopped. Returns 0 if the thread is
 * stopped again. Otherwise it is late or gone, and the last item has taken its place. */
int ag_stopped_threads_give_turn(struct ag_stopped_threads *threads, size_t i, uint64_t turn_ns);
/* Takes items[I] from the list; the caller has to release it. The last item takes its place. */
struct ag_traced_thread ag_stopped_threads_take(struct ag_stopped_threads *threads, size_t i);
/* Resumes all stopped threads. Returns the longest time that a thread was stopped, in ns. */
uint64_t ag_stopped_threads_release(struct ag_stopped_threads *threads);
/* Resumes the late threads that have stopped; without this call they stay stopped. IS_LAST: this
 * process may end next, so the function waits for late threads that have not stopped yet: up to a
 * minute, but for those in uninterruptible waits at most 1 s, or briefly if the end is due. */
void ag_stopped_threads_settle(struct ag_stopped_threads *threads, bool is_last);
/* If the process was killed while this process traced threads of it, waits for the ends of these
 * threads: before that, the kernel does not report the end of the process to anyone. Waits at most
 * 5 s, in case that only the first thread has ended. */
void ag_stopped_threads_reap(const struct ag_stopped_threads *threads);

#endif
