/* stack_walker_fast.h: the inline first part of a capture: the cache of whole stacks.
 *
 * A program mostly allocates from few stacks, again and again. Each walker keeps up to 512 of them
 * whole: the node (the stack's id in the tree), and all words that the walk read, which prove that
 * the stack is the same. The place of a stack in the cache depends on its node. Two predictions
 * choose the entries to try, and the words are compared:
 *
 *     expected   the stack that followed the same last stack when this pc and sp last captured
 *     by key     the last two that had this pc, sp and next two return addresses (with one, all
 *                callers of a wrapper share a key; with three, captures were slower)
 *
 * If many stacks share one key, `expected` still hits when the program repeats their sequence. If
 * stacks do not recur, filling the cache would cost more than it gains. So an entry is replaced
 * only after another stack was missed there twice in a row, and each walker has a credit: a hit
 * earns, a miss costs, and without credit the cache is bypassed for a while.
 *
 * Budget, with warm caches: 3 ns for an expected stack, 6 ns for one found by key, 0.45 ns for each
 * compared word (about one per frame). A bypass costs one load and one branch.
 * bench/micro_walker.c measures these times. */
#ifndef AG_STACK_WALKER_FAST_H
#define AG_STACK_WALKER_FAST_H

#include "unwind/readable_range.h"
#include "unwind/stack_walker.h"
#include "unwind/unwind_space.h"

enum {
    AG_CACHED_SETS_BITS = 8, /* log2 of the number of sets, which have two entries each */
    AG_CACHED_STACKS = 2 << AG_CACHED_SETS_BITS,
    AG_CACHED_BLOCKS = 13,     /* 52 words; a stack that needs more is not cached */
    AG_CACHED_KEY_RETURNS = 2, /* return addresses in the key besides the first */
    AG_EXPECTED_BITS = 10,
    AG_CACHE_CREDIT_MAX = 96, /* a hit earns one ... */
    AG_CACHE_MISS_COST = 2,   /* ... a miss costs this much: a miss wastes twice what a hit saves */
    AG_CACHE_CREDIT_START = 24,
    AG_NEAR_BITS = 9, /* log2 of the number of struct ag_near_pc: 8 KiB */
};

/* The words of a stack are compared from the innermost frame outward, and no word is read before
 * all words further inside were found equal (section 3 of stack_walker.c). An `or` over several
 * differences would save a branch, but read memory that may no longer exist. */
struct ag_cached_words { /* sp[offsets[i]] was values[i] */
    uintptr_t values[4];
    uint16_t offsets[4];
};
struct ag_cached_stack { /* 576 bytes: an odd number of cache lines, so that the heads spread over
                            all sets of the L1 cache; eight frames need the first two lines */
    AG_CACHE_ALIGNED uintptr_t sp; /* of the capture; 0: empty */
    uintptr_t pc;                  /* *sp */
    uintptr_t rbp;                 /* compared when reads_rbp */
    uint32_t node;
    uint32_t generation;   /* of the space when it was filled */
    uint32_t blocks_bytes; /* of the blocks in use; the last one is padded with repeated words */
    uint32_t reads_rbp;
    struct ag_cached_words blocks[AG_CACHED_BLOCKS];
};
_Static_assert(sizeof(struct ag_cached_stack) == 576, "an odd number of cache lines");
/* A walker's own copy of a recent lookup, found by one comparison. */
struct ag_near_pc {
    uintptr_t pc;
    uint64_t value; /* AG_PC_VALUE */
};
struct ag_stack_word { /* *address was value */
    const uintptr_t *address;
    uintptr_t value;
};
struct ag_known_frame {
    struct ag_registers registers;
    uint32_t node;
    uint32_t needs; /* AG_NEEDS(words that the walk reads from it outward, reads_rbp) */
};
#define AG_NEEDS(n_words, reads_rbp) ((uint32_t)(n_words) << 1 | (reads_rbp))
#define AG_NEEDED_WORDS(needs) ((needs) >> 1)
#define AG_NEEDS_RBP(needs) ((needs)&1)
struct ag_new_frame {
    struct ag_registers registers;
    uint64_t value;    /* AG_PC_VALUE */
    uint32_t n_others; /* words of role OTHER that this frame and all younger new frames read */
};
struct ag_walker {
    struct ag_readable_range stack;
    uint32_t bypass;        /* number of coming captures that bypass the cache; 0: use it */
    uint32_t bypass_length; /* of the next bypass: doubles while the cache does not pay */
    int32_t credit;         /* <= AG_CACHE_CREDIT_MAX */
    uint32_t last;          /* identifies the last stack: its place in the cache, or its node */
    uint32_t generation;    /* of the space, when memo and near pcs were made */
    uint32_t depth;
    uint32_t n_frames; /* <= depth */
    bool is_cut;       /* the outermost known frame is not the outermost of the stack */
    /* the memo: [depth], outermost first */
    struct ag_known_frame *frames;
    struct ag_stack_word *words; /* [depth * (AG_STEP_OTHER_WORDS_MAX + 1)], + 1 for the word that
                                    stopped a walk; compared from the last to the first */
    /* scratch of one capture: innermost first; new_returns[i] is where the pc of new_frames[i] was
     * read */
    struct ag_new_frame *new_frames;
    struct ag_stack_word *new_returns;
    struct ag_stack_word *new_others;
    AG_CACHE_ALIGNED struct ag_near_pc near_pcs[1 << AG_NEAR_BITS]; /* two places each: i, i ^ 1 */
    uint16_t expected[1 << AG_EXPECTED_BITS];     /* places in the cache, in cache lines */
    uint16_t by_key[1 << AG_CACHED_SETS_BITS][2]; /* likewise, the last two places of a key */
    /* node of the last miss in a full set; bit 31: which of the two is replaced next */
    uint32_t missed[1 << AG_CACHED_SETS_BITS];
    struct ag_cached_stack cache[AG_CACHED_STACKS];
};

/* Captures without the cache (expected: NULL), or after the prediction missed: then the right one
 * is stored in *expected. */
uint32_t ag_walker_capture_slow(struct ag_walker *walker, struct ag_unwind_space *space,
                                const uintptr_t *sp, uintptr_t rbp, uint16_t *expected);

AG_FAST const struct ag_cached_stack *ag_cached_stack_at(const struct ag_walker *walker,
                                                         uint16_t place) {
    return (const struct ag_cached_stack *)((const char *)walker->cache +
                                            (size_t)place * AG_CACHE_LINE);
}

/* Whether the word is unchanged. volatile: the compiler must not read a word earlier than written
 * here. */
AG_FAST bool ag_stack_word_is(const uintptr_t *address, uintptr_t value) {
    return *(const volatile uintptr_t *)address == value;
}

/* Whether the stack at sp is the entry's. */
AG_FAST bool ag_cached_stack_is(const struct ag_cached_stack *entry,
                                const struct ag_unwind_space *space, const uintptr_t *sp,
                                uintptr_t rbp) {
    /* acquire: pairs with ag_unwind_space_forget */
    if (AG_UNLIKELY(entry->sp != (uintptr_t)sp || entry->pc != *sp ||
                    entry->generation !=
                        atomic_load_explicit(&space->generation, memory_order_acquire) ||
                    (entry->reads_rbp && entry->rbp != rbp))) {
        return false;
    }
    const char *end = (const char *)entry->blocks + entry->blocks_bytes;
    for (const struct ag_cached_words *block = entry->blocks; (const char *)block != end; block++) {
        if (AG_UNLIKELY(!ag_stack_word_is(&sp[block->offsets[0]], block->values[0]) ||
                        !ag_stack_word_is(&sp[block->offsets[1]], block->values[1]) ||
                        !ag_stack_word_is(&sp[block->offsets[2]], block->values[2]) ||
                        !ag_stack_word_is(&sp[block->offsets[3]], block->values[3]))) {
            return false;
        }
    }
    return true;
}

/* See ag_walker_capture. */
AG_FAST uint32_t ag_walker_capture_fast(struct ag_walker *walker, struct ag_unwind_space *space,
                                        const uintptr_t *sp, uintptr_t rbp) {
    if (AG_UNLIKELY(walker->bypass != 0)) {
        return ag_walker_capture_slow(walker, space, sp, rbp, NULL);
    }
    const uint64_t origin = (uintptr_t)sp * UINT64_C(0xc2b2ae3d27d4eb4f) + *sp + walker->last;
    uint16_t *expected =
        &walker->expected[origin * UINT64_C(0x9e3779b97f4a7c15) >> (64 - AG_EXPECTED_BITS)];
    const struct ag_cached_stack *entry = ag_cached_stack_at(walker, *expected);
    AG_KEEP_IN_REGISTER(entry);
    if (AG_LIKELY(ag_cached_stack_is(entry, space, sp, rbp))) {
        walker->credit += walker->credit < AG_CACHE_CREDIT_MAX;
        walker->last = *expected; // not the node, for which the next prediction would wait
        return entry->node;
    }
    return ag_walker_capture_slow(walker, space, sp, rbp, expected);
}

#endif
