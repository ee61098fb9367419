/* stack_harvest.c: finds the new nodes of an event's stack by walking from its innermost node
 * through the shared tree to the first known node. So each node is visited once in the life of a
 * process.
 *
 * Each possible node id has a byte of marks (enum ag_mark). The bytes are anonymous memory that
 * grows with the ids of the events, so only pages with ids in use exist.
 *
 * The tree belongs to the program and is not trusted: an id is checked before it is followed. A
 * walk ends, as incomplete, at a node that is on the walk already (a cycle) or that was never
 * written. */
#include "stack_harvest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "table/array.h"

enum { MARKS_AT_FIRST = 1 << 20, MARKS_MOST = AG_NODE_FIRST + AG_NODE_SLOTS };

int ag_stack_harvest_start(struct ag_stack_harvest *harvest, const uint8_t *tree, int tree_size) {
    void *marks = mmap(NULL, MARKS_AT_FIRST, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (marks == MAP_FAILED) {
        return -errno;
    }
    *harvest = (struct ag_stack_harvest){
        .tree = tree, .tree_size = tree_size, .marks = marks, .n_marks = MARKS_AT_FIRST};
    for (uint8_t root = 0; root < AG_NODE_FIRST; root++) {
        harvest->marks[root] = AG_MARK_KNOWN | (root <= AG_ROOT_LAST ? root : AG_ROOT_INCOMPLETE);
    }
    return 0;
}

/* Makes room for the marks of the id. false: no memory, or no node can have such an id. */
static bool has_mark(struct ag_stack_harvest *harvest, uint32_t id) {
    if (AG_LIKELY(id < harvest->n_marks)) {
        return true;
    }
    if (id >= MARKS_MOST) {
        return false;
    }
    uint32_t wanted = harvest->n_marks;
    while (wanted <= id) {
        wanted *= 2;
    }
    void *marks = mremap(harvest->marks, harvest->n_marks, wanted, MREMAP_MAYMOVE);
    if (marks == MAP_FAILED) {
        harvest->error = -ENOMEM;
        return false;
    }
    harvest->marks = marks;
    harvest->n_marks = wanted;
    return true;
}

void ag_stack_harvest_done(struct ag_stack_harvest *harvest) {
    if (harvest->marks) {
        (void)munmap(harvest->marks, harvest->n_marks); /* our own mapping: cannot fail */
    }
    ag_index_map_done(&harvest->frames_of);
    free(harvest->nodes);
    free(harvest->chain);
    *harvest = (struct ag_stack_harvest){0};
}

static uint64_t node_word(const struct ag_stack_harvest *harvest, uint32_t id) {
    if (id < AG_NODE_FIRST || id >= ag_tree_node_limit(harvest->tree_size)) {
        return 0;
    }
    const struct ag_linked_node *node =
        (const struct ag_linked_node *)(const void *)(harvest->tree + ag_tree_node_offset(id));
    /* acquire: pairs with the release of interning; the site (code address) of the node was written
     * before */
    return atomic_load_explicit(&node->word, memory_order_acquire);
}

/* Walks from `stack` over unknown nodes and adds them to chain, innermost first. Returns the known
 * id where the walk ended: a node, or a root (enum ag_root: how the stack ends). */
static uint32_t walk_up(struct ag_stack_harvest *harvest, uint32_t stack, size_t *ret_count) {
    size_t count = 0;
    uint32_t id = stack;
    while (!has_mark(harvest, id) || !(harvest->marks[id] & AG_MARK_KNOWN)) {
        const uint64_t word = node_word(harvest, id);
        const uint32_t parent = (uint32_t)(word >> 32);
        if (word == 0 || id >= harvest->n_marks || harvest->marks[id] & AG_MARK_WALKED ||
            AG_ARRAY_RESERVE(harvest->chain, harvest->chain_capacity, count + 1) < 0) {
            id = AG_ROOT_INCOMPLETE;
            break;
        }
        harvest->marks[id] |= AG_MARK_WALKED;
        harvest->chain[count++] = id;
        id = ag_stack_checked(parent);
    }
    *ret_count = count;
    return id;
}

static struct ag_node read_node(const struct ag_stack_harvest *harvest, uint32_t id,
                                uint32_t parent) {
    struct ag_node node = {.id = id, .parent = parent};
    const uint32_t site_id = (uint32_t)node_word(harvest, id);
    if (site_id >= 1 && site_id <= ag_tree_site_limit(harvest->tree_size)) {
        const struct ag_site *site =
            (const struct ag_site *)(const void *)(harvest->tree + ag_tree_site_offset(site_id));
        node.pc = atomic_load_explicit(&site->pc, memory_order_acquire) & AG_SITE_PC_MASK;
        node.image = atomic_load_explicit(&site->image, memory_order_relaxed);
    }
    return node;
}

/* Returns the stack without the type and label leaves on it. */
static uint32_t without_leaves(const struct ag_stack_harvest *harvest, uint32_t stack) {
    while (harvest->marks[stack] & AG_MARK_LEAF) {
        stack = ag_index_map_find(&harvest->frames_of, stack);
    }
    return stack;
}

/* Notes the node if it is a leaf. Whatever a trace contains, leaves form no cycle: a new leaf links
 * to a node that is not a leaf and not the new leaf itself. */
static int note_leaf(struct ag_stack_harvest *harvest, const struct ag_node *node) {
    if (!AG_IMAGE_IS_LEAF(node->image)) {
        return 0;
    }
    const uint32_t frames = without_leaves(harvest, node->parent);
    if (frames == node->id) {
        return 0;
    }
    const int r = ag_index_map_insert(&harvest->frames_of, node->id, frames);
    harvest->marks[node->id] |= r == 0 ? AG_MARK_LEAF : 0;
    return r;
}

void ag_stack_harvest_learn(struct ag_stack_harvest *harvest, uint32_t stack) {
    if (!harvest->tree) {
        return;
    }
    size_t count = 0;
    uint32_t parent = walk_up(harvest, stack, &count);
    while (count > 0) {
        const uint32_t id = harvest->chain[--count];
        const struct ag_node node = read_node(harvest, id, parent);
        if (AG_ARRAY_RESERVE(harvest->nodes, harvest->capacity, harvest->n_nodes + 1) < 0) {
            harvest->error = -ENOMEM;
            return;
        }
        harvest->nodes[harvest->n_nodes++] = node;
        harvest->marks[id] = (uint8_t)(AG_MARK_KNOWN | (harvest->marks[parent] & AG_MARK_ROOT));
        if (note_leaf(harvest, &node) < 0) {
            harvest->error = -ENOMEM;
            return;
        }
        parent = id;
    }
}

void ag_stack_harvest_name_slow(struct ag_stack_harvest *harvest, uint32_t stack) {
    ag_stack_harvest_learn(harvest, stack);
    if (!has_mark(harvest, stack)) {
        return;
    }
    harvest->marks[stack] |= AG_MARK_NAMED;
    if (harvest->marks[stack] & AG_MARK_LEAF) {
        stack = without_leaves(harvest, stack);
        if (harvest->marks[stack] & AG_MARK_NAMED) {
            return;
        }
        harvest->marks[stack] |= AG_MARK_NAMED;
    }
    const bool is_known = harvest->marks[stack] & AG_MARK_KNOWN;
    const uint32_t root = is_known ? harvest->marks[stack] & AG_MARK_ROOT : AG_ROOT_INCOMPLETE;
    harvest->n_stacks++;
    harvest->n_cut += root == AG_ROOT_CUT;
    harvest->n_incomplete += root == AG_ROOT_INCOMPLETE;
}

void ag_stack_harvest_written(struct ag_stack_harvest *harvest) {
    harvest->n_nodes = 0;
}

void ag_stack_harvest_add_node(struct ag_stack_harvest *harvest, const struct ag_node *node) {
    if (node->id >= AG_NODE_FIRST && has_mark(harvest, node->id) &&
        has_mark(harvest, node->parent)) {
        const uint8_t parent = harvest->marks[node->parent];
        const bool is_new = !(harvest->marks[node->id] & AG_MARK_KNOWN);
        const uint32_t root = parent & AG_MARK_KNOWN ? parent & AG_MARK_ROOT : AG_ROOT_INCOMPLETE;
        harvest->marks[node->id] =
            (uint8_t)((harvest->marks[node->id] & (AG_MARK_NAMED | AG_MARK_LEAF)) | AG_MARK_KNOWN |
                      root);
        if (is_new && note_leaf(harvest, node) < 0) {
            harvest->error = -ENOMEM;
        }
    }
}
