/* guile_memo.h: remembers the frames of a thread's VM stack between two walks. */
#ifndef AG_GUILE_MEMO_H
#define AG_GUILE_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "guile_code.h"
#include "record/managed_frames.h"

/* A frame of the VM stack. */
struct ag_guile_frame {
    uintptr_t pc; /* as for ag_guile_place_of; 0: the boot code (guile_stacks.c) */
    uintptr_t
        distance; /* from the frame to the high end of the stack; unlike the frame's address, it
                   * does not change when the stack grows and is moved */
    struct ag_guile_place place;
    /* the numbers of frames of procedures, and of runs, in the memo up to this frame */
    uint32_t n_frames, n_runs;
    uint32_t
        known; /* of a frame that was read: 1 + the index of the same remembered frame; 0: none */
};

/* The memo of a thread. A run is the frames that one call of scm_call_n executes. */
struct ag_guile_memo {
    uint32_t recording;           /* ag_stacks_recording() when the runs got their nodes */
    uint32_t capacity;            /* elements of each array; the arrays are one mapping */
    uint32_t n, n_runs;           /* elements of `known` and of `runs` */
    uint32_t n_read;              /* elements of `read` */
    struct ag_guile_frame *known; /* the outermost first */
    struct ag_guile_frame *read;  /* of the current walk, the innermost first */
    struct ag_run_frame *frames;  /* those of `known` that are frames of Scheme procedures */
    struct ag_frame_run *runs;    /* the outermost first */
};

/* Begins a walk. Returns false if there is no memory. */
bool ag_guile_memo_begin(struct ag_guile_memo *memo);
/* Adds a frame that is not remembered. Returns whether it is a frame of a Scheme procedure. */
bool ag_guile_memo_read_new(struct ag_guile_memo *memo, uintptr_t pc, uintptr_t distance,
                            uintptr_t frame);
/* Adds the next frame of the walk, which begins with the innermost frame. The caller makes sure
 * that memo->n_read < memo->capacity, and sets *CURSOR to memo->n before the first frame. Returns
 * whether the frame is one of a Scheme procedure. */
AG_FAST bool ag_guile_memo_read_fast(struct ag_guile_memo *memo, uint32_t *cursor, uintptr_t pc,
                                     uintptr_t distance, uintptr_t frame) {
    uint32_t at = *cursor; /* the remembered frames from `at` on are further inside */
    while (at > 0 && memo->known[at - 1].distance > distance) {
        at--;
    }
    *cursor = at;
    const struct ag_guile_frame *known = memo->known + at - 1;
    if (AG_LIKELY(at > 0 && known->distance == distance && known->pc == pc)) {
        struct ag_guile_frame *read = &memo->read[memo->n_read++];
        read->pc = pc;
        read->distance = distance;
        read->known = at;
        return known->place.function != 0;
    }
    return ag_guile_memo_read_new(memo, pc, distance, frame);
}

/* Ends the walk: brings the runs up to date. */
void ag_guile_memo_end(struct ag_guile_memo *memo, uintptr_t stack_high);

#endif
