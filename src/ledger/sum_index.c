/* sum_index.c: the functions of sum_index.h that grow the table. */
#include "ledger/sum_index.h"

#include <stdbool.h>

#include "table/table_memory.h"

enum {
    STACKS_AT_FIRST = 1 << 10,
    /* stack numbers below this are in the array even if there are few sums; an array of this many
     * entries takes 128 KiB */
    STACKS_FREE = 1 << 15,
    /* The array has at most 16 entries per sum. They take 64 bytes, as many as the sum itself. (The
     * number of a stack is that of its node in the stack tree; a deep tree has two or three nodes
     * per stack.) */
    STACKS_A_SUM = 16,
};

void ag_sum_index_done(struct ag_sum_index *index) {
    ag_table_memory_free(index->by_stack, index->n_stacks * sizeof(*index->by_stack));
    ag_index_map_done(&index->others);
    *index = (struct ag_sum_index){0};
}

/* Returns whether the array has an unused entry for STACK. Grows the array if STACK is beyond its
 * end and the limits above allow it. SUM is the number of sums so far. */
static bool has_place(struct ag_sum_index *index, uint32_t stack, uint32_t sum) {
    if (sum >= AG_SUM_MASK) {
        return false;
    }
    if (stack < index->n_stacks) {
        return index->by_stack[stack] == 0;
    }
    if (stack >= STACKS_FREE && stack / STACKS_A_SUM > sum) {
        return false;
    }
    uint64_t wanted = index->n_stacks ? index->n_stacks : STACKS_AT_FIRST;
    while (wanted <= stack) {
        wanted *= 2;
    }
    if (wanted > UINT32_MAX) {
        return false;
    }
    uint32_t *by_stack =
        ag_table_memory_grow(index->by_stack, index->n_stacks * sizeof(*index->by_stack),
                             wanted * sizeof(*index->by_stack));
    if (!by_stack) { /* the hash may still have room */
        return false;
    }
    index->by_stack = by_stack;
    index->n_stacks = (uint32_t)wanted;
    return true;
}

int ag_sum_index_insert(struct ag_sum_index *index, uint32_t stack, uint8_t via, uint32_t sum) {
    if (!has_place(index, stack, sum)) {
        return ag_index_map_insert(&index->others, ag_sum_index_key(stack, via), sum);
    }
    index->by_stack[stack] = (uint32_t)via << 24 | (sum + 1);
    return 0;
}
