/* numbering.h: numbers items 0, 1, 2 ... in the order in which they are first seen, for the tables
 * of strings, frames and stacks in a format. An item is a pair of integers or pointers. */
#ifndef AG_NUMBERING_H
#define AG_NUMBERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "table/index_map.h"

struct ag_numbered {
    uint64_t a, b;
};
struct ag_numbering {           /* zero-initialize */
    struct ag_numbered *things; /* the items, by number */
    size_t count;
    struct ag_index_map by_hash;
    bool has_failed; /* out of memory: all new items get the number 0 */
};
/* Returns the number of the item (a, b), which is added if it is new. ret_is_new may be NULL. */
uint32_t ag_numbering_of(struct ag_numbering *numbering, uint64_t a, uint64_t b, bool *ret_is_new);
void ag_numbering_done(struct ag_numbering *numbering);

static inline uint64_t ag_numbering_pointer(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}
/* Returns the number of a frame's function. Two frames have the same function if name and image
 * (the loaded file) are equal. Equal texts have equal addresses, so addresses are compared. */
static inline uint32_t ag_numbering_function(struct ag_numbering *functions,
                                             const struct ag_frame *frame) {
    return ag_numbering_of(functions, ag_numbering_pointer(frame->label),
                           ag_numbering_pointer(frame->image), NULL);
}

#endif
