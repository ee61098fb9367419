/* managed_frames.h: joins the frames of virtual machines with the native frames of a stack.
 *
 * A source is a function that lists the frames of one virtual machine (managed frames) in one
 * thread. A program (allogram.h), or an adapter (the code for one runtime), registers it. The
 * source is called whenever the stack of its thread is recorded. For each of its frames it reports
 * an address in the native frame of the interpreter that runs the managed function. So native and
 * managed frames can be joined to one stack, in the order of their calls. In the stack tree
 * (base/stack_tree.h), a node is the number of a stack, and a site is the number of a function and
 * line, or of a pc. */
#ifndef AG_MANAGED_FRAMES_H
#define AG_MANAGED_FRAMES_H

#include <stdint.h>

#include "thread_state.h"

struct ag_managed_frame {
    uint32_t function; /* id of a FRAME record; 0: unknown */
    uint32_t line;     /* line being executed; 0: unknown; the line in the FRAME record is then
                        * shown */
    /* an address inside the native frame of the interpreter that runs this function; 0: the same
     * native frame as that of the previous managed frame; AG_OUTERMOST_POSITION: nothing called
     * this function (ALLOGRAM_OUTERMOST in allogram.h) */
    uintptr_t position;
};
#define AG_OUTERMOST_POSITION UINTPTR_MAX

/* A run: the managed frames that belong to one native frame. A source keeps the run between walks,
 * because most of its frames do not change. The frames of a run are in the order of their calls,
 * the outermost first. When the frames are joined with the native frames, the nodes of unchanged
 * frames are used again, so only frames that changed cost time in a walk. */
struct ag_run_frame {
    uint32_t function, line; /* as in ag_managed_frame */
    uint32_t site;           /* site of function and line; 0: not interned yet */
    uint32_t node;           /* node of the stack that ends with this frame */
};
struct ag_frame_run {
    struct ag_run_frame *frames;
    uint32_t n;
    /* frames[first] to frames[n_known - 1] have nodes, and the caller of frames[first] is the node
     * `base`. The frames before `first` are left out of a stack that is deeper than the limit.
     * n_known <= first: no frame has a node. n_known <= n */
    uint32_t base, first, n_known;
};
/* Sets a frame of a run, and drops the nodes that depend on its former values. */
AG_FAST void ag_run_set(struct ag_frame_run *run, uint32_t index, uint32_t function,
                        uint32_t line) {
    struct ag_run_frame *frame = &run->frames[index];
    if (frame->function != function || frame->line != line) {
        *frame = (struct ag_run_frame){.function = function, .line = line};
        run->n_known = run->n_known < index ? run->n_known : index;
    }
}

/* Fills ret_frames with at most MOST frames, innermost first, and returns their number. natives:
 * all native frames, innermost first. A source may list a run in place of a frame: the source then
 * stores the run in ret_runs[i] (NULL before the call), and only the position of ret_frames[i]
 * counts. The sites and nodes of a run belong to one recording (ag_stacks_recording in recorder.h
 * returns its number); the source drops them when this number changes. The source is called during
 * an allocation, maybe in a signal handler, so it must not allocate, take a lock or leave by
 * longjmp. */
typedef uint32_t ag_frame_source_fn(void *context, const struct ag_walked_frame *natives,
                                    uint32_t n_natives, struct ag_managed_frame *ret_frames,
                                    struct ag_frame_run **ret_runs, uint32_t most);
struct ag_frame_source {
    ag_frame_source_fn *walk;
    /* NULL, or called after each walk when its runs are no longer used, with the walk's natives */
    void (*end_walk)(void *context, const struct ag_walked_frame *natives);
    void *context;
};
enum { AG_FRAME_SOURCES_MOST = 4 };

/* Registers SOURCE for the calling thread under KEY (any address that belongs to the caller).
 * SOURCE replaces an earlier source with the same key; if source->walk is NULL, the earlier source
 * is only removed. Returns 0, or -ENOSPC if there are too many sources. Must not be called from a
 * signal handler that interrupted this function. */
int ag_frame_source_set(const void *key, const struct ag_frame_source *source);
/* Whether the calling thread has sources. */
bool ag_frame_sources_are_there(void);

/* Returns the node of the stack at sp, with the native frames that the stack walker finds and the
 * frames of all sources. pc: 0, or an address in the calling function, which replaces the address
 * of the innermost native frame. */
uint32_t ag_managed_walk(struct ag_thread *thread, const uintptr_t *sp, uintptr_t rbp,
                         uintptr_t pc);
/* Returns the node of STACK with N more frames, which the innermost frame of STACK called. FRAMES
 * lists the innermost frame first; the positions of the frames are ignored. */
uint32_t ag_managed_push(uint32_t stack, const struct ag_managed_frame *frames, uint32_t n);

#endif
