/* inline_tree.h: the inlined calls in one function's code, by address. */
#ifndef AG_INLINE_TREE_H
#define AG_INLINE_TREE_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "work_meter.h"

enum { AG_INLINE_NONE = UINT32_MAX };

struct ag_inlined { /* one inlined call */
    Dwarf_Die die;
    uint32_t
        parent; /* the call that contains it: an index, or AG_INLINE_NONE for the function itself */
    uint32_t call_line; /* line of the call, 0: unknown */
    uint64_t call_file; /* index in the unit's file table, 0 with call_line 0 */
};
struct ag_inline_tree;

/* Reads as many inlined calls as METER (may be NULL) allows. NULL: out of memory. */
struct ag_inline_tree *ag_inline_tree_new(Dwarf_Die *function, struct ag_work_meter *meter);
struct ag_inline_tree *ag_inline_tree_free(struct ag_inline_tree *tree);
/* The innermost inlined call that contains ADDRESS, or AG_INLINE_NONE. */
uint32_t ag_inline_tree_find(const struct ag_inline_tree *tree, uint64_t address);
const struct ag_inlined *ag_inline_tree_at(const struct ag_inline_tree *tree, uint32_t index);

#endif
