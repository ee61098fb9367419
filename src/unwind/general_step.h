/* general_step.h: one step from a frame to its caller by a CFI row (a row of the DWARF call frame
 * table) that does not fit into the 32 bits of a packed rule (frame_rule.h), or from a frame that
 * begins without a call (AG_OTHER_START). Such frames are rare. */
#ifndef AG_GENERAL_STEP_H
#define AG_GENERAL_STEP_H

#include "unwind/stack_walker_fast.h"

/* Steps from frames[last], the current frame, to its caller. frames[0] is the innermost. The walk
 * computes only pc, sp and rbp of each frame. The value that another register had in frames[last]
 * is read from the stack, where one of the inner frames, frames[0] to frames[last - 1], saved it.
 * READ is called with the role AG_WORD_RETURN_ADDRESS for the caller's pc, and with AG_WORD_OTHER
 * for all other words. */
enum ag_step_result ag_general_step(struct ag_unwind_space *space,
                                    const struct ag_new_frame *frames, uint32_t last,
                                    ag_read_word_fn *read, void *context,
                                    struct ag_registers *ret_registers);

#endif
