/* runtime_types.h: types that a runtime's frames and numbers tell: of what kind the block is by the
 * frame that made it, of which type by that frame's name or by the number that the process told. */
#ifndef AG_RUNTIME_TYPES_H
#define AG_RUNTIME_TYPES_H

#include "model/profile.h"

/* Learns which number is which type where a frame's name tells both. After ag_profile_resolve. 0 or
 * -ENOMEM. */
int ag_profile_learn_types(struct ag_profile *profile);
void ag_profile_forget_types(struct ag_profile *profile);
/* The text of the type of what STACK allocated, 0: its runtime says nothing. NODE: where it begins.
 * ret_runtime: untouched then. */
uint32_t ag_profile_runtime_type(struct ag_profile *profile, uint32_t stack, uint32_t node,
                                 const char **ret_runtime);

#endif
