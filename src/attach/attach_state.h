/* attach_state.h: the state of an attach, for the two files that perform its steps: attaching.c,
 * which defines the order of the steps, and stop_the_world.c. An attach loads the agent, a shared
 * library that records allocations, into a running process, the target. A hook is agent code to
 * which a jump at the start of a function of the target leads. */
#ifndef AG_ATTACH_STATE_H
#define AG_ATTACH_STATE_H

#include "attach_end.h"
#include "attachable.h"
#include "attaching.h"
#include "hook/attachment.h"
#include "remote_call.h"
#include "safe_point.h"
#include "stopped_threads.h"

/* The other threads are stopped so that a call proceeds (stop_the_world.c, section 3). */
struct ag_attach_help {
    uint64_t since_ns; /* when they were stopped; 0: they are not stopped for this reason */
    uint64_t again_ns; /* they are not stopped again before this time (CLOCK_MONOTONIC) */
    struct ag_attach_times times;
};

struct ag_attach {
    struct ag_remote_process process;
    struct ag_attach_end end;
    struct ag_observed_images images;
    struct ag_attachable attachable;
    struct ag_safe_ground ground;
    struct ag_remote_call call;
    const char *adapters; /* the value of --adapters */
    uint64_t handle;      /* what dlopen returned in the target; 0: the agent is not loaded */
    uint64_t bias;        /* the agent's address in memory minus its address in its file */
    /* addresses of the agent's symbols (hook/attachment.h) in its file; add `bias` for the
     * addresses in memory */
    uint64_t begin_function, end_function, variable;
    uint64_t switch_function;        /* 0: the agent has no adapters (code for virtual machines) */
    struct ag_code_range agent;      /* the agent's code */
    struct ag_attachment attachment; /* copy of the agent's variable, which the agent filled */
    bool is_on;                      /* the jumps of the hooks are written */
    bool was_on;                     /* the jumps were written: threads may be inside the agent */
    bool is_learnt;                  /* a stack of the target was once found safe for loading the
                                      * agent (attaching.c, section 1) */
    /* result of the last check in leave_all (stop_the_world.c): the number of threads inside the
     * code that they have to leave, and one of these threads; 0: none */
    size_t n_inside;
    pid_t insider;
    bool is_stuck; /* at the last try, none of these threads moved */
    struct ag_attach_help help;
    uint32_t random; /* state of the generator of ag_attach_pause */
    struct ag_stopped_threads threads;
};

/* ---- stop_the_world.c ---- */

/* Resumes all threads, and updates the longest time that a thread was stopped. */
void ag_attach_release_all(struct ag_attach *attach, struct ag_attach_times *times);
/* Stops all threads. Returns what ag_stopped_threads_all (stopped_threads.h) returns. The caller
 * has to release the threads even after a failure. */
int ag_attach_stop_all(struct ag_attach *attach, char ret_message[512]);
/* Stops all threads, and repeats that until no thread is in the ranges. Returns 0 if all threads
 * are stopped, or a negative errno if none is. */
int ag_attach_stop_all_outside(struct ag_attach *attach, const struct ag_code_range *ranges,
                               size_t n_ranges, struct ag_attach_times *times,
                               char ret_message[512]);
/* Removes the hooks if they are written, and waits until no thread is inside the agent. If it
 * returns 0, all threads are stopped; after a negative errno, none is. */
int ag_attach_leave(struct ag_attach *attach, struct ag_attach_times *times, char ret_message[512]);
/* Called while all threads are stopped. If so many threads of the process want to run that a call
 * would wait long for a CPU, and if one of the stopped threads may make calls, takes that thread
 * from the list and returns true. Then the other threads stay stopped, and the caller has to
 * release this thread and to call ag_attach_end_help. */
bool ag_attach_take_caller(struct ag_attach *attach, struct ag_traced_thread *ret_thread);
/* Waits a little for the function that a thread executes for us, and helps it to return. PASSED_NS:
 * how long it has been executing. */
void ag_attach_help_call(void *context, uint64_t passed_ns);
/* Resumes the threads that were stopped for a call, which may still be executed. */
void ag_attach_interrupt_help(void *context);
/* Resumes the threads that were stopped for calls. Called after the last call. */
void ag_attach_end_help(struct ag_attach *attach, struct ag_attach_times *times);
/* Finds the bytes that the jumps of the hooks replace. No thread may be inside these bytes while
 * they change. Returns the number of ranges. */
size_t ag_attach_site_ranges(const struct ag_attach *attach,
                             struct ag_code_range ret_ranges[AG_ATTACHMENT_SITES]);
/* is_on: writes the jumps of the hooks; otherwise restores the replaced bytes. A place that does
 * not hold the expected bytes is left unchanged, and an error is returned. */
int ag_attach_write_sites(const struct ag_attach *attach, bool is_on, char ret_message[512]);

/* The next two functions are for agents with adapters that need all threads stopped
 * (wants_all_stopped of hook/attachment.h). */

int ag_attach_runtimes_on(struct ag_attach *attach, struct ag_attach_times *times,
                          char ret_message[512]);
/* Removes the hooks, ends the work of the runtimes' adapters, unloads the agent. */
int ag_attach_runtimes_off(struct ag_attach *attach, struct ag_attach_times *times,
                           char ret_message[512]);

/* ---- attaching.c ---- */

/* Prepares THREAD, which is stopped, for calls of functions. HELPS: other threads may be stopped
 * and resumed during a call. Returns 0 or a negative errno. */
int ag_attach_begin_call(struct ag_attach *attach, struct ag_traced_thread *thread, bool helps);
void ag_attach_unload(struct ag_attach *attach); /* after ag_attach_begin_call */
void ag_attach_pause(struct ag_attach *attach);  /* a pause of random length */
/* Writes a message and returns -EINTR. */
int ag_attach_interrupted(const struct ag_attach *attach, char ret_message[512]);

#endif
