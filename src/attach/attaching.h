/* attaching.h: loads the agent (the shared library that records allocations) into a running
 * process, switches its hooks (jumps in functions such as malloc) on and off, and unloads it.
 *
 *     ag_attach_claim       waits until no other allogram attaches to the process
 *     ag_attach_prepare     checks only; the process is not touched
 *     ag_attach_put_in      one thread is interrupted and made to load the agent, which joins the
 *                           recording
 *     ag_attach_switch_on   all threads are stopped briefly: the jumps are written
 *     ...
 *     ag_attach_take_out    all threads are stopped briefly: the overwritten bytes are restored;
 *                           when no thread is in the agent any more, one thread unloads it
 *
 * Unless stated otherwise, a function with ret_message returns 0, or a negative errno with one line
 * in ret_message. -EINTR: the user asked for the end (attach_end.h) before the step was done. One
 * thread has to make all these calls, because the kernel accepts ptrace requests only from the
 * tracing thread. The caller blocks SIGCHLD in that thread, and these functions consume the signal:
 * a caller with children of its own has to check afterwards whether one of these children has
 * ended. */
#ifndef AG_ATTACHING_H
#define AG_ATTACHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach_end.h"

struct ag_attach;
struct ag_attach_times { /* the stops of threads of the program */
    uint64_t one_ns;     /* how long the thread that loaded (or unloaded) the agent was stopped */
    uint64_t others_ns;  /* the longest stop of any other thread */
    uint32_t n_tries;    /* number of stops until a thread was able to load the agent */
};

/* Only one allogram at a time attaches to a process, or removes what another allogram left there.
 *
 * The claim is a lock on /proc/PID/auxv. That file belongs to the process PID alone, and only a
 * process that may trace PID can open it. The kernel releases the lock when its holder ends, and no
 * file on a disk is changed. If the file cannot be opened (PID is gone or belongs to another user),
 * there is nothing to claim; the next step reports the error.
 *
 * If another allogram holds the lock, this function waits up to 100 s until the lock is free;
 * normally milliseconds suffice. Returns 0, with a descriptor or -1 in ret_fd for
 * ag_attach_claim_end, or a negative errno with one line in ret_message: -EBUSY: the other allogram
 * still holds the lock; -EINTR: the user asked for the end. */
int ag_attach_claim(pid_t pid, const struct ag_attach_end *end, int *ret_fd, char ret_message[512]);
void ag_attach_claim_end(int *fd); /* also done by the end of this process; may be called twice */
/* Removes the agent that a killed allogram left in the process. Returns 1 if an agent was removed,
 * 0 if there was none, or a negative errno. */
int ag_attach_clean_up(pid_t pid, const struct ag_attach_end *end, char ret_message[512]);
int ag_attach_prepare(pid_t pid, const struct ag_attach_end *end, struct ag_attach **ret_attach,
                      char ret_message[512]);
/* The name of the process. */
const char *ag_attach_program(const struct ag_attach *attach);
/* Returns the runtimes (virtual machines) that were found in the process, one for each index from 0
 * on; NULL: there are no more. */
struct ag_runtime;
const struct ag_runtime *ag_attach_runtime(struct ag_attach *attach, size_t index);
/* agent: path of liballogram-attached.so, or of liballogram-attached-runtimes.so; adapters: the
 * value of --adapters; session_path: path of the live file, the shared file into which the agent
 * writes. After a failure the agent is not in the process, except if dlopen in the process did not
 * return in time (remote_call.h, is_abandoned). */
int ag_attach_put_in(struct ag_attach *attach, const char *agent, const char *adapters,
                     const char *session_path, struct ag_attach_times *ret_times,
                     char ret_message[512]);
/* The contents of the process' main heap, if it is glibc's. Returns 0, or a negative errno: the
 * heap cannot be read (glibc_heap.h). */
struct ag_glibc_heap;
int ag_attach_heap_before(struct ag_attach *attach, struct ag_glibc_heap *ret_heap);
int ag_attach_switch_on(struct ag_attach *attach, struct ag_attach_times *times,
                        char ret_message[512]);
/* Whether the process has ended, or has executed another program. Costs one read of the process'
 * memory. Returns false if the read fails for another reason. */
bool ag_attach_is_gone(const struct ag_attach *attach);
/* Whether the jumps that switch the hooks on are where they were written. Reads the process' memory
 * and stops no thread. true, if the memory cannot be read. */
bool ag_attach_code_is_kept(const struct ag_attach *attach);
/* Makes the agent inactive, if it is there: its hooks, which remain in the program, then only call
 * the original functions. Makes only system calls, and waits for no thread, but may block in the
 * kernel. */
void ag_attach_turn_off(const struct ag_attach *attach);
/* Removes the agent. -ESRCH: the process has ended; -ESTALE: it has executed another program; in
 * both cases the agent is gone, too. After any other failure the agent stays in the process, and
 * records no more. -EINTR: the user asked for the end, and the agent could not be removed in the
 * short time that is then allowed; a caller that has more time may call this function again after
 * ag_attach_take_time. */
int ag_attach_take_out(struct ag_attach *attach, struct ag_attach_times *ret_times,
                       char ret_message[512]);
/* Makes all later calls ignore the user's request for the end. */
void ag_attach_take_time(struct ag_attach *attach);
/* Lets another allogram remove the agent, as if this process had been killed. */
void ag_attach_disown(struct ag_attach *attach);
/* Whether ag_attach_free has to wait for threads. */
bool ag_attach_has_late_threads(const struct ag_attach *attach);
/* Waits up to a minute until all threads that were asked to stop have stopped, and resumes them;
 * then frees our own memory. Returns NULL. */
struct ag_attach *ag_attach_free(struct ag_attach *attach);

#endif
