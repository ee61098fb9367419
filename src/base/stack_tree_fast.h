/* stack_tree_fast.h: the inline first level of ag_node_intern.
 *
 * Budget: one multiplication, one cache line (eight compares), no call when the node lives in the
 * first level (2^14 nodes, 128 KiB). 2 ns hot. */
#ifndef AG_STACK_TREE_FAST_H
#define AG_STACK_TREE_FAST_H

#include "base/stack_tree.h"

enum {
    AG_SITE_FIRST_BITS = 12, /* log2 of the slots of the first level of sites ... */
    AG_NODE_FIRST_BITS =
        14, /* ... and of nodes; each level has four times the slots of the one before */
    AG_SITE_BUCKET = 4, /* slots of a bucket: one cache line */
    AG_NODE_BUCKET = 8,
};

/* Fibonacci hashing, then the high half folded down: the low bits choose the bucket at every level.
 */
AG_FAST uint64_t ag_stack_tree_hash(uint64_t key) {
    const uint64_t product = key * UINT64_C(0x9e3779b97f4a7c15);
    return product ^ product >> 32;
}

/* First slot of the bucket of `hash` in a level of 2^bits slots. */
AG_FAST uint32_t ag_stack_tree_bucket(uint64_t hash, uint32_t bits, uint32_t bucket_slots) {
    return (uint32_t)hash & ((1u << bits) - 1) & ~(bucket_slots - 1);
}

uint32_t ag_node_intern_slow(struct ag_stack_tree *tree, uint64_t word, uint64_t hash);

AG_FAST uint32_t ag_node_intern_fast(struct ag_stack_tree *tree, uint32_t parent, uint32_t site) {
    const uint64_t word = (uint64_t)parent << 32 | site;
    const uint64_t hash = ag_stack_tree_hash(word);
    const uint32_t slot = ag_stack_tree_bucket(hash, AG_NODE_FIRST_BITS, AG_NODE_BUCKET);
    for (uint32_t i = 0; i < AG_NODE_BUCKET; i++) {
        /* acquire: pairs with the CAS in ag_node_intern_slow, so that whoever sees our event sees
         * the node's site too */
        if (atomic_load_explicit(&tree->nodes[slot + i], memory_order_acquire) == word) {
            return slot + i + AG_NODE_FIRST;
        }
    }
    return ag_node_intern_slow(tree, word, hash);
}

#endif
