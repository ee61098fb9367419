/* inline_tree.h: finds the inlined calls in the code of a function, by address. */
#ifndef AG_INLINE_TREE_H
#define AG_INLINE_TREE_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "work_meter.h"

enum { AG_INLINE_NONE = UINT32_MAX };

struct ag_inlined { /* one inlined call */
    Dwarf_Die die;
    /* index of the inlined call that contains this call; AG_INLINE_NONE: the function itself
     * contains this call */
    uint32_t parent;
    uint32_t call_line; /* line of the call; 0: unknown */
    uint64_t call_file; /* index in the file table of the compilation unit; 0 if call_line is 0 */
};
struct ag_inline_tree;

/* Reads the inlined calls of FUNCTION. METER limits the work on a hostile file; NULL: no limit.
 * Returns NULL if memory is exhausted. */
struct ag_inline_tree *ag_inline_tree_new(Dwarf_Die *function, struct ag_work_meter *meter);
struct ag_inline_tree *ag_inline_tree_free(struct ag_inline_tree *tree);
/* Returns the index of the innermost inlined call that contains ADDRESS, or AG_INLINE_NONE. */
uint32_t ag_inline_tree_find(const struct ag_inline_tree *tree, uint64_t address);
const struct ag_inlined *ag_inline_tree_at(const struct ag_inline_tree *tree, uint32_t index);

#endif
