/* types.h: the types and labels of allocated blocks. A type was reported by the program or a
 * runtime, or is derived from the names of the allocating functions (see type_names.c). A label
 * names the work that the program did when it allocated the block (a request, a phase), as set by
 * allogram_label_set. */
#ifndef AG_TYPES_H
#define AG_TYPES_H

#include "model/profile.h"

struct ag_type_row {
    const char *type;    /* NULL: this row is for blocks of unknown type */
    const char *runtime; /* the runtime (virtual machine) of the type; "c": native code */
    struct ag_metrics metrics;
};
/* Returns one row for each type, and one for blocks of unknown type, if there are any. The rows
 * together contain all stacks. 0 or -ENOMEM. */
int ag_profile_types(struct ag_profile *profile, const struct ag_type_row **ret_rows,
                     size_t *ret_count);
/* The type of the blocks that a stack allocated; NULL: unknown. Valid until the profile is
 * closed. */
const char *ag_profile_stack_type(struct ag_profile *profile, uint32_t stack);

/* The label of the blocks that a stack allocated; NULL: none. Valid until the profile is closed. */
const char *ag_profile_stack_label(const struct ag_profile *profile, uint32_t stack);

#endif
