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
    AG_CACHED_STACKS = 1 << AG_CACHED_STACKS_BITS,
    AG_CACHED_WORDS = 44,      /* a stack that needs more is left to the memo */
    AG_CACHED_KEY_RETURNS = 2, /* return addresses in the key beside the first */
    AG_CACHE_CREDIT_MAX = 96,  /* a hit earns one ... */
    AG_CACHE_MISS_COST = 2,    /* ... a miss costs this much: it loses twice what a hit saves */
    AG_CACHE_CREDIT_START = 24,
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

struct ag_stack_word {
    const uintptr_t *address;
    uintptr_t value;
};
struct ag_known_frame {
    struct ag_registers registers;
    uint32_t node;
    uint32_t n_words : 31; /* read by this frame and all older ones */
    uint32_t reads_rbp : 1;
};
struct ag_new_frame {
    struct ag_registers registers;
    uint32_t site, rule;
    uint32_t n_words; /* read by this frame and all younger new ones */
};
struct ag_walker {
    struct ag_readable_range stack;
    uint32_t bypass;        /* captures to come that do without the cache; 0: use it */
    uint32_t bypass_length; /* of the next bypass: doubles while the cache does not pay */
    int32_t credit;         /* <= AG_CACHE_CREDIT_MAX */
    uint32_t generation;    /* of the space, when the memo was made */
    uint32_t depth;
    uint32_t n_frames;             /* <= depth */
    bool is_cut;                   /* the outermost known frame is not the outermost of the stack */
    struct ag_known_frame *frames; /* [depth], outermost first */
    struct ag_stack_word *words;   /* [depth * AG_STEP_WORDS_MAX] */
    struct ag_new_frame *new_frames; /* [depth]; scratch of one capture, innermost first */
    struct ag_stack_word *new_words; /* [depth * AG_STEP_WORDS_MAX] */
    AG_CACHE_ALIGNED union {
        struct ag_cached_stack stack;
        char bytes[512];
    } cache[AG_CACHED_STACKS];
};

/* Without the cache, or after it missed: `entry` is filled when `key` was missed there before, too;
 * NULL: bypassed. */
uint32_t ag_walker_capture_slow(struct ag_walker *walker, struct ag_unwind_space *space,
                                const uintptr_t *sp, uintptr_t rbp, struct ag_cached_stack *entry,
                                uint32_t key);

/* Reads what is known to be readable; what is not just ends the key. */
AG_FAST bool ag_walker_peek(void *context, uintptr_t address, uintptr_t *ret_value) {
    const struct ag_walker *walker = context;
    if (AG_UNLIKELY(!ag_readable_range_has(&walker->stack, address))) {
        return false;
    }
    *ret_value = *(const uintptr_t *)address;
    return true;
}

/* Mixes pc, sp and the next return addresses. */
AG_FAST uint64_t ag_walker_stack_key(struct ag_walker *walker, struct ag_unwind_space *space,
                                     const uintptr_t *sp, uintptr_t rbp) {
    struct ag_registers registers = {.pc = *sp, .sp = (uintptr_t)(sp + 1), .rbp = rbp};
    uint64_t key =
        registers.pc * UINT64_C(0x9e3779b97f4a7c15) + registers.sp * UINT64_C(0xc2b2ae3d27d4eb4f);
    for (int i = 0; i < AG_CACHED_KEY_RETURNS; i++) {
        const uint32_t rule = AG_PC_RULE(ag_pc_peek_fast(space, registers.pc));
        if (AG_UNLIKELY(ag_frame_step_fast(&registers, rule, ag_walker_peek, walker) !=
                        AG_STEP_CALLER)) {
            break;
        }
        key = (key ^ registers.pc) * UINT64_C(0x9e3779b97f4a7c15);
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
    const uint64_t key = ag_walker_stack_key(walker, space, sp, rbp);
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
