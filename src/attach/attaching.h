/* attaching.h: the agent into a running process, its hooks on and off, and out again.
 *
 *     ag_attach_prepare     asks and looks; the process is not touched
 *     ag_attach_put_in      one thread stands while it loads the agent and joins the session
 *     ag_attach_switch_on   all threads stand for a moment: the jumps are written
 *     ...
 *     ag_attach_take_out    all threads stand for a moment: what stood there is written back; then,
 *                           when nobody is in the agent any more, one unloads it
 *
 * Each returns 0 or a negative errno with one line in ret_message; -EINTR: the end was asked for
 * (attach_end.h) before it was done. One thread of ours does it all:
 * ptrace is bound to it. SIGCHLD is blocked in it, and here it is taken: who waits for children of
 * its own asks for them afterwards. */
#ifndef AG_ATTACHING_H
#define AG_ATTACHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach_end.h"

struct ag_attach;
struct ag_attach_times { /* how long threads of the program stood, ns */
    uint64_t one_ns;     /* the one that loaded (or unloaded) the agent */
    uint64_t others_ns;  /* the longest of all others */
    uint32_t n_tries;    /* stops of threads until one stood at a safe point */
};

/* An allogram that was killed leaves its agent behind: takes that out. 1: it did; 0: there was
 * none. end: copied. */
int ag_attach_clean_up(pid_t pid, const struct ag_attach_end *end, char ret_message[512]);
int ag_attach_prepare(pid_t pid, const struct ag_attach_end *end, struct ag_attach **ret_attach,
                      char ret_message[512]);
/* What the process is called. */
const char *ag_attach_program(const struct ag_attach *attach);
/* Runtimes of the process that are known: the first, the second ...; NULL: no more. */
struct ag_late_runtime;
const struct ag_late_runtime *ag_attach_runtime(struct ag_attach *attach, size_t index);
/* agent: path of liballogram-attached.so, or of liballogram-attached-runtimes.so; adapters: as
 * --adapters; session_path: of the live file. On failure nothing of it is left. */
int ag_attach_put_in(struct ag_attach *attach, const char *agent, const char *adapters,
                     const char *session_path, struct ag_attach_times *ret_times,
                     char ret_message[512]);
/* What the process' main heap holds, where it is glibc's. 0, or a negative errno: it cannot be read
 * (glibc_heap.h). */
struct ag_glibc_heap;
int ag_attach_heap_before(struct ag_attach *attach, struct ag_glibc_heap *ret_heap);
int ag_attach_switch_on(struct ag_attach *attach, struct ag_attach_times *times,
                        char ret_message[512]);
/* Has the process ended, or executed another program? One read of its memory. What cannot be read
 * for another reason counts as no. */
bool ag_attach_is_gone(const struct ag_attach *attach);
/* -ESRCH: the process has ended; -ESTALE: it is another program now: nothing is left to do. Behind
 * any other failure the agent is left in the process, and records no more. -EINTR: there was too
 * little time; to be called again by a process that has more (ag_attach_take_time). */
int ag_attach_take_out(struct ag_attach *attach, struct ag_attach_times *ret_times,
                       char ret_message[512]);
/* From now on nobody asks for the end. */
void ag_attach_take_time(struct ag_attach *attach);
struct ag_attach *ag_attach_free(struct ag_attach *attach); /* of our memory only */

#endif
