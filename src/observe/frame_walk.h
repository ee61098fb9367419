/* frame_walk.h: finds the native frames of one sample from its registers and stack.
 *
 * The walk finds all callee-saved registers of each frame, because an inspector (the code that
 * reads a virtual machine such as Erlang's from outside) finds the machine's state in these
 * registers. */
#ifndef AG_FRAME_WALK_H
#define AG_FRAME_WALK_H

#include <allogram/inspector.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observed_images.h"

/* The known parts of a thread's stack: the copy that was made when the sample was taken, and the
 * memory beyond the copy, which is read later. */
struct ag_stack_copy {
    uint64_t address;
    const uint8_t *bytes;
    size_t n_bytes;
    pid_t pid; /* process whose memory may be read for deeper frames; 0: may not be read */
    /* what was read later, beyond the copy; freed by ag_stack_copy_done */
    uint8_t *later;
    size_t n_later;
    bool later_tried;
};
/* Frees what was read later. */
void ag_stack_copy_done(struct ag_stack_copy *stack);

/* Whether PC, an address outside of all images (mapped files), is in code that a virtual machine
 * generated and that an inspector knows. CONTEXT: ag_frame_walker.owner. */
typedef bool ag_owns_pc_fn(void *context, uint64_t pc);

struct ag_pointer_map;
struct ag_frame_walker { /* zero-initialize, then set images; owns may be NULL */
    struct ag_observed_images *images;
    ag_owns_pc_fn *owns;
    void *owner;
    /* struct ag_frame_rules by pc, valid while images->generation is `generation`; NULL: none
     * yet */
    struct ag_pointer_map *rules;
    uint64_t generation;
    /* how many frames of the last walk, from the innermost, are certain: all steps to them follow
     * call frame information, not a guess */
    size_t n_certain;
};
/* Stores at least one and at most LIMIT frames in ret_frames, and returns their number. */
size_t ag_frame_walk(struct ag_frame_walker *walker, const struct allogram_registers *registers,
                     struct ag_stack_copy *stack, struct allogram_native_frame *ret_frames,
                     size_t limit, enum allogram_walk_end *ret_end);
/* Whether a call instruction of process PID ends right before the address. */
bool ag_is_after_call(pid_t pid, uint64_t address);
/* Whether a signal handler of process PID returns to the address. */
bool ag_is_restorer(pid_t pid, uint64_t address);
/* Whether a word that looks like a return address, PC, can be one: the frame to which it would
 * return, with the stack pointer SP, must itself have a return address that follows a call. If the
 * word is an old return address, in memory that is used for something else now, this frame has been
 * overwritten, or PC is in other code that was mapped there since. Returns true if the call frame
 * information does not say where in the stack that frame ends. */
bool ag_frame_may_be_active(struct ag_frame_walker *walker, uint64_t pc, uint64_t sp, pid_t pid);
void ag_frame_walker_done(struct ag_frame_walker *walker);

#endif
