/* ocaml_frames.h: the stacks of OCaml code in native programs, by the runtime's frame
 * descriptors. */
#ifndef AG_OCAML_FRAMES_H
#define AG_OCAML_FRAMES_H

#include "ocaml_runtime.h"
#include "record/event_fast.h"

/* A frame descriptor: what the compiler notes about a return address in OCaml code
 * (runtime/caml/stack.h; frame_descriptors.h in OCaml 5). */
struct ag_ocaml_frame {
    uintptr_t return_address;
    /* size of the frame with the return address; bit 0: has debug information; bit 1: has
     * allocations */
    uint16_t frame_bytes;
    uint16_t n_live;
    uint16_t live[];
};
enum { AG_OCAML_HAS_DEBUG = 1, AG_OCAML_HAS_ALLOCATIONS = 2, AG_OCAML_BOUNDARY = 0xffff };

/* Called when the adapter is installed (ocaml_attach.c): finds the tables of frame descriptors.
 * Returns whether they were found. */
bool ag_ocaml_frames_find(void);
/* The frame descriptor of a return address; NULL: there is none. */
const struct ag_ocaml_frame *ag_ocaml_find_frame(uintptr_t return_address);

AG_FAST bool ag_ocaml_has_allocations(const struct ag_ocaml_frame *frame) {
    return frame->frame_bytes != AG_OCAML_BOUNDARY && frame->frame_bytes & AG_OCAML_HAS_ALLOCATIONS;
}
/* The compiler may combine several allocations, which then have one return address. Their lengths:
 * first the number of allocations, then for each allocation the number of its words without the
 * header, minus one. */
AG_FAST const uint8_t *ag_ocaml_lengths(const struct ag_ocaml_frame *frame) {
    return (const uint8_t *)&frame->live[frame->n_live];
}
/* The address of the debug information of allocation INDEX of the combined ones; 0: none. */
AG_FAST uintptr_t ag_ocaml_debug_information(const struct ag_ocaml_frame *frame, unsigned index) {
    const uint8_t *lengths = ag_ocaml_lengths(frame);
    const uintptr_t offsets = ((uintptr_t)(lengths + 1 + lengths[0]) + 3) & ~(uintptr_t)3;
    const uint32_t *offset = (const uint32_t *)offsets + index;
    return frame->frame_bytes & AG_OCAML_HAS_DEBUG && *offset != 0 ? (uintptr_t)offset + *offset
                                                                   : 0;
}

/* The last walk of a stack; each domain (the unit of parallelism of OCaml 5) has one. */
enum { AG_OCAML_WALK_FRAMES = 1024 };
struct ag_ocaml_walked {
    const uintptr_t *place; /* where the return address lies */
    uintptr_t pc;           /* the return address */
    uint32_t node;          /* the stack of this frame and its callers */
};
struct ag_ocaml_cut { /* cache of stacks that were cut: hash of the return addresses -> stack */
    uint64_t hash;
    uint32_t stack;
};
struct ag_ocaml_walk {
    uint32_t recording; /* ag_stacks_recording() when the nodes were made; the number changes when
                         * nodes become invalid */
    uint32_t n;         /* number of elements of `frames` */
    /* the outer end of the walked frames: the place of the return address into the runtime's code
     * that called OCaml code */
    const uintptr_t *boundary;
    uint32_t outer, outer_frames; /* the stack of the boundary's frame, and its number of frames */
    uint32_t start_caller, start; /* OCaml 5: the stack of the last caller of caml_start_program;
                                   * the same stack with the frame of caml_start_program */
    uintptr_t start_pc;           /* the return address in caml_start_program */
    struct ag_ocaml_walked frames[AG_OCAML_WALK_FRAMES]; /* outermost first */
    /* the frames of the last stack, if it was cut: cut[cut_index][0 ... n_cut - 1], innermost
     * first; n_cut 0: the last stack was not cut */
    struct ag_ocaml_walked cut[2][AG_OCAML_WALK_FRAMES];
    uint32_t n_cut, cut_index;
    struct ag_ocaml_cut cuts[1024];
    /* used during a walk only, to save room on the program's stack: the new frames, and the return
     * addresses of stack_of_fibers; both innermost first */
    struct ag_ocaml_walked fresh[AG_OCAML_WALK_FRAMES];
    uintptr_t pcs[AG_OCAML_WALK_FRAMES];
};
enum { AG_OCAML_NO_STACK = UINT32_MAX };
/* The stack of the OCaml code whose return address is at SP; AG_OCAML_NO_STACK: unknown. */
uint32_t ag_ocaml_walk(struct ag_ocaml_walk *walk, const uintptr_t *sp);
/* The stack whose first return address is at SP, by unwind tables. */
uint32_t ag_ocaml_native_stack(const uintptr_t *sp, uintptr_t rbp);

/* The value for the thread's gate, the word that shows whether a hook of the thread is interrupted
 * (section 3 of record/stream.c): an address of the stack on which the hook runs. */
#define AG_OCAML_GATE() ((uintptr_t)__builtin_frame_address(0))
/* Whether the thread is outside of the recorder and can record its events by the fast functions. */
AG_FAST bool ag_ocaml_thread_is_open(const struct ag_thread *thread) {
    return ag_thread_is_open(thread) && thread->recording == ag_recorder.recording;
}

#endif
