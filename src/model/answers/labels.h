/* labels.h: the program's current work (a request, a phase) when blocks were allocated, as set by
 * allogram_label_set. */
#ifndef AG_LABELS_H
#define AG_LABELS_H

#include "model/profile.h"

/* The label of the blocks that a stack allocated, NULL: none. Valid as long as the profile. */
const char *ag_profile_stack_label(const struct ag_profile *profile, uint32_t stack);

#endif
