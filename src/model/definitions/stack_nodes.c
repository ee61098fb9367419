/* stack_nodes.c: see stack_nodes.h. Nodes come as a trace defines them, once each; the first
 * definition of an id counts. */
#include "model/definitions/stack_nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/keyed_hash.h"
#include "table/array.h"

void ag_stack_nodes_done(struct ag_stack_nodes *nodes) {
    ag_node_ids_done(&nodes->by_id);
    ag_index_map_done(&nodes->by_site);
    ag_index_map_done(&nodes->by_leaf);
    free(nodes->leaves);
    free(nodes->nodes);
    free(nodes->sites);
    *nodes = (struct ag_stack_nodes){0};
}

/* A root, or a node that every trace has. */
static uint32_t node_of_root(uint32_t root) {
    return root == AG_ROOT_NOT_KEPT
               ? AG_NODE_OF_NOT_KEPT
               : AG_NODE_ROOT(root <= AG_ROOT_LAST ? root : AG_ROOT_INCOMPLETE);
}

static int find_or_add_site(struct ag_stack_nodes *nodes, uint64_t pc, uint32_t image,
                            uint32_t *ret_site) {
    const uint64_t hash = ag_keyed_hash_pair(pc, image);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&nodes->by_site, hash, &cursor)) != AG_INDEX_NONE) {
        if (nodes->sites[at].pc == pc && nodes->sites[at].image == image) {
            *ret_site = at;
            return 0;
        }
    }
    *ret_site = (uint32_t)nodes->n_sites;
    const int r = AG_ARRAY_ADD(nodes->sites, nodes->n_sites,
                               (struct ag_stack_site){.pc = pc, .image = image});
    return r < 0 ? r : ag_index_map_insert(&nodes->by_site, hash, *ret_site);
}

int ag_stack_nodes_init(struct ag_stack_nodes *nodes) {
    const struct ag_stack_node not_kept = {
        .parent = AG_NODE_ROOT(AG_ROOT_NOT_KEPT), .depth = 1, .root = AG_ROOT_NOT_KEPT};
    if (AG_ARRAY_ADD(nodes->nodes, nodes->count, not_kept) < 0) {
        return -ENOMEM;
    }
    return find_or_add_site(nodes, ag_managed_pc(AG_FRAME_NOT_KEPT, 0), AG_IMAGE_MANAGED,
                            &nodes->nodes[AG_NODE_OF_NOT_KEPT].site);
}

static int add_leaf(struct ag_stack_nodes *nodes, const struct ag_node *node) {
    struct ag_stack_leaf leaf = ag_stack_nodes_leaf(nodes, node->parent);
    if (node->image == AG_IMAGE_TYPE) {
        leaf.type = (uint32_t)node->pc;
    } else {
        leaf.label = (uint32_t)node->pc;
    }
    const int r = ag_index_map_insert(&nodes->by_leaf, node->id, (uint32_t)nodes->n_leaves);
    return r < 0 ? r : AG_ARRAY_ADD(nodes->leaves, nodes->n_leaves, leaf);
}

/* A chain of callers comes one after the other: the parent mostly is the node before. */
static uint32_t parent_of(const struct ag_stack_nodes *nodes, uint32_t id) {
    return id >= AG_NODE_FIRST && id == nodes->last_id ? (uint32_t)nodes->count - 1
                                                       : ag_stack_nodes_find(nodes, id);
}

int ag_stack_nodes_add(struct ag_stack_nodes *nodes, const struct ag_node *node) {
    if (node->id < AG_NODE_FIRST ||
        (nodes->n_leaves != 0 && ag_index_map_find(&nodes->by_leaf, node->id) != AG_INDEX_NONE)) {
        return 0; /* no node, or known already */
    }
    if (AG_IMAGE_IS_LEAF(node->image)) {
        const bool is_known = ag_node_ids_find(&nodes->by_id, node->id) != AG_NODE_NONE;
        return is_known ? 0 : add_leaf(nodes, node);
    }
    const uint32_t parent = parent_of(nodes, node->parent);
    const uint32_t depth = AG_IS_ROOT(parent) ? 1 : nodes->nodes[parent].depth + 1;
    if (depth > AG_STACK_DEPTH_MOST) { /* the outer frames stay: the stack is one of theirs */
        return ag_node_ids_insert(&nodes->by_id, node->id, parent) < 0 ? -ENOMEM : 0;
    }
    int r = ag_node_ids_insert(&nodes->by_id, node->id, (uint32_t)nodes->count);
    if (r <= 0) {
        return r;
    }
    struct ag_stack_node made = {
        .parent = parent, .depth = depth, .root = ag_stack_nodes_root(nodes, parent)};
    nodes->last_id = node->id;
    r = find_or_add_site(nodes, node->pc, node->image, &made.site);
    return r < 0 ? r : AG_ARRAY_ADD(nodes->nodes, nodes->count, made);
}

uint32_t ag_stack_nodes_find(const struct ag_stack_nodes *nodes, uint32_t stack) {
    if (stack < AG_NODE_FIRST) {
        return node_of_root(stack);
    }
    const uint32_t node = ag_node_ids_find(&nodes->by_id, stack);
    return node != AG_NODE_NONE ? node : ag_stack_nodes_leaf(nodes, stack).node;
}

struct ag_stack_leaf ag_stack_nodes_leaf(const struct ag_stack_nodes *nodes, uint32_t stack) {
    const uint32_t leaf = stack >= AG_NODE_FIRST && nodes->n_leaves != 0
                              ? ag_index_map_find(&nodes->by_leaf, stack)
                              : AG_INDEX_NONE;
    if (leaf != AG_INDEX_NONE) {
        return nodes->leaves[leaf];
    }
    const uint32_t node =
        stack >= AG_NODE_FIRST ? ag_node_ids_find(&nodes->by_id, stack) : AG_NODE_NONE;
    return (struct ag_stack_leaf){.node = node != AG_NODE_NONE ? node : node_of_root(stack)};
}

uint32_t ag_stack_nodes_root(const struct ag_stack_nodes *nodes, uint32_t node) {
    return AG_IS_ROOT(node) ? UINT32_MAX - node : nodes->nodes[node].root;
}
