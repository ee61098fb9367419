/* sum_index.h: maps a stack and a via (allocation function) to the number of the ledger's sum,
 * which counts the blocks of that stack and via; for apply.c. The number of a stack is that of its
 * innermost node in the stack tree. A recorder (the code inside a profiled program) numbers nodes
 * in the order of first use, so there are at most two or three numbers for each stack, and stacks
 * that a program uses together have neighboring numbers. An array indexed by stack, with 4 bytes
 * per entry, keeps that locality; a hash table takes 16 bytes per entry, is half empty, and
 * scatters neighbors over all of its cache lines. A hash table is used only for what does not fit
 * into the array: a stack's second via, and stack numbers far above the number of sums (if other
 * processes of the recording use most of the smaller numbers, or if the trace is crafted). So the
 * array's memory is bounded by the number of sums.
 *
 * Measured on 177,000 stacks: the array takes 1.6 MB (400,000 entries), a hash for all stacks takes
 * 8 MB. */
#ifndef AG_SUM_INDEX_H
#define AG_SUM_INDEX_H

#include "table/index_map.h"

struct ag_sum_index {   /* zero-initialize: empty */
    uint32_t *by_stack; /* [n_stacks]; via << 24 | (sum + 1); 0: the stack has no entry */
    uint32_t n_stacks;
    struct ag_index_map others; /* stack | via << 32 -> sum; only what is not in by_stack */
};
enum { AG_SUM_MASK = (1 << 24) - 1 };

void ag_sum_index_done(struct ag_sum_index *index);
/* (stack, via) must not be in the index. 0 or -ENOMEM. */
int ag_sum_index_insert(struct ag_sum_index *index, uint32_t stack, uint8_t via, uint32_t sum);

AG_FAST uint64_t ag_sum_index_key(uint32_t stack, uint8_t via) {
    return stack | (uint64_t)via << 32;
}

/* Returns the sum, or AG_INDEX_NONE. */
AG_FAST uint32_t ag_sum_index_find(const struct ag_sum_index *index, uint32_t stack, uint8_t via) {
    const uint32_t entry = stack < index->n_stacks ? index->by_stack[stack] : 0;
    if (AG_LIKELY(entry != 0 && entry >> 24 == via)) {
        return (entry & AG_SUM_MASK) - 1;
    }
    return ag_index_map_find(&index->others, ag_sum_index_key(stack, via));
}

/* Returns the address that a search reads first, for prefetching; or NULL. */
AG_FAST const void *ag_sum_index_home(const struct ag_sum_index *index, uint32_t stack,
                                      uint8_t via) {
    return stack < index->n_stacks
               ? (const void *)&index->by_stack[stack]
               : (const void *)ag_index_map_home(&index->others, ag_sum_index_key(stack, via));
}

/* Guesses the sum without a search. The guess is wrong for a stack's second via and for collisions
 * in the hash. Only for prefetching: the result may not be a valid sum. */
AG_FAST uint32_t ag_sum_index_guess(const struct ag_sum_index *index, uint32_t stack, uint8_t via) {
    if (stack < index->n_stacks) {
        return (index->by_stack[stack] & AG_SUM_MASK) - 1;
    }
    const struct ag_index_slot *home =
        ag_index_map_home(&index->others, ag_sum_index_key(stack, via));
    return home ? (uint32_t)home->value - 1 : AG_INDEX_NONE;
}

#endif
