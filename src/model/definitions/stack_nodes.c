/* stack_nodes.c: see stack_nodes.h. Nodes come as a trace defines them, once each; the first
 * definition of an id counts. */
#include "model/definitions/stack_nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/keyed_hash.h"

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

static void *grown(void *items, size_t *capacity, size_t count, size_t item_bytes) {
    if (count < *capacity) {
        return items;
    }
    const size_t wanted = *capacity ? *capacity * 2 : 1024;
    void *more = wanted < AG_NODE_ROOT(AG_ROOT_LAST) ? realloc(items, wanted * item_bytes) : NULL;
    *capacity = more ? wanted : *capacity;
    return more;
}

static int find_or_add_site(struct ag_stack_nodes *nodes, uint64_t pc, uint32_t image,
                            uint32_t *ret_site) {
    const uint64_t hash = ag_keyed_hash_pair(pc, image);
    uint32_t last = AG_INDEX_NONE;
    for (uint32_t at = ag_index_map_find(&nodes->by_site, hash); at != AG_INDEX_NONE;
         at = nodes->sites[at].next - 1) {
        if (nodes->sites[at].pc == pc && nodes->sites[at].image == image) {
            *ret_site = at;
            return 0;
        }
        last = at;
    }
    struct ag_stack_site *sites =
        grown(nodes->sites, &nodes->site_capacity, nodes->n_sites, sizeof(*sites));
    if (!sites) {
        return -ENOMEM;
    }
    nodes->sites = sites;
    const uint32_t site = (uint32_t)nodes->n_sites;
    if (last != AG_INDEX_NONE) {
        sites[last].next = site + 1;
    } else if (ag_index_map_insert(&nodes->by_site, hash, site) < 0) {
        return -ENOMEM;
    }
    sites[nodes->n_sites++] = (struct ag_stack_site){.pc = pc, .image = image};
    *ret_site = site;
    return 0;
}

int ag_stack_nodes_init(struct ag_stack_nodes *nodes) {
    if (ag_index_map_init(&nodes->by_leaf) < 0 || ag_index_map_init(&nodes->by_site) < 0) {
        return -ENOMEM;
    }
    nodes->nodes = grown(NULL, &nodes->capacity, 0, sizeof(*nodes->nodes));
    if (!nodes->nodes) {
        return -ENOMEM;
    }
    nodes->nodes[AG_NODE_OF_NOT_KEPT] = (struct ag_stack_node){
        .parent = AG_NODE_ROOT(AG_ROOT_NOT_KEPT), .depth = 1, .root = AG_ROOT_NOT_KEPT};
    nodes->count = AG_NODE_OF_NOT_KEPT + 1;
    return find_or_add_site(nodes, ag_managed_pc(AG_FRAME_NOT_KEPT, 0), AG_IMAGE_MANAGED,
                            &nodes->nodes[AG_NODE_OF_NOT_KEPT].site);
}

static int add_leaf(struct ag_stack_nodes *nodes, const struct ag_node *node) {
    struct ag_stack_leaf *leaves =
        grown(nodes->leaves, &nodes->leaf_capacity, nodes->n_leaves, sizeof(*leaves));
    if (!leaves) {
        return -ENOMEM;
    }
    nodes->leaves = leaves;
    struct ag_stack_leaf leaf = ag_stack_nodes_leaf(nodes, node->parent);
    if (node->image == AG_IMAGE_TYPE) {
        leaf.type = (uint32_t)node->pc;
    } else {
        leaf.label = (uint32_t)node->pc;
    }
    leaves[nodes->n_leaves] = leaf;
    return ag_index_map_insert(&nodes->by_leaf, node->id, (uint32_t)nodes->n_leaves++);
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
    struct ag_stack_node *list = grown(nodes->nodes, &nodes->capacity, nodes->count, sizeof(*list));
    if (!list) {
        return -ENOMEM;
    }
    nodes->nodes = list;
    const uint32_t parent = parent_of(nodes, node->parent);
    const uint32_t depth = AG_IS_ROOT(parent) ? 1 : list[parent].depth + 1;
    if (depth > AG_STACK_DEPTH_MOST) { /* the outer frames stay: the stack is one of theirs */
        return ag_node_ids_insert(&nodes->by_id, node->id, parent) < 0 ? -ENOMEM : 0;
    }
    const int r = ag_node_ids_insert(&nodes->by_id, node->id, (uint32_t)nodes->count);
    if (r <= 0) {
        return r;
    }
    struct ag_stack_node *made = &list[nodes->count++];
    *made = (struct ag_stack_node){
        .parent = parent, .depth = depth, .root = ag_stack_nodes_root(nodes, parent)};
    nodes->last_id = node->id;
    return find_or_add_site(nodes, node->pc, node->image, &made->site);
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
