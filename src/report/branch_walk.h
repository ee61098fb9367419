/* branch_walk.h: a walk through a tree for a view: children of a node by size, the small ones and
 * those beyond a limit left out and counted, and the lines that lead to a node in text.
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
 * A tree may be as deep as the program's recursion, so nothing here recurses: a walk keeps, for
 * each level it is in, the children that are to be shown, the largest first, and which of them is
 * next. */
#ifndef AG_BRANCH_WALK_H
#define AG_BRANCH_WALK_H

#include "report/view.h"

struct ag_branch {
    uint32_t first_child, next_sibling; /* n_nodes or more: none */
    uint64_t value;                     /* that children are ordered by */
    bool is_shown;
};
typedef struct ag_branch ag_branch_get(const void *context, uint32_t node);

struct ag_branch_walk { /* its own, but for the number of nodes and levels, and what was hidden */
    ag_branch_get *get;
    const void *context;
    const struct ag_view *view; /* its limit, and how many levels */
    size_t n_nodes;
    struct ag_rank *ranks; /* a stack: the shown children of each level */
    uint32_t n_ranks;
    struct ag_branch_level *levels; /* a stack: levels[0] are the children of the root */
    size_t n_levels;
    uint64_t n_hidden; /* children left out, what is below them not counted */
    uint64_t hidden;   /* what these have of the value */
};

/* 0 or -ENOMEM; end it in any case. */
int ag_branch_walk_start(struct ag_branch_walk *walk, ag_branch_get *get, const void *context,
                         size_t n_nodes, const struct ag_view *view);
void ag_branch_walk_end(struct ag_branch_walk *walk);
/* Opens the level of a node's children. 0 or -ENOMEM. */
int ag_branch_walk_enter(struct ag_branch_walk *walk, uint32_t node);
/* The next node of the deepest level; false when that level is done: leave it then. */
bool ag_branch_walk_next(struct ag_branch_walk *walk, uint32_t *ret_node);
void ag_branch_walk_leave(struct ag_branch_walk *walk);

/* The lines that lead to the node the walk is at, in at most ROOM columns: where there are more,
 * the outer ones give way to an ellipsis. Returns the columns they take. */
size_t ag_branch_walk_lines(const struct ag_branch_walk *walk, struct ag_page *page, size_t room);
/* "hidden: 3 branches with 2 % of it"; nothing when nothing is. */
void ag_branch_walk_write_hidden(const struct ag_branch_walk *walk, struct ag_page *page,
                                 uint64_t whole);

#endif
