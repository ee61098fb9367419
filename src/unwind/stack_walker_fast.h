/* stack_walker_fast.h: the inline first part of a capture: the cache of whole stacks.
 *
 * A program mostly allocates from a few stacks. Each walker (the unwinder of one thread) caches up
 * to 512 whole stacks. An entry contains the node (the stack's id in the stack tree), and all words
 * that the walk read; if these words are unchanged, the stack is the same. The place of a stack in
 * the cache depends on its node, which is not known before the capture. So two predictions choose
 * the entries whose words are compared:
 *
 *     expected   the stack that was captured last time with the same pc, sp and previous stack
 *     by key     the last two stacks with the same pc, sp and next two return addresses (with one
 *                return address, all callers of a wrapper would have the same key; with three,
 *                captures were slower)
 *
 * If many stacks have the same key, `expected` is still right when the program repeats their
 * sequence. If stacks do not recur, it costs more to fill the cache than the cache saves. So an
 * entry is replaced only if two successive misses in its set are of one stack. And each walker has
 * a credit, which a hit increases and a miss reduces; without credit, the cache is bypassed for
 * some captures.
 *
 * Budget, with warm caches: 3 ns for an expected stack, 6 ns for one found by key, 0.45 ns for each
 * compared word (about one per frame). To bypass the cache costs one load and one branch.
 * bench/micro_walker.c measures these times. */
#ifndef AG_STACK_WALKER_FAST_H
#define AG_STACK_WALKER_FAST_H

#include "unwind/readable_range.h"
#include "unwind/stack_walker.h"
#include "unwind/unwind_space.h"

enum {
    AG_CACHED_SETS_BITS = 8, /* log2 of the number of sets of the cache; a set has two entries */
    AG_CACHED_STACKS = 2 << AG_CACHED_SETS_BITS,
    /* blocks of four words; a stack that needs more than 52 words is not cached */
    AG_CACHED_BLOCKS = 13,
    AG_CACHED_KEY_RETURNS = 2, /* number of return addresses in the key after the first */
    AG_EXPECTED_BITS = 10,
    AG_CACHE_CREDIT_MAX = 96, /* limit of the credit; a hit increases the credit by one */
    /* a miss reduces the credit by this: a miss wastes twice the time that a hit saves */
    AG_CACHE_MISS_COST = 2,
    AG_CACHE_CREDIT_START = 24,
    AG_NEAR_BITS = 9, /* log2 of the number of elements of near_pcs, which takes 8 KiB */
};

/* The words of a stack are compared from the innermost frame outward. A word is read only after all
 * words further inside were found equal (section 3 of stack_walker.c). Combining several
 * comparisons by a bitwise `or` would save branches, but could read memory that is not mapped
 * anymore. */
struct ag_cached_words { /* four words of a stack: sp[offsets[i]] was values[i] */
    uintptr_t values[4];
    uint16_t offsets[4];
};
/* 576 bytes: an odd number of cache lines, so that the first lines of the entries are in different
 * sets of the L1 cache. The words of eight frames are in the first two lines. */
struct ag_cached_stack {
    AG_CACHE_ALIGNED uintptr_t sp; /* sp of the capture; 0: the entry is empty */
    uintptr_t pc;                  /* the return address at sp */
    uintptr_t rbp;                 /* compared only if reads_rbp is set */
    uint32_t node;
    uint32_t generation; /* space->generation when the entry was filled */
    /* size of the used blocks; the last block is padded with copies of its first word */
    uint32_t blocks_bytes;
    uint32_t reads_rbp;
    struct ag_cached_words blocks[AG_CACHED_BLOCKS];
};
_Static_assert(sizeof(struct ag_cached_stack) == 576, "a stack has 9 cache lines, an odd number");
/* An entry of the walker's own cache of pcs: a copy of the result of a recent lookup. */
struct ag_near_pc {
    uintptr_t pc;
    uint64_t value; /* AG_PC_VALUE */
};
struct ag_stack_word { /* the word at address was value */
    const uintptr_t *address;
    uintptr_t value;
};
struct ag_known_frame {
    struct ag_registers registers;
    uint32_t node;
    /* AG_NEEDS(number of words that the walk read from this frame outward, whether this part of the
     * walk depends on rbp) */
    uint32_t needs;
};
#define AG_NEEDS(n_words, reads_rbp) ((uint32_t)(n_words) << 1 | (reads_rbp))
#define AG_NEEDED_WORDS(needs) ((needs) >> 1)
#define AG_NEEDS_RBP(needs) ((needs)&1)
struct ag_new_frame {
    struct ag_registers registers;
    uint64_t value; /* AG_PC_VALUE */
    /* number of words with role AG_WORD_OTHER that the steps from this frame and from all new
     * frames further inside read */
    uint32_t n_others;
};
struct ag_walker {
    struct ag_readable_range stack;
    uint32_t bypass; /* number of next captures that bypass the cache; 0: the cache is used */
    /* length of the next bypass; it doubles while the cache is not useful */
    uint32_t bypass_length;
    int32_t credit;      /* <= AG_CACHE_CREDIT_MAX */
    uint32_t last;       /* identifies the last stack: its place in the cache, or its node */
    uint32_t generation; /* space->generation when the memo (`frames`) and near_pcs were filled */
    uint32_t depth;
    uint32_t n_frames; /* <= depth */
    /* the memo is of a cut stack: its outermost frame is not the outermost frame of the stack */
    bool is_cut;
    /* the memo, the frames of the last walk: an array of `depth` frames, outermost first */
    struct ag_known_frame *frames;
    /* the words that the memo depends on, compared from the last to the first; at most
     * AG_STEP_OTHER_WORDS_MAX + 1 for each of `depth` frames, and one for the word that stopped the
     * walk */
    struct ag_stack_word *words;
    /* memory of one capture, innermost frame first; new_returns[i] is the word from which the pc of
     * new_frames[i] was read; new_others are the words with role AG_WORD_OTHER */
    struct ag_new_frame *new_frames;
    struct ag_stack_word *new_returns;
    struct ag_stack_word *new_others;
    /* a pc is in one of two places, i and i ^ 1 */
    AG_CACHE_ALIGNED struct ag_near_pc near_pcs[1 << AG_NEAR_BITS];
    uint16_t expected[1 << AG_EXPECTED_BITS]; /* places in the cache, in units of cache lines */
    /* the last two places of a key, in units of cache lines */
    uint16_t by_key[1 << AG_CACHED_SETS_BITS][2];
    /* by set: bits 0 to 30: node of the last miss in the full set; bit 31: which of its two entries
     * is replaced next */
    uint32_t missed[1 << AG_CACHED_SETS_BITS];
    struct ag_cached_stack cache[AG_CACHED_STACKS];
};

/* Captures a stack if the cache is bypassed (expected is NULL), or if the prediction was wrong. In
 * the second case, if the captured stack is in the cache, its place is stored in *expected. */
uint32_t ag_walker_capture_slow(struct ag_walker *walker, struct ag_unwind_space *space,
                                const uintptr_t *sp, uintptr_t rbp, uint16_t *expected);

AG_FAST const struct ag_cached_stack *ag_cached_stack_at(const struct ag_walker *walker,
                                                         uint16_t place) {
    return (const struct ag_cached_stack *)((const char *)walker->cache +
                                            (size_t)place * AG_CACHE_LINE);
}

/* Whether the word is unchanged. volatile, because the compiler must not move the read before
 * earlier comparisons. */
AG_FAST bool ag_stack_word_is(const uintptr_t *address, uintptr_t value) {
    return *(const volatile uintptr_t *)address == value;
}

/* Whether the stack at sp is the stack of the entry. */
AG_FAST bool ag_cached_stack_is(const struct ag_cached_stack *entry,
                                const struct ag_unwind_space *space, const uintptr_t *sp,
                                uintptr_t rbp) {
    /* acquire: pairs with ag_unwind_space_forget (unwind_space.c) */
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

/* The inline version of ag_walker_capture (stack_walker.h). */
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
        walker->last = *expected; // not the node, which would have to be loaded first
        return entry->node;
    }
    return ag_walker_capture_slow(walker, space, sp, rbp, expected);
}

#endif
