/* inline_tree.c: keeps the inlined calls of a function and their address ranges in arrays, so that
 * an address is found without reading DWARF again. A call comes before the calls inlined into it,
 * so the last range that contains an address is the innermost. A function usually has a few ranges;
 * the largest number seen is some thousands. The search is linear, takes about 1 ns per range, and
 * is made once for each address. */
#include "inline_tree.h"

#include <dwarf.h>
#include <stdlib.h>

#include "address_ranges.h"
#include "dwarf_units.h"
#include "table/array.h"

struct ag_inline_tree {
    struct ag_inlined *calls;
    size_t n;
    /* in the order of `calls`; `value` of a range is the index of its call */
    struct ag_address_ranges ranges;
};
struct reading {
    struct ag_inline_tree *tree;
    struct ag_work_meter *meter;
    /* by depth of an entry in the tree of DWARF entries: index of the call to which entries of this
     * depth belong, or AG_INLINE_NONE */
    uint32_t call_at[AG_DIE_DEPTH + 1];
    int result;
};

static uint64_t attribute_value(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) == 0 ? value : 0;
}

static int add_call(struct ag_inline_tree *tree, Dwarf_Die *die, uint32_t parent,
                    struct ag_work_meter *meter) {
    const uint64_t line = attribute_value(die, DW_AT_call_line);
    const struct ag_inlined call = {
        .die = *die,
        .parent = parent,
        .call_line = line <= UINT32_MAX ? (uint32_t)line : 0,
        .call_file = attribute_value(die, DW_AT_call_file),
    };
    const int r = AG_ARRAY_ADD(tree->calls, tree->n, call);
    return r < 0 ? r : ag_dwarf_add_ranges(die, tree->n - 1, &tree->ranges, meter);
}

static bool inline_tree_visit(void *context, Dwarf_Die *die, size_t depth) {
    struct reading *reading = context;
    reading->call_at[depth + 1] = reading->call_at[depth];
    switch (dwarf_tag(die)) {
    case DW_TAG_inlined_subroutine:
        if (reading->result == 0 && reading->tree->n < AG_INLINE_NONE) {
            reading->call_at[depth + 1] = (uint32_t)reading->tree->n;
            reading->result = add_call(reading->tree, die, reading->call_at[depth], reading->meter);
        }
        return reading->result == 0;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
        return reading->result == 0;
    default:
        return false;
    }
}

struct ag_inline_tree *ag_inline_tree_new(Dwarf_Die *function, struct ag_work_meter *meter) {
    struct ag_inline_tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL) {
        return NULL;
    }
    struct reading reading = {.tree = tree, .meter = meter, .call_at = {AG_INLINE_NONE}};
    ag_die_walk(function, meter, inline_tree_visit, &reading);
    return reading.result == 0 ? tree : ag_inline_tree_free(tree);
}

struct ag_inline_tree *ag_inline_tree_free(struct ag_inline_tree *tree) {
    if (tree != NULL) {
        free(tree->calls);
        ag_address_ranges_clear(&tree->ranges);
        free(tree);
    }
    return NULL;
}

uint32_t ag_inline_tree_find(const struct ag_inline_tree *tree, uint64_t address) {
    for (size_t i = tree->ranges.n; i-- > 0;) {
        const struct ag_address_range *range = &tree->ranges.items[i];
        if (range->low <= address && address < range->high) {
            return (uint32_t)range->value;
        }
    }
    return AG_INLINE_NONE;
}

const struct ag_inlined *ag_inline_tree_at(const struct ag_inline_tree *tree, uint32_t index) {
    return &tree->calls[index];
}
