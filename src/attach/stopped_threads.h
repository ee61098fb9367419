/* stopped_threads.h: the threads of one process that are stopped, and those whose stop was
 * requested but has not happened yet. */
#ifndef AG_STOPPED_THREADS_H
#define AG_STOPPED_THREADS_H

#include "attach_end.h"
#include "remote/remote_process.h"
#include "traced_thread.h"

enum { AG_THREADS_MOST = 4096, AG_LATE_THREADS_MOST = 64 };

struct ag_stopped_threads { /* all zero except process and end: none */
    const struct ag_remote_process *process;
    const struct ag_attach_end *end;
    struct ag_traced_thread items[AG_THREADS_MOST]; /* stopped threads, while all are */
    size_t n;
    struct ag_traced_thread late[AG_LATE_THREADS_MOST];
    size_t n_late;
};

/* Stops one thread, which the caller has to release. 0; -ESRCH: it is gone; -EPERM: it may not be
 * traced; -ETIMEDOUT: it has not stopped yet; a further call for it continues to wait. */
int ag_stopped_threads_one(struct ag_stopped_threads *threads, pid_t tid,
                           struct ag_traced_thread *ret_thread);
/* Stops all threads; release them whatever the result. 0: all are stopped. -EAGAIN: one has not
 * stopped in the time for which the others may be held up: release them; the next call waits for
 * that one alone. -ESRCH: the process has ended. -EINTR: the end is due. Another negative errno: a
 * thread cannot be stopped, with a message. */
int ag_stopped_threads_all(struct ag_stopped_threads *threads, char ret_message[512]);
/* Resumes all stopped threads. Returns the longest time that one was stopped, in ns. */
uint64_t ag_stopped_threads_release(struct ag_stopped_threads *threads);
/* A late thread stays stopped until it is noticed: resumes those that have stopped, and waits at
 * most so long for the others. */
void ag_stopped_threads_settle(struct ag_stopped_threads *threads, uint64_t patience_ns);

/* Whether the thread has ended and is not reaped (the first one, while others live). */
bool ag_thread_has_ended(pid_t pid, pid_t tid);

#endif
