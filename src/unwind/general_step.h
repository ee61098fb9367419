/* general_step.h: one step outward by a CFI row that does not fit into a packed rule. Rare. */
#ifndef AG_GENERAL_STEP_H
#define AG_GENERAL_STEP_H

#include "unwind/stack_walker_fast.h"

/* Steps from frames[last], the current frame, to its caller. frames[0] is the innermost: registers
 * that the walk does not carry are searched where the frames in between saved them. Reads the
 * caller's return address with role RETURN_ADDRESS, all other words as OTHER. */
enum ag_step_result ag_general_step(struct ag_unwind_space *space,
                                    const struct ag_new_frame *frames, uint32_t last,
                                    ag_read_word_fn *read, void *context,
                                    struct ag_registers *ret_registers);

#endif
