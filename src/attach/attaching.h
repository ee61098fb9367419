/* attaching.h: loads the agent into a running process, switches its hooks on and off, and unloads
 * it.
 *
 *     ag_attach_claim       waits until no other allogram attaches to the process
 *     ag_attach_prepare     checks only; the process is not touched
 *     ag_attach_put_in      one thread is stopped while it loads the agent and joins the session
 *     ag_attach_switch_on   all threads are stopped briefly: the jumps are written
 *     ...
 *     ag_attach_take_out    all threads are stopped briefly: the overwritten bytes are restored;
 *                           then, when no thread is in the agent any more, one unloads it
 *
 * Each returns 0 or a negative errno with one line in ret_message; -EINTR: the user asked for the
 * end (attach_end.h) before it was done. One thread of the caller makes all these calls, because
 * ptrace is bound to it. SIGCHLD is blocked in that thread and consumed here: a caller with
 * children of its own has to check for them afterwards. */
#ifndef AG_ATTACHING_H
#define AG_ATTACHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach_end.h"

struct ag_attach;
struct ag_attach_times { /* how long threads of the program were stopped, ns */
    uint64_t one_ns;     /* the thread that loaded (or unloaded) the agent */
    uint64_t others_ns;  /* the longest of all other threads */
    uint32_t n_tries;    /* number of stops until a thread was at a safe point */
};

/* Only one allogram at a time attaches to a process, or removes what another one left there.
 *
 * The claim is a lock on the process' auxv in /proc: no other file belongs to one process only and
 * is opened only by processes that may trace it. The lock ends with its holder, and no file of the
 * machine is changed. If the file cannot be opened (the process is gone or belongs to another
 * user), there is nothing to claim; the next step reports the error.
 *
 * Waits some seconds for another holder, which needs milliseconds. 0, with a descriptor or -1 in
 * ret_fd, for ag_attach_claim_end; -EBUSY with one line in ret_message; -EINTR likewise: the user
 * asked for the end. */
int ag_attach_claim(pid_t pid, const struct ag_attach_end *end, int *ret_fd, char ret_message[512]);
void ag_attach_claim_end(int *fd); /* the end of this process does it, too; may be called twice */
/* Removes the agent that a killed allogram left behind. 1: removed; 0: there was none. end:
 * copied. */
int ag_attach_clean_up(pid_t pid, const struct ag_attach_end *end, char ret_message[512]);
int ag_attach_prepare(pid_t pid, const struct ag_attach_end *end, struct ag_attach **ret_attach,
                      char ret_message[512]);
/* The name of the process. */
const char *ag_attach_program(const struct ag_attach *attach);
/* The known runtimes in the process by index; NULL: no more. */
struct ag_runtime;
const struct ag_runtime *ag_attach_runtime(struct ag_attach *attach, size_t index);
/* agent: path of liballogram-attached.so, or of liballogram-attached-runtimes.so; adapters: the
 * value of --adapters; session_path: of the live file. On failure nothing of it remains in the
 * process. */
int ag_attach_put_in(struct ag_attach *attach, const char *agent, const char *adapters,
                     const char *session_path, struct ag_attach_times *ret_times,
                     char ret_message[512]);
/* The contents of the process' main heap, if it is glibc's. 0, or a negative errno: it cannot be
 * read (glibc_heap.h). */
struct ag_glibc_heap;
int ag_attach_heap_before(struct ag_attach *attach, struct ag_glibc_heap *ret_heap);
int ag_attach_switch_on(struct ag_attach *attach, struct ag_attach_times *times,
                        char ret_message[512]);
/* Whether the process has ended, or has executed another program. One read of its memory. false if
 * the read fails for another reason. */
bool ag_attach_is_gone(const struct ag_attach *attach);
/* -ESRCH: the process has ended; -ESTALE: it runs another program now: nothing is left to do. After
 * any other failure the agent stays in the process, and records no more. -EINTR: there was too
 * little time; to be called again by a process that has more (ag_attach_take_time). */
int ag_attach_take_out(struct ag_attach *attach, struct ag_attach_times *ret_times,
                       char ret_message[512]);
/* From now on requests for the end are ignored. */
void ag_attach_take_time(struct ag_attach *attach);
struct ag_attach *ag_attach_free(struct ag_attach *attach); /* frees our own memory only */

#endif
