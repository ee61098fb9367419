/* attach_state.h: the state of an attach, for the two files that do its steps: attaching.c, which
 * defines their order, and stop_the_world.c. */
#ifndef AG_ATTACH_STATE_H
#define AG_ATTACH_STATE_H

#include "attach_end.h"
#include "attachable.h"
#include "attaching.h"
#include "hook/attachment.h"
#include "remote_call.h"
#include "safe_point.h"
#include "stopped_threads.h"

struct ag_attach {
    struct ag_remote_process process;
    struct ag_attach_end end;
    struct ag_observed_images images;
    struct ag_attachable attachable;
    struct ag_safe_ground ground;
    struct ag_remote_call call;
    const char *adapters; /* the value of --adapters */
    uint64_t handle;      /* of dlopen; 0: the agent is not loaded */
    uint64_t bias;        /* of the agent */
    uint64_t begin_function, end_function, variable;
    uint64_t switch_function;        /* 0: the agent has no runtimes */
    struct ag_code_range agent;      /* its code */
    struct ag_attachment attachment; /* as the agent filled it */
    bool is_on;
    bool is_learnt; /* the unwind rules of a safe stack are known: section 1 of attaching.c */
    uint32_t random;
    struct ag_stopped_threads threads;
};

/* ---- stop_the_world.c ---- */

/* Resumes all threads, and updates the longest time that one was stopped. */
void ag_attach_release_all(struct ag_attach *attach, struct ag_attach_times *times);
/* Stops all threads. Returns as ag_stopped_threads_all; they have to be released in any case. */
int ag_attach_stop_all(struct ag_attach *attach, char ret_message[512]);
/* Stops all threads, and repeats that until no thread is in the ranges. Returns 0 when all are
 * stopped, or a negative errno when all run. */
int ag_attach_stop_all_outside(struct ag_attach *attach, const struct ag_code_range *ranges,
                               size_t n_ranges, struct ag_attach_times *times,
                               char ret_message[512]);
/* Whether a thread is in the agent. Called while all threads are stopped. */
bool ag_attach_any_thread_is_inside(struct ag_attach *attach);
/* Finds the bytes that no thread may be in while they change. Returns the number of ranges. */
size_t ag_attach_site_ranges(const struct ag_attach *attach,
                             struct ag_code_range ret_ranges[AG_ATTACHMENT_SITES]);
/* Writes the jumps, or restores the bytes. Each place has to hold the expected bytes; a place that
 * does not is left unchanged. */
int ag_attach_write_sites(const struct ag_attach *attach, bool is_on, char ret_message[512]);

/* The next two are for agents whose runtimes need all threads stopped (wants_all_stopped of
 * hook/attachment.h). */

int ag_attach_runtimes_on(struct ag_attach *attach, struct ag_attach_times *times,
                          char ret_message[512]);
/* Removes the hooks, ends the work of the runtimes' adapters, unloads the agent. */
int ag_attach_runtimes_off(struct ag_attach *attach, struct ag_attach_times *times,
                           char ret_message[512]);

/* ---- attaching.c ---- */

int ag_attach_begin_call(struct ag_attach *attach, struct ag_traced_thread *thread);
void ag_attach_unload(struct ag_attach *attach); /* after ag_attach_begin_call */
void ag_attach_pause(struct ag_attach *attach);  /* a pause of random length */
/* Writes a message and returns -EINTR. */
int ag_attach_interrupted(const struct ag_attach *attach, char ret_message[512]);

#endif
