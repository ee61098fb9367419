/* stack_forest.c: merges all stacks into one tree of functions for reports and exports: top-down
 * from callers to callees, or bottom-up from the allocating functions to their callers. A node of
 * the merged tree is called a place.
 *
 * For the top-down tree, the nodes of the trace's stack tree are visited once, parents first. The
 * place of each node is looked up among the places below the parent's place, and added if it is
 * missing. For the bottom-up tree, each stack is walked from its innermost frame outward. Frames
 * with the same function and the same parent place have one place, which shows the line of the
 * first of these frames. The code does not recurse, because stacks are as deep as the recursion of
 * the program.
 *
 * A tree has at most NODES_MOST places. When the tree is full, no places are added; a block is then
 * counted for the last existing place on its path. */
#include <errno.h>
#include <stdlib.h>

#include "model/metric.h"
#include "model/profile_state.h"
#include "table/array.h"

enum { NODES_MOST = 1 << 22 };

struct forest {
    struct ag_profile *profile;
    uint32_t *key_of_frame;
    struct ag_tree_node *nodes;
    size_t count;
    struct ag_index_map children; /* place << 32 | key -> place */
    int error;
};

/* Returns the place of FRAME below PARENT, and adds it if it is missing. Returns PARENT if the
 * place cannot be added. */
static uint32_t forest_step(struct forest *forest, uint32_t parent, uint32_t frame) {
    const uint64_t key = (uint64_t)parent << 32 | forest->key_of_frame[frame];
    const uint32_t known = ag_index_map_find(&forest->children, key);
    if (known != AG_INDEX_NONE) {
        return known;
    }
    if (forest->error || forest->count == NODES_MOST) {
        return parent;
    }
    const uint32_t made = (uint32_t)forest->count;
    const struct ag_tree_node node = {.frame = frame,
                                      .parent = parent,
                                      .first_child = UINT32_MAX,
                                      .next_sibling = forest->nodes[parent].first_child};
    if (ag_index_map_insert(&forest->children, key, made) < 0 ||
        AG_ARRAY_ADD(forest->nodes, forest->count, node) < 0) {
        forest->error = -ENOMEM;
        return parent;
    }
    forest->nodes[parent].first_child = made;
    return made;
}

static void add_downward(struct forest *forest, uint32_t *place_of_node) {
    struct ag_profile *profile = forest->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    for (size_t i = 0; i < nodes->count; i++) {
        if (!profile->node_is_used[i]) {
            continue;
        }
        const uint32_t parent = nodes->nodes[i].parent;
        uint32_t place = AG_IS_ROOT(parent) ? 0 : place_of_node[parent];
        size_t n;
        const uint32_t *frames = ag_profile_node_frames(profile, (uint32_t)i, &n);
        while (n-- > 0) { /* from the outermost function to the functions inlined into it */
            place = forest_step(forest, place, frames[n]);
        }
        place_of_node[i] = place;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        const uint32_t node = profile->row_nodes[i];
        struct ag_tree_node *place = &forest->nodes[AG_IS_ROOT(node) ? 0 : place_of_node[node]];
        ag_metrics_add(&place->own, &profile->rows[i].metrics);
        ag_metrics_add(&place->total, &profile->rows[i].metrics);
    }
}

static void add_upward(struct forest *forest) {
    struct ag_profile *profile = forest->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    for (size_t i = 0; i < profile->n_rows; i++) {
        const struct ag_metrics *metrics = &profile->rows[i].metrics;
        uint32_t place = 0;
        bool is_innermost = true;
        for (uint32_t node = profile->row_nodes[i]; !AG_IS_ROOT(node);
             node = nodes->nodes[node].parent) {
            size_t n;
            const uint32_t *frames = ag_profile_node_frames(profile, node, &n);
            const uint32_t before = place;
            for (size_t k = 0; k < n; k++) {
                place = forest_step(forest, place, frames[k]);
                if (is_innermost && place != 0) {
                    ag_metrics_add(&forest->nodes[place].own, metrics);
                    is_innermost = false;
                }
            }
            if (place == before && n > 0) {
                break; /* the tree is full */
            }
        }
        ag_metrics_add(&forest->nodes[place].total, metrics);
    }
}

static int build(struct forest *forest, bool bottom_up) {
    struct ag_profile *profile = forest->profile;
    const struct ag_tree_node root = {.frame = UINT32_MAX,
                                      .parent = UINT32_MAX,
                                      .first_child = UINT32_MAX,
                                      .next_sibling = UINT32_MAX};
    int r = AG_ARRAY_ADD(forest->nodes, forest->count, root);
    if (r < 0) {
        return r;
    }
    if (bottom_up) {
        add_upward(forest);
    } else {
        uint32_t *place_of_node =
            calloc(profile->definitions.nodes.count + 1, sizeof(*place_of_node));
        if (!place_of_node) {
            return -ENOMEM;
        }
        add_downward(forest, place_of_node);
        free(place_of_node);
    }
    for (size_t i = forest->count; i-- > 1;) { /* children have higher numbers than their parents */
        ag_metrics_add(&forest->nodes[forest->nodes[i].parent].total, &forest->nodes[i].total);
    }
    return forest->error;
}

int ag_profile_tree(struct ag_profile *profile, bool bottom_up,
                    const struct ag_tree_node **ret_nodes, size_t *ret_count) {
    if (!profile->trees[bottom_up]) {
        struct forest forest = {.profile = profile};
        uint32_t *frame_of_key = NULL;
        size_t n_keys;
        int r = ag_profile_resolve(profile);
        r = r < 0 ? r
                  : ag_profile_function_keys(profile, AG_BY_FUNCTION, &forest.key_of_frame,
                                             &frame_of_key, &n_keys);
        r = r < 0 ? r : build(&forest, bottom_up);
        ag_index_map_done(&forest.children);
        free(forest.key_of_frame);
        free(frame_of_key);
        if (r < 0) {
            free(forest.nodes);
            return r;
        }
        profile->trees[bottom_up] = forest.nodes;
        profile->n_tree_nodes[bottom_up] = forest.count;
    }
    *ret_nodes = profile->trees[bottom_up];
    *ret_count = profile->n_tree_nodes[bottom_up];
    return 0;
}
