/* unwind_space.h: the data that all stack walkers of a process share: the stack tree
 * (base/stack_tree.h), and a table of pcs. The table has for each pc its site (its number in the
 * tree) and its rule (how to step from its frame to the caller, see frame_step_fast.h).
 *
 * The table of pcs is private to the process and only grows: a pc claims a slot by compare-and-swap
 * and keeps it. Its value, one word with site and rule, is stored when both are known, and cleared
 * when the image is unloaded. Readers need one cache line and no lock. */
#ifndef AG_UNWIND_SPACE_H
#define AG_UNWIND_SPACE_H

#include "base/stack_tree_fast.h"
#include "unwind/arch/arch.h"
#include "unwind/stack_walker.h"

enum {
    /* The table of pcs has three levels. If the bucket of a pc is full, the pc is stored in the
     * next level, which is four times larger. */
    AG_PC_LEVELS = 3,
    /* log2 of the slots of the first level. The level takes 256 KiB, but only used pages take
     * memory; the large program z3 needs 3,829 pcs. */
    AG_PC_FIRST_BITS = 14,
    AG_PC_BUCKET = 4, /* slots of a bucket */
    AG_PC_SLOTS = (1 << 14) + (1 << 16) + (1 << 18),
};
struct ag_pc_entry {
    _Atomic uint64_t pc;    /* 0: free */
    _Atomic uint64_t value; /* AG_PC_VALUE(site, rule); 0: not resolved yet, or removed */
};
#define AG_PC_VALUE(site, rule) ((uint64_t)(site) << 32 | (rule))
#define AG_PC_SITE(value) ((uint32_t)((value) >> 32))
#define AG_PC_RULE(value) ((uint32_t)(value))

struct ag_unwind_space {
    struct ag_stack_tree tree;
    uint32_t depth;
    ag_image_find_fn *find;
    void *find_context;
    /* Flags by which ag_unwind_space_forget (stack_walker.h) knows where to search. Each flag is
     * set before its condition becomes true, and stays set. uses_level: the level contains pcs. */
    _Atomic bool uses_level[AG_PC_LEVELS];
    _Atomic bool has_unkept;    /* a pc got no slot; its value is only in the caches of walkers */
    _Atomic bool has_imageless; /* a pc outside of all images got a site */
    /* number of threads that are resolving a pc. If a signal handler leaves a resolution by
     * longjmp, the number stays too high; it is never too low */
    _Atomic uint32_t n_resolving;
    AG_CACHE_ALIGNED _Atomic uint32_t
        generation; /* changes whenever the meaning of a pc may have changed */
    AG_CACHE_ALIGNED struct ag_pc_entry pcs[AG_PC_SLOTS];
};

/* the longest expression in libc, ld.so and libcrypto has 31 bytes */
enum { AG_ROW_EXPRESSION_BYTES = 64 };
struct ag_row_expressions {
    uint8_t bytes[3][AG_ROW_EXPRESSION_BYTES];
};
/* Finds the CFI row (the row of the DWARF call frame table) of the instruction at pc - 1, with the
 * rule of DWARF register `wanted`. -ENOENT: no image, or no row of the image, covers the pc;
 * -EAGAIN: the loader is changing its list of images; -EBADMSG: the tables are damaged, or an
 * expression is too long. Expressions are copied to *ret_expressions, and the row's rules point to
 * the copies; if ret_expressions is NULL, the expressions become empty. */
int ag_unwind_space_find_row(struct ag_unwind_space *space, uintptr_t pc, uint32_t wanted,
                             struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry,
                             struct ag_row_expressions *ret_expressions);

uint64_t ag_pc_find_slow(struct ag_unwind_space *space, uintptr_t pc);

/* Returns AG_PC_VALUE of the pc if it is in the first level and resolved, else 0. Budget: one
 * multiplication, one cache line; 1 ns with warm caches. */
AG_FAST uint64_t ag_pc_peek_fast(const struct ag_unwind_space *space, uintptr_t pc) {
    const uint64_t hash = ag_stack_tree_hash(pc);
    const struct ag_pc_entry *bucket =
        &space->pcs[ag_stack_tree_bucket(hash, AG_PC_FIRST_BITS, AG_PC_BUCKET)];
    for (int i = 0; i < AG_PC_BUCKET; i++) {
        if (AG_LIKELY(atomic_load_explicit(&bucket[i].pc, memory_order_relaxed) == pc)) {
            /* acquire: pairs with the release in pc_resolve (unwind_space.c) */
            return atomic_load_explicit(&bucket[i].value, memory_order_acquire);
        }
    }
    return 0;
}

/* Returns AG_PC_VALUE of a frame's pc, which is resolved if necessary. The site in it is 0 in two
 * cases: no frame can have this pc (the rule is AG_RULE_NOTHING), or the site could not be stored
 * (the rule is 0). */
AG_FAST uint64_t ag_pc_find_fast(struct ag_unwind_space *space, uintptr_t pc) {
    const uint64_t value = ag_pc_peek_fast(space, pc);
    return AG_LIKELY(value != 0) ? value : ag_pc_find_slow(space, pc);
}

#endif
