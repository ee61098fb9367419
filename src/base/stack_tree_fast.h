/* stack_tree_fast.h: the inline lookup of a node's child.
 *
 * A site is a pc, with the image that contains it. A node is one frame of a stack; its children are
 * the frames that it called. The first children of a node form a linked list; further children are
 * in the index, a hash table. Nodes are stored in the order of their creation. So the nodes of one
 * stack are neighbors, and a program that reaches this stack again reads few cache lines. A hash
 * table would read another cache line for each frame.
 *
 * Budget: two dependent loads for each link, mostly of cached lines. */
#ifndef AG_STACK_TREE_FAST_H
#define AG_STACK_TREE_FAST_H

#include "base/stack_tree.h"

enum {
    AG_SITE_FIRST_BITS = 12, /* log2 of the slots of the first level of the table of sites */
    /* log2 of the slots of the first level of the index; each further level of a table has four
     * times the slots of the previous level */
    AG_INDEX_FIRST_BITS = 12,
    AG_SITE_BUCKET = 4, /* slots of a bucket: one cache line */
    AG_INDEX_BUCKET = 8,
    AG_NODE_LINKED_MAX = 8, /* children of a node that are linked; a loop that calls through a
                             * pointer may have hundreds, which are in the index */
};

/* Fibonacci hashing. Then the high half is XORed into the low half, because the low bits select the
 * bucket in each level. */
AG_FAST uint64_t ag_stack_tree_hash(uint64_t key) {
    const uint64_t product = key * UINT64_C(0x9e3779b97f4a7c15);
    return product ^ product >> 32;
}

/* First slot of the bucket of `hash` in a level of 2^bits slots. */
AG_FAST uint32_t ag_stack_tree_bucket(uint64_t hash, uint32_t bits, uint32_t bucket_slots) {
    return (uint32_t)hash & ((1u << bits) - 1) & ~(bucket_slots - 1);
}

/* The node with this id, which is in a piece of the tree that is mapped when it is needed
 * (stack_tree.h). If the piece cannot be mapped, the result is a node without word and links. */
const struct ag_linked_node *ag_node_far(struct ag_stack_tree *tree, uint32_t id);

/* The node or root (the parent of outermost frames) with this id, which must exist: the id comes
 * from an interning, a link or a parent. */
AG_FAST const struct ag_linked_node *ag_node_at(struct ag_stack_tree *tree, uint32_t id) {
    return AG_LIKELY(id < AG_WINDOW_NODES) ? &tree->nodes[id] : ag_node_far(tree, id);
}

uint32_t ag_node_intern_slow(struct ag_stack_tree *tree, uint64_t word);

AG_FAST uint32_t ag_node_intern_fast(struct ag_stack_tree *tree, uint32_t parent, uint32_t site) {
    const uint64_t word = (uint64_t)parent << 32 | site;
    /* acquire: pairs with the compare-and-swap in stack_tree.c, so that the node's word and its
     * site are valid for this thread and for every reader of the event that refers to the node */
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
