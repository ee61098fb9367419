/* types.h: the types of the allocated blocks, as far as the allocating code shows them
 * (type_names.c explains how), and their labels: the program's current work (a request, a phase)
 * when they were allocated, as set by allogram_label_set. */
#ifndef AG_TYPES_H
#define AG_TYPES_H

#include "model/profile.h"

struct ag_type_row {
    const char *type;    /* NULL: the blocks of unknown type */
    const char *runtime; /* "c" for native */
    struct ag_metrics metrics;
};
/* One row for each type, and one for the untyped where there are some; their sums are those of all
 * stacks. 0 or -ENOMEM. */
int ag_profile_types(struct ag_profile *profile, const struct ag_type_row **ret_rows,
                     size_t *ret_count);
/* The type of the blocks that a stack allocated, NULL: unknown. Valid as long as the profile. */
const char *ag_profile_stack_type(struct ag_profile *profile, uint32_t stack);

/* The label of the blocks that a stack allocated, NULL: none. Valid as long as the profile. */
const char *ag_profile_stack_label(const struct ag_profile *profile, uint32_t stack);

#endif
