/* stopped_threads.h: the threads of one process that stand, and those that were asked to and have
 * not come yet. */
#ifndef AG_STOPPED_THREADS_H
#define AG_STOPPED_THREADS_H

#include "attach_end.h"
#include "remote/remote_process.h"
#include "traced_thread.h"

enum { AG_THREADS_MOST = 4096, AG_LATE_THREADS_MOST = 64 };

struct ag_stopped_threads { /* all zero but for process and end: none */
    const struct ag_remote_process *process;
    const struct ag_attach_end *end;
    struct ag_traced_thread items[AG_THREADS_MOST]; /* that stand, while all do */
    size_t n;
    struct ag_traced_thread late[AG_LATE_THREADS_MOST];
    size_t n_late;
};

/* Stops one, which is the caller's to release. 0; -ESRCH: it is gone; -EPERM: it may not be traced;
 * -ETIMEDOUT: it has not come yet; who asks for it again goes on waiting. */
int ag_stopped_threads_one(struct ag_stopped_threads *threads, pid_t tid,
                           struct ag_traced_thread *ret_thread);
/* Stops all; to be released behind any answer. 0: all stand. -EAGAIN: one has not come in a time
 * for which the others may be held up: let them go; the next call waits for that one alone. -ESRCH:
 * the process has ended. -EINTR: the end is due. Another
 * negative errno: it cannot be had, with a message. */
int ag_stopped_threads_all(struct ag_stopped_threads *threads, char ret_message[512]);
/* Lets go all that stand. Returns the longest that one stood, in ns. */
uint64_t ag_stopped_threads_release(struct ag_stopped_threads *threads);
/* Who comes late stands until it is seen: lets those go that have come, and waits at most so long
 * for the others. */
void ag_stopped_threads_settle(struct ag_stopped_threads *threads, uint64_t patience_ns);

/* It has ended and is not reaped (the first one, while others live). */
bool ag_thread_has_ended(pid_t pid, pid_t tid);

#endif
