/* outline.h: a shortened call tree of a profile. The outline contains the nodes with the largest
 * shares. Each node may have a child "other" for the stacks whose own nodes are too small. Below
 * "other" are the functions that allocated; only the call paths to these functions are left out. So
 * the sums of the outline include all stacks.
 *
 * A group contains the stacks of one process that end in one node of the outline and have the same
 * allocation function (via), blamed line (blamed_lines.h), type of blocks and label (a name that
 * the program gives to a part of its work). history.h computes sums by group. A program may set a
 * label for each request that it serves, so only the labels with the largest shares have groups of
 * their own. */
#ifndef AG_OUTLINE_H
#define AG_OUTLINE_H

#include "model/profile.h"

#define AG_OUTLINE_ROOT UINT32_MAX /* frame of node 0 */
#define AG_OUTLINE_OTHER \
    (UINT32_MAX - 1) /* frame of a node "other", which represents the stacks that are too small to
                      * have nodes of their own */

/* the label of a group for all labels that have no groups of their own */
extern const char ag_outline_other_labels[];

struct ag_outline_node {
    /* index of the parent, which is smaller than the node's own index; of node 0: 0 */
    uint32_t parent;
    uint32_t frame; /* number for ag_profile_frame, or AG_OUTLINE_ROOT, AG_OUTLINE_OTHER */
    /* whether ag_profile_fold (blamed_lines.h) would leave out the frame; two nodes may have the
     * same parent and frame, if one of them is left out and the other is not */
    bool is_left_out;
};
struct ag_outline_group {
    uint32_t node;
    uint32_t line;    /* the blamed line: number for ag_profile_frame */
    uint32_t process; /* number for ag_profile_process */
    /* whether the C or C++ runtime keeps the blocks until the end (known_blocks.h); always false if
     * ag_profile_find_known was not called */
    bool is_known;
    bool is_collected;    /* a garbage collector frees the blocks */
    const char *via_name; /* NULL: unknown */
    const char *type;     /* NULL: unknown */
    /* NULL: no label; a pointer equal to ag_outline_other_labels: labels without groups of their
     * own */
    const char *label;
    struct ag_metrics metrics;
    double weight; /* the largest of the group's shares of the whole profile, see outline.c */
};
struct ag_outline {
    struct ag_outline_node *nodes;
    struct ag_outline_group *groups;
    uint32_t *group_of_row; /* by row of ag_profile_stacks (model/profile.h) */
    size_t n_nodes, n_groups, n_rows;
};

/* Makes an outline of at most about MOST_NODES nodes and MOST_GROUPS groups. Returns 0 or -ENOMEM;
 * in either case the caller calls ag_outline_done. */
int ag_outline_make(struct ag_profile *profile, size_t most_nodes, size_t most_groups,
                    struct ag_outline *ret_outline);
/* Returns the node at which ag_profile_fold (blamed_lines.h) would begin the stacks of GROUP: the
 * node of the blamed line. 0: the outline has no such node, because the blamed line is in the part
 * of a stack that a node "other" stands for. */
uint32_t ag_outline_folded_start(const struct ag_outline *outline,
                                 const struct ag_outline_group *group);
void ag_outline_done(struct ag_outline *outline);

#endif
