/* branch_walk.h: walks through a tree for a view. The walk sorts the children of each node by size,
 * and leaves out and counts those that are too small or beyond the limit. In text it also draws the
 * lines that lead to a node.
 *
 *     struct ag_branch_walk walk;
 *     int r = ag_branch_walk_start(&walk, branch_of, context, n_nodes, view);
 *     r = r < 0 ? r : ag_branch_walk_enter(&walk, 0);
 *     while (r == 0 && walk.n_levels > 0) {
 *         uint32_t node;
 *         if (!ag_branch_walk_next(&walk, &node)) {
 *             ag_branch_walk_leave(&walk);
 *             continue;
 *         }
 *         ... write the node ...
 *         r = ag_branch_walk_enter(&walk, node);
 *     }
 *     ag_branch_walk_end(&walk);
 *
 * A tree can be as deep as the program's recursion, so the walk is not recursive. For each open
 * level it keeps the children to be shown, the largest first, and the index of the next one. */
#ifndef AG_BRANCH_WALK_H
#define AG_BRANCH_WALK_H

#include "report/view.h"

struct ag_branch {
    uint32_t first_child, next_sibling; /* n_nodes or more: none */
    uint64_t value;                     /* children are sorted by this, the largest first */
    bool is_shown;
};
typedef struct ag_branch ag_branch_get(const void *context, uint32_t node);

struct ag_branch_walk { /* Callers read n_nodes, n_levels, n_hidden and hidden. The other fields are
                         * private. */
    ag_branch_get *get;
    const void *context;
    const struct ag_view *view; /* for its limit on children and on levels */
    size_t n_nodes;
    struct ag_rank *ranks; /* a stack: the shown children of each level */
    uint32_t n_ranks;
    struct ag_branch_level *levels; /* a stack: levels[0] are the children of the root */
    size_t n_levels;
    uint64_t n_hidden; /* children left out; nodes below them are not counted */
    uint64_t hidden;   /* the sum of their values */
};

/* 0 or -ENOMEM. Call ag_branch_walk_end in both cases. */
int ag_branch_walk_start(struct ag_branch_walk *walk, ag_branch_get *get, const void *context,
                         size_t n_nodes, const struct ag_view *view);
void ag_branch_walk_end(struct ag_branch_walk *walk);
/* Opens the level of a node's children. 0 or -ENOMEM. */
int ag_branch_walk_enter(struct ag_branch_walk *walk, uint32_t node);
/* The next node of the deepest level. False: the level has no more nodes, so call
 * ag_branch_walk_leave. */
bool ag_branch_walk_next(struct ag_branch_walk *walk, uint32_t *ret_node);
void ag_branch_walk_leave(struct ag_branch_walk *walk);

/* Draws the lines that lead to the current node, in at most ROOM columns. If they need more, an
 * ellipsis replaces the outermost ones. Returns the number of columns written. */
size_t ag_branch_walk_lines(const struct ag_branch_walk *walk, struct ag_page *page, size_t room);
/* Writes "hidden: 3 branches with 2 % of it", or nothing if no branch is hidden. */
void ag_branch_walk_write_hidden(const struct ag_branch_walk *walk, struct ag_page *page,
                                 uint64_t whole);

#endif
