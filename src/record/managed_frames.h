/* managed_frames.h: the frames of virtual machines among the native ones of a stack.
 *
 * A source knows the frames of one virtual machine in one thread: a program's own (allogram.h), or
 * an adapter's. It is asked whenever this thread's stack is recorded, and says for each of its
 * frames where on the native stack the interpreter runs it; so the two kinds stand in one stack, in
 * the order in which they called each other. */
#ifndef AG_MANAGED_FRAMES_H
#define AG_MANAGED_FRAMES_H

#include <stdint.h>

#include "thread_state.h"

struct ag_managed_frame {
    uint32_t function;  /* id of a FRAME record; 0: not known */
    uint32_t line;      /* that is executed; 0: the function's own */
    uintptr_t position; /* an address inside of the native frame that interprets it; 0: in that of
                           the frame before it */
};
/* Fills ret_frames, innermost first, at most MOST, and returns how many. natives: all native
 * frames, innermost first. It runs inside of an allocation, maybe in a signal handler: no
 * allocation, no lock, no jump out of it. */
typedef uint32_t ag_frame_source_fn(void *context, const struct ag_walked_frame *natives,
                                    uint32_t n_natives, struct ag_managed_frame *ret_frames,
                                    uint32_t most);
struct ag_frame_source {
    ag_frame_source_fn *walk;
    void *context;
};
enum { AG_FRAME_SOURCES_MOST = 4 };

/* Of the calling thread from here on: SOURCE under KEY (an address that is the caller's own), in
 * place of the one before; walk NULL: none any more. -ENOSPC: there are too many. Not from a
 * handler that interrupted itself. */
int ag_frame_source_set(const void *key, const struct ag_frame_source *source);
/* This thread has sources. */
bool ag_frame_sources_are_there(void);

/* The stack at sp as the walker finds it, with the frames of all sources in it. pc: as in
 * ag_typed_place. */
uint32_t ag_managed_walk(struct ag_thread *thread, const uintptr_t *sp, uintptr_t rbp,
                         uintptr_t pc);
/* STACK with N frames more on top of it, the innermost first; their positions do not count. */
uint32_t ag_managed_push(uint32_t stack, const struct ag_managed_frame *frames, uint32_t n);

#endif
