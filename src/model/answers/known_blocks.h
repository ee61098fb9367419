/* known_blocks.h: blocks that the C and C++ runtime has in use when a correct program ends, such as
 * the buffer of stdout. They are not leaks. known_blocks.def lists them with reasons. */
#ifndef AG_KNOWN_BLOCKS_H
#define AG_KNOWN_BLOCKS_H

#include "model/profile.h"

struct ag_known_blocks { /* an entry of known_blocks.def */
    const char *name, *functions, *reason;
};
/* Returns all entries, and stores their number. */
const struct ag_known_blocks *ag_known_blocks(size_t *ret_count);

/* Finds the known blocks of a profile. Call this function before ag_profile_fold
 * (model/answers/blamed_lines.h), which removes frames that are needed to recognize the blocks. 0
 * or a negative errno. */
int ag_profile_find_known(struct ag_profile *profile);
/* The entry for the blocks of rows[ROW] of ag_profile_stacks (model/profile.h), as 1 + its number;
 * 0: none, or ag_profile_find_known was not called. */
unsigned ag_profile_known(const struct ag_profile *profile, size_t row);

#endif
