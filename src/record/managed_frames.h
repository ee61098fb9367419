/* managed_frames.h: joins the frames of virtual machines with the native frames of a stack.
 *
 * A source is a function that lists the frames of one virtual machine in one thread. It is
 * registered by a program (allogram.h) or by an adapter. It is called whenever the stack of its
 * thread is recorded, and reports for each of its frames the address on the native stack where the
 * interpreter runs it. So native and managed frames form one stack, in the order of their calls. */
#ifndef AG_MANAGED_FRAMES_H
#define AG_MANAGED_FRAMES_H

#include <stdint.h>

#include "thread_state.h"

struct ag_managed_frame {
    uint32_t function; /* id of a FRAME record; 0: unknown */
    uint32_t line;     /* line being executed; 0: the line of the function itself */
    /* an address inside the native frame that interprets this one; 0: same native frame as the
     * previous one */
    uintptr_t position;
};
/* Fills ret_frames with at most MOST frames, innermost first, and returns their number. natives:
 * all native frames, innermost first. It runs during an allocation, maybe in a signal handler: it
 * must not allocate, lock or jump out. */
typedef uint32_t ag_frame_source_fn(void *context, const struct ag_walked_frame *natives,
                                    uint32_t n_natives, struct ag_managed_frame *ret_frames,
                                    uint32_t most);
struct ag_frame_source {
    ag_frame_source_fn *walk;
    void *context;
};
enum { AG_FRAME_SOURCES_MOST = 4 };

/* Registers SOURCE for the calling thread under KEY (any address that belongs to the caller),
 * replacing an earlier source with that key; walk NULL: removes it. -ENOSPC: there are too many.
 * Must not be called from a handler that interrupted this function. */
int ag_frame_source_set(const void *key, const struct ag_frame_source *source);
/* Whether the calling thread has sources. */
bool ag_frame_sources_are_there(void);

/* The stack at sp, with the native frames that the walker finds and the frames of all sources. pc:
 * as in ag_typed_place. */
uint32_t ag_managed_walk(struct ag_thread *thread, const uintptr_t *sp, uintptr_t rbp,
                         uintptr_t pc);
/* STACK with N more frames inside of it, the innermost first; their positions are ignored. */
uint32_t ag_managed_push(uint32_t stack, const struct ag_managed_frame *frames, uint32_t n);

#endif
