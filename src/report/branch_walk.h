/* branch_walk.h: walks through a tree for a view. The walk sorts the children of each node by size.
 * It leaves out the children that are too small or beyond the limit, and counts them. For text,
 * ag_branch_walk_lines draws the lines that lead to a node.
 *
 *     struct ag_branch_walk walk = {.get = branch_of, .visit = write_node, .context = context,
 *                                   .n_nodes = n_nodes, .view = view};
 *     int r = ag_branch_walk_run(&walk);
 *
 * A tree can be as deep as the program's recursion, so the walk is not recursive. For each open
 * level it keeps the children to be shown, the largest first, and the index of the child to visit
 * next. */
#ifndef AG_BRANCH_WALK_H
#define AG_BRANCH_WALK_H

#include "report/view.h"

struct ag_branch {
    uint32_t first_child, next_sibling; /* n_nodes or more: none */
    uint64_t value;                     /* children are sorted by their values, the largest first */
    bool is_shown;                      /* false: the node and all nodes below it are left out */
    /* text: a line leads to the node even if it is the only child of its parent */
    bool is_indented;
};
typedef struct ag_branch ag_branch_get(const void *context, uint32_t node);

typedef void ag_branch_visit(void *context, uint32_t node);

struct ag_branch_walk {
    ag_branch_get *get;
    ag_branch_visit *visit;       /* called for each shown node except node 0, which is the root */
    void (*leave)(void *context); /* called for the root and each visited node when all its
                                   * children were visited; NULL: none */
    void *context;
    const struct ag_view *view; /* its options limit the number of children and of levels */
    size_t n_nodes;
    uint64_t n_hidden; /* children left out, except those with the value 0; nodes below them are
                        * not counted */
    uint64_t hidden;   /* the sum of the values of the children left out */
    /* private */
    struct ag_rank *ranks; /* a stack: the shown children of each level */
    uint32_t n_ranks;
    struct ag_branch_level *levels; /* a stack: levels[0] are the children of the root */
    size_t n_levels;
};

/* 0 or -ENOMEM. If memory is exhausted, no further node is visited, but `leave` is still called for
 * each visited node. */
int ag_branch_walk_run(struct ag_branch_walk *walk);

/* Draws the lines that lead to the current node, in at most ROOM columns. If the lines need more
 * columns, an ellipsis replaces the outermost lines; with less than 2 columns, nothing is drawn.
 * Returns the number of columns written. */
size_t ag_branch_walk_lines(const struct ag_branch_walk *walk, struct ag_page *page, size_t room);
/* Writes "hidden: 3 branches with 2 % of the total", or nothing if no branch is hidden. WHOLE: the
 * total. */
void ag_branch_walk_write_hidden(const struct ag_branch_walk *walk, struct ag_page *page,
                                 uint64_t whole);

#endif
