/* stack_tree_fast.h: the inline lookup of a node's child.
 *
 * The first children of a node are linked. They were created when the program first ran through
 * that path, and are neighbours for that reason; when it does so again, it reads the same few cache
 * lines, while a hash table would touch a new one for each frame.
 *
 * Budget: two dependent loads for each link, mostly of cached lines. */
#ifndef AG_STACK_TREE_FAST_H
#define AG_STACK_TREE_FAST_H

#include "base/stack_tree.h"

enum {
    AG_SITE_FIRST_BITS = 12, /* log2 of the slots of the first level of sites */
    AG_INDEX_FIRST_BITS =
        12, /* the same of the index; each level has four times the slots of the previous one */
    AG_SITE_BUCKET = 4, /* slots of a bucket: one cache line */
    AG_INDEX_BUCKET = 8,
    AG_NODE_LINKED_MAX = 8, /* children of a node that are linked; a loop that calls through a
                             * pointer may have hundreds, which are in the index */
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

/* A node of a window outside the base. A node without word and links if the window cannot be
 * mapped. */
const struct ag_linked_node *ag_node_far(struct ag_stack_tree *tree, uint32_t id);

/* An existing node (or root): its id comes from an intern, a link or a parent. */
AG_FAST const struct ag_linked_node *ag_node_at(struct ag_stack_tree *tree, uint32_t id) {
    return AG_LIKELY(id < AG_WINDOW_NODES) ? &tree->nodes[id] : ag_node_far(tree, id);
}

uint32_t ag_node_intern_slow(struct ag_stack_tree *tree, uint64_t word);

AG_FAST uint32_t ag_node_intern_fast(struct ag_stack_tree *tree, uint32_t parent, uint32_t site) {
    const uint64_t word = (uint64_t)parent << 32 | site;
    /* acquire: pairs with the CAS in stack_tree.c; the node's word is valid, and so is its site,
     * for every reader of our event */
    uint32_t node = atomic_load_explicit(&ag_node_at(tree, parent)->child, memory_order_acquire);
    for (uint32_t i = 0; i < AG_NODE_LINKED_MAX && node != 0; i++) {
        const struct ag_linked_node *at = ag_node_at(tree, node);
        if (AG_LIKELY(atomic_load_explicit(&at->word, memory_order_relaxed) == word)) {
            return node;
        }
        node = atomic_load_explicit(&at->sibling, memory_order_acquire);
    }
    return ag_node_intern_slow(tree, word);
}

#endif
