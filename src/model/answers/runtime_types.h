/* runtime_types.h: types from a runtime's frames and numbers: the frame that made a block decides
 * its kind, and that frame's name or the number that the process recorded decides its type. */
#ifndef AG_RUNTIME_TYPES_H
#define AG_RUNTIME_TYPES_H

#include "model/profile.h"

/* Learns which number is which type where a frame's name tells both. After ag_profile_resolve. 0 or
 * -ENOMEM. */
int ag_profile_learn_types(struct ag_profile *profile);
void ag_profile_forget_types(struct ag_profile *profile);
/* The text of the type of the blocks of STACK, 0: its runtime does not record types. NODE: where
 * STACK begins. ret_runtime: untouched then. */
uint32_t ag_profile_runtime_type(struct ag_profile *profile, uint32_t stack, uint32_t node,
                                 const char **ret_runtime);

#endif
