/* stack_nodes.c: builds the stack tree of a trace and finds stacks by their id, for all parts of
 * the model. Nodes are added in the order in which the trace defines them. If an id is defined
 * twice, the first definition is valid. */
#include "model/definitions/stack_nodes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/keyed_hash.h"
#include "table/array.h"
#include "table/table_memory.h"

/* ---- ids of the trace ---- */

/* A hash table with open addressing and linear probing. */

enum { FIRST_BITS = 8, BITS_MOST = 32 };

static size_t slots_of(uint32_t bits) {
    return (size_t)1 << bits;
}

static size_t home_of(uint32_t id, uint32_t bits) {
    return (size_t)(ag_keyed_hash(id) >> (64 - bits));
}

/* Returns the slot of ID. If ID is not in the table, returns the empty slot for it. */
static size_t seek(const uint64_t *slots, uint32_t bits, uint32_t id) {
    size_t at = home_of(id, bits);
    while (slots[at] != 0 && (uint32_t)(slots[at] >> 32) != id) {
        at = (at + 1) & (slots_of(bits) - 1);
    }
    return at;
}

static void node_ids_done(struct ag_node_ids *ids) {
    ag_table_memory_free(ids->slots, ids->slots ? slots_of(ids->bits) * sizeof(*ids->slots) : 0);
    *ids = (struct ag_node_ids){0};
}

static bool is_full(const struct ag_node_ids *ids) {
    return !ids->slots || (ids->count + 1) * 4 > slots_of(ids->bits) * 3;
}

static int node_ids_grow(struct ag_node_ids *ids) {
    const uint32_t bits = ids->slots ? ids->bits + 1 : FIRST_BITS;
    uint64_t *slots =
        bits <= BITS_MOST ? ag_table_memory_new(slots_of(bits) * sizeof(*slots)) : NULL;
    if (!slots) {
        return -ENOMEM;
    }
    const size_t count = ids->count;
    for (size_t i = 0; ids->slots && i < slots_of(ids->bits); i++) {
        if (ids->slots[i] != 0) {
            slots[seek(slots, bits, (uint32_t)(ids->slots[i] >> 32))] = ids->slots[i];
        }
    }
    node_ids_done(ids);
    *ids = (struct ag_node_ids){.slots = slots, .bits = bits, .count = count};
    return 0;
}

static int node_ids_insert(struct ag_node_ids *ids, uint32_t id, uint32_t node) {
    const int r = is_full(ids) ? node_ids_grow(ids) : 0;
    if (r < 0) {
        return r;
    }
    uint64_t *slot = &ids->slots[seek(ids->slots, ids->bits, id)];
    if (*slot != 0) {
        return 0;
    }
    *slot = (uint64_t)id << 32 | (node + 1);
    ids->count++;
    return 1;
}

static uint32_t node_ids_find(const struct ag_node_ids *ids, uint32_t id) {
    if (!ids->slots) {
        return AG_NODE_NONE;
    }
    const uint64_t slot = ids->slots[seek(ids->slots, ids->bits, id)];
    return slot != 0 ? (uint32_t)slot - 1 : AG_NODE_NONE;
}

void ag_stack_nodes_done(struct ag_stack_nodes *nodes) {
    node_ids_done(&nodes->by_id);
    ag_index_map_done(&nodes->by_site);
    ag_index_map_done(&nodes->by_leaf);
    free(nodes->leaves);
    free(nodes->nodes);
    free(nodes->sites);
    free(nodes->shown);
    *nodes = (struct ag_stack_nodes){0};
}

/* Maps the id of a root in a trace (how the walk of a stack ended) to a root of this tree. The root
 * of stacks that were not kept is mapped to their node. */
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

static uint32_t shown_node(const struct ag_stack_nodes *nodes, uint32_t node) {
    return nodes->shown && !AG_IS_ROOT(node) ? nodes->shown[node] : node;
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

/* A trace defines the frames of a stack in sequence, so the parent of a node is mostly the node
 * that was added last. */
static uint32_t parent_of(const struct ag_stack_nodes *nodes, uint32_t id) {
    return id >= AG_NODE_FIRST && id == nodes->last_id ? (uint32_t)nodes->count - 1
                                                       : ag_stack_nodes_find(nodes, id);
}

static bool is_of_agent(const struct ag_stack_nodes *nodes, uint32_t image) {
    for (uint32_t i = 0; i < nodes->n_agent_images; i++) {
        if (nodes->agent_images[i] == image) {
            return true;
        }
    }
    return false;
}

int ag_stack_nodes_add(struct ag_stack_nodes *nodes, const struct ag_node *node) {
    if (node->id < AG_NODE_FIRST ||
        (nodes->n_leaves != 0 && ag_index_map_find(&nodes->by_leaf, node->id) != AG_INDEX_NONE)) {
        return 0; /* ID is a root, or is defined already */
    }
    if (AG_IMAGE_IS_LEAF(node->image)) {
        const bool is_known = node_ids_find(&nodes->by_id, node->id) != AG_NODE_NONE;
        return is_known ? 0 : add_leaf(nodes, node);
    }
    const uint32_t parent = parent_of(nodes, node->parent);
    const uint32_t depth = AG_IS_ROOT(parent) ? 1 : nodes->nodes[parent].depth + 1;
    if (depth > AG_STACK_DEPTH_MOST || (!AG_IS_ROOT(parent) && is_of_agent(nodes, node->image))) {
        /* the node is left out: its id becomes another id of the parent */
        return node_ids_insert(&nodes->by_id, node->id, parent) < 0 ? -ENOMEM : 0;
    }
    int r = node_ids_insert(&nodes->by_id, node->id, (uint32_t)nodes->count);
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
    const uint32_t node = node_ids_find(&nodes->by_id, stack);
    return node != AG_NODE_NONE ? shown_node(nodes, node) : ag_stack_nodes_leaf(nodes, stack).node;
}

uint32_t ag_stack_nodes_find_recorded(const struct ag_stack_nodes *nodes, uint32_t stack) {
    if (stack < AG_NODE_FIRST) {
        return node_of_root(stack);
    }
    const uint32_t node = node_ids_find(&nodes->by_id, stack);
    const uint32_t leaf = node == AG_NODE_NONE && nodes->n_leaves != 0
                              ? ag_index_map_find(&nodes->by_leaf, stack)
                              : AG_INDEX_NONE;
    return node != AG_NODE_NONE    ? node
           : leaf != AG_INDEX_NONE ? nodes->leaves[leaf].node
                                   : node_of_root(stack);
}

int ag_stack_nodes_add_ids(const struct ag_stack_nodes *nodes, const bool *is_wanted,
                           struct ag_index_map *ids) {
    const size_t n_slots = nodes->by_id.slots ? (size_t)1 << nodes->by_id.bits : 0;
    int r = 0;
    for (size_t i = 0; i < n_slots && r >= 0; i++) {
        const uint64_t slot = nodes->by_id.slots[i];
        const uint32_t node = (uint32_t)slot - 1; /* of an empty slot: AG_NODE_NONE */
        if (node < nodes->count && is_wanted[node]) {
            r = ag_index_map_number(ids, slot >> 32, NULL);
        }
    }
    return r < 0 ? r : 0;
}

struct ag_stack_leaf ag_stack_nodes_leaf(const struct ag_stack_nodes *nodes, uint32_t stack) {
    const uint32_t leaf = stack >= AG_NODE_FIRST && nodes->n_leaves != 0
                              ? ag_index_map_find(&nodes->by_leaf, stack)
                              : AG_INDEX_NONE;
    if (leaf != AG_INDEX_NONE) {
        struct ag_stack_leaf found = nodes->leaves[leaf];
        found.node = shown_node(nodes, found.node);
        return found;
    }
    const uint32_t node =
        stack >= AG_NODE_FIRST ? node_ids_find(&nodes->by_id, stack) : AG_NODE_NONE;
    return (struct ag_stack_leaf){.node = node != AG_NODE_NONE ? shown_node(nodes, node)
                                                               : node_of_root(stack)};
}

int ag_stack_nodes_show_only(struct ag_stack_nodes *nodes, const bool *is_shown) {
    nodes->shown = malloc((nodes->count + 1) * sizeof(*nodes->shown));
    if (!nodes->shown) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < nodes->count; i++) { /* callers come first */
        struct ag_stack_node *node = &nodes->nodes[i];
        uint32_t caller = node->parent; /* the innermost caller that is shown, or a root */
        if (!AG_IS_ROOT(caller)) {
            caller = nodes->shown[caller];
            caller = is_shown[caller] ? caller : AG_NODE_ROOT(node->root);
        }
        if (is_shown[i]) {
            node->parent = caller;
            node->depth = AG_IS_ROOT(caller) ? 1 : nodes->nodes[caller].depth + 1;
        }
        nodes->shown[i] = is_shown[i] || AG_IS_ROOT(caller) ? i : caller;
    }
    return 0;
}

uint32_t ag_stack_nodes_root(const struct ag_stack_nodes *nodes, uint32_t node) {
    return AG_IS_ROOT(node) ? UINT32_MAX - node : nodes->nodes[node].root;
}

void ag_stack_nodes_expect(const struct ag_stack_nodes *nodes, uint32_t id) {
    if (nodes->by_id.slots) {
        __builtin_prefetch(&nodes->by_id.slots[home_of(id, nodes->by_id.bits)]);
    }
}
