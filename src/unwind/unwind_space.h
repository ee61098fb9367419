/* unwind_space.h: what all walkers of a process share: the stack tree (base/stack_tree.h), and of
 * each pc its site (the pc's number in the tree) and its rule (frame_step_fast.h).
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
    AG_PC_LEVELS = 3,      /* a pc whose bucket is full goes to the next, four times larger level */
    AG_PC_FIRST_BITS = 14, /* 2^14 pcs, 256 KiB, touched as far as used; z3 needs 3,829 */
    AG_PC_BUCKET = 4,
    AG_PC_SLOTS = (1 << 14) + (1 << 16) + (1 << 18),
};
struct ag_pc_entry {
    _Atomic uint64_t pc;    /* 0: free */
    _Atomic uint64_t value; /* AG_PC_VALUE(site, rule); 0: not resolved (any more) */
};
#define AG_PC_VALUE(site, rule) ((uint64_t)(site) << 32 | (rule))
#define AG_PC_SITE(value) ((uint32_t)((value) >> 32))
#define AG_PC_RULE(value) ((uint32_t)(value))

struct ag_unwind_space {
    struct ag_stack_tree tree;
    uint32_t depth;
    ag_image_find_fn *find;
    void *find_context;
    /* Flags that show ag_unwind_space_forget where to search. Each is set before its condition
     * becomes true, and stays set. */
    _Atomic bool uses_level[AG_PC_LEVELS];
    _Atomic bool has_unkept;    /* a pc got no slot: only walkers cache its value */
    _Atomic bool has_imageless; /* a pc outside of all images got a site */
    /* threads that are resolving a pc; a longjmp out of that leaves it too high, never too low */
    _Atomic uint32_t n_resolving;
    AG_CACHE_ALIGNED _Atomic uint32_t
        generation; /* changes whenever the meaning of a pc may have changed */
    AG_CACHE_ALIGNED struct ag_pc_entry pcs[AG_PC_SLOTS];
};

/* The CFI row of the instruction at pc - 1, with the rule of DWARF register `wanted`. -ENOENT: no
 * image, or no row of it covers the pc; -EAGAIN: unknown at this moment. Expressions are copied to
 * ret_expressions, and the row's rules point there; if it is NULL, they become empty. */
enum { AG_ROW_EXPRESSION_BYTES = 64 }; /* the longest in libc, ld.so and libcrypto has 31 */
struct ag_row_expressions {
    uint8_t bytes[3][AG_ROW_EXPRESSION_BYTES];
};
int ag_unwind_space_find_row(struct ag_unwind_space *space, uintptr_t pc, uint32_t wanted,
                             struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry,
                             struct ag_row_expressions *ret_expressions);

uint64_t ag_pc_find_slow(struct ag_unwind_space *space, uintptr_t pc);

/* AG_PC_VALUE of a pc that the first level has, else 0. Budget: one multiplication, one cache
 * line; 1 ns with warm caches. */
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

/* AG_PC_VALUE of a frame's pc. Its site is 0 if no frame can have this pc (rule AG_RULE_NOTHING) or
 * if the site could not be stored (rule 0). */
AG_FAST uint64_t ag_pc_find_fast(struct ag_unwind_space *space, uintptr_t pc) {
    const uint64_t value = ag_pc_peek_fast(space, pc);
    return AG_LIKELY(value != 0) ? value : ag_pc_find_slow(space, pc);
}

#endif
