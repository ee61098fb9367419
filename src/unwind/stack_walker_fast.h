/* stack_walker_fast.h: the inline top of a capture: the cache of whole stacks.
 *
 * A program mostly allocates from few stacks, which it comes back to. Each walker keeps up to 256
 * of them whole: the words that prove it (all that the walk read) and the node. A stack is looked
 * up by where it starts (pc, sp) and by its next two return addresses (one is too few: wrappers;
 * three lose again), proven, and done: no walk, no interning.
 *
 * Where stacks do not come back (their middle varies), filling the cache would cost more than it
 * gives. So an entry is filled only when its key is missed twice in a row, and each walker lives on
 * credit: a hit earns, a miss costs, and without credit the cache is bypassed for a while.
 *
 * Budget, hot: 5 ns for the key (two rules, four loads), 0.45 ns for each word proven (about one
 * per frame); nothing is written but the credit. A bypass costs one load and one branch.
 * bench/micro_walker.c measures it. */
#ifndef AG_STACK_WALKER_FAST_H
#define AG_STACK_WALKER_FAST_H

#include "unwind/readable_range.h"
#include "unwind/stack_walker.h"
#include "unwind/unwind_space.h"

enum {
    AG_CACHED_STACKS_BITS = 8,
    AG_CACHED_WORDS = 44,      /* a stack that needs more is left to the memo */
    AG_CACHED_KEY_RETURNS = 2, /* return addresses in the key beside the first */
    AG_CACHE_CREDIT_MAX = 96,  /* a hit earns one ... */
    AG_CACHE_MISS_COST = 2,    /* ... a miss costs this much: it loses twice what a hit saves */
    AG_CACHE_CREDIT_START = 24,
    AG_NEAR_BITS = 9, /* near pcs and near nodes: 8 KiB each, direct-mapped */
};

struct ag_cached_stack {
    uintptr_t pc, sp; /* *sp and sp of the capture; sp 0: empty */
    uintptr_t rbp;    /* compared when reads_rbp */
    uint32_t node;
    uint32_t generation; /* of the space when it was filled */
    uint32_t missed_key; /* what the last miss of this entry looked for */
    uint32_t span_bytes; /* all words lie in [sp, sp + span_bytes) */
    uint16_t n_words;    /* a multiple of four: the first is repeated */
    uint8_t reads_rbp;
    uint16_t offsets[AG_CACHED_WORDS]; /* in words, from sp */
    uintptr_t values[AG_CACHED_WORDS];
};
_Static_assert(sizeof(struct ag_cached_stack) <= 512, "entries lie 512 bytes apart");

/* The walker's own copies of what it looked up last, one compare away. */
struct ag_near_pc {
    uintptr_t pc;
    uint64_t value; /* AG_PC_VALUE */
};
struct ag_near_node {
    uint64_t word; /* parent << 32 | site */
    uint32_t node;
};

struct ag_stack_word { /* *address was value */
    const uintptr_t *address;
    uintptr_t value;
};
struct ag_known_frame {
    struct ag_registers registers;
    uint32_t node;
    uint32_t
        others; /* AG_OTHERS(words of role OTHER that it and all older frames read, reads_rbp) */
};
#define AG_OTHERS(n_words, reads_rbp) ((uint32_t)(n_words) << 1 | (reads_rbp))
struct ag_new_frame {
    struct ag_registers registers;
    uint64_t value;    /* AG_PC_VALUE */
    uint32_t n_others; /* words of role OTHER that it and all younger new frames read */
};
struct ag_walker {
    struct ag_readable_range stack;
    uint32_t bypass;        /* captures to come that do without the cache; 0: use it */
    uint32_t bypass_length; /* of the next bypass: doubles while the cache does not pay */
    int32_t credit;         /* <= AG_CACHE_CREDIT_MAX */
    uint32_t generation;    /* of the space, when memo and near pcs were made */
    uint32_t depth;
    uint32_t n_frames; /* <= depth */
    bool is_cut;       /* the outermost known frame is not the outermost of the stack */
    /* the memo: [depth], outermost first; returns[i] is where the pc of frames[i] was read */
    struct ag_known_frame *frames;
    struct ag_stack_word *returns;
    struct ag_stack_word
        *others; /* [depth * AG_STEP_OTHER_WORDS_MAX], + 1 for what stopped a walk */
    /* scratch of one capture: the same, innermost first */
    struct ag_new_frame *new_frames;
    struct ag_stack_word *new_returns;
    struct ag_stack_word *new_others;
    AG_CACHE_ALIGNED struct ag_near_pc near_pcs[1 << AG_NEAR_BITS];
    struct ag_near_node near_nodes[1 << AG_NEAR_BITS];
    union {
        struct ag_cached_stack stack;
        char bytes[512];
    } cache[1 << AG_CACHED_STACKS_BITS];
};

/* Without the cache, or after it missed: `entry` is filled when `key` was missed there before, too;
 * NULL: bypassed. */
uint32_t ag_walker_capture_slow(struct ag_walker *walker, struct ag_unwind_space *space,
                                const uintptr_t *sp, uintptr_t rbp, struct ag_cached_stack *entry,
                                uint32_t key);

AG_FAST struct ag_near_pc *ag_walker_near_pc(struct ag_walker *walker, uintptr_t pc) {
    return &walker->near_pcs[pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - AG_NEAR_BITS)];
}

/* Mixes pc, sp and the next return addresses, as far as the walker has them near: what it has not
 * just ends the key. A stale rule gives a useless key, not a wrong stack. */
AG_FAST uint64_t ag_walker_stack_key(struct ag_walker *walker, const uintptr_t *sp, uintptr_t rbp) {
    uintptr_t pc = *sp, cfa = (uintptr_t)(sp + 1);
    uint64_t key = pc + cfa * UINT64_C(0xc2b2ae3d27d4eb4f);
    for (int i = 0; i < AG_CACHED_KEY_RETURNS; i++) {
        const struct ag_near_pc *near = ag_walker_near_pc(walker, pc);
        const uint32_t rule = AG_PC_RULE(near->value);
        if (AG_UNLIKELY(near->pc != pc)) {
            break;
        }
        if (AG_LIKELY(AG_RULE_KIND(rule) == AG_RULE_SP)) {
            cfa += (uintptr_t)AG_RULE_OFFSET8(rule) << 3;
        } else if (AG_RULE_KIND(rule) == AG_RULE_BP) {
            cfa = rbp + ((uintptr_t)AG_RULE_OFFSET8(rule) << 3);
        } else {
            break;
        }
        if (AG_UNLIKELY(!ag_readable_range_has(&walker->stack, cfa - 8))) {
            break;
        }
        pc = *(const uintptr_t *)(cfa - 8);
        if (AG_RULE_SLOT(rule) == 2 && cfa - 16 >= walker->stack.low) { // as with frame pointers
            rbp = *(const uintptr_t *)(cfa - 16);
        }
        key = (key ^ pc) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return key;
}

AG_FAST bool ag_cached_stack_holds(const struct ag_cached_stack *entry, const uintptr_t *sp) {
    uintptr_t difference = 0;
    for (uint32_t i = 0; i < entry->n_words; i += 4) {
        const uint16_t *offsets = &entry->offsets[i];
        const uintptr_t *values = &entry->values[i];
        difference |= (sp[offsets[0]] ^ values[0]) | (sp[offsets[1]] ^ values[1]) |
                      (sp[offsets[2]] ^ values[2]) | (sp[offsets[3]] ^ values[3]);
    }
    return difference == 0;
}

/* See ag_walker_capture. */
AG_FAST uint32_t ag_walker_capture_fast(struct ag_walker *walker, struct ag_unwind_space *space,
                                        const uintptr_t *sp, uintptr_t rbp) {
    if (AG_UNLIKELY(walker->bypass != 0)) {
        return ag_walker_capture_slow(walker, space, sp, rbp, NULL, 0);
    }
    const uint64_t key = ag_walker_stack_key(walker, sp, rbp);
    struct ag_cached_stack *entry = &walker->cache[key >> (64 - AG_CACHED_STACKS_BITS)].stack;
    const uintptr_t low = (uintptr_t)sp;
    /* acquire: pairs with ag_unwind_space_forget */
    const uint32_t generation = atomic_load_explicit(&space->generation, memory_order_acquire);
    if (AG_LIKELY(entry->sp == low && entry->pc == *sp && entry->generation == generation &&
                  (!entry->reads_rbp || entry->rbp == rbp) && low >= walker->stack.low &&
                  low + entry->span_bytes <= walker->stack.high &&
                  ag_cached_stack_holds(entry, sp))) {
        walker->credit += walker->credit < AG_CACHE_CREDIT_MAX;
        return entry->node;
    }
    return ag_walker_capture_slow(walker, space, sp, rbp, entry, (uint32_t)(key >> 16));
}

#endif
