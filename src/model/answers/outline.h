/* outline.h: the call tree of a profile, cut to what can be shown: the heaviest nodes, and below
 * each of them one "other" for everything that was too small. Below an "other" are the functions
 * that allocated; only the path to them is left out. Nothing is left out of a sum.
 *
 * A group is the unit of the history (history.h): the stacks that end in one node of the outline,
 * with one allocation function, one type of blocks and one label. A program may have as many labels
 * as it served requests: only the heaviest are distinguished. */
#ifndef AG_OUTLINE_H
#define AG_OUTLINE_H

#include "model/profile.h"

#define AG_OUTLINE_ROOT UINT32_MAX /* frame of node 0 */
#define AG_OUTLINE_OTHER \
    (UINT32_MAX - 1) /* frame of everything that was too small for a node of
                                           * its own */

extern const char ag_outline_other_labels[]; /* of all labels that were too small */

struct ag_outline_node {
    uint32_t parent; /* < own index; of node 0: 0 */
    uint32_t frame;  /* for ag_profile_frame, or one of the above */
};
struct ag_outline_group {
    uint32_t node;
    const char *via_name; /* NULL: unknown */
    const char *type;     /* NULL: unknown */
    const char *label;    /* NULL: none; or ag_outline_other_labels itself */
    struct ag_metrics metrics;
    double weight; /* the greatest of its shares of the whole, over the metrics */
};
struct ag_outline {
    struct ag_outline_node *nodes;
    struct ag_outline_group *groups;
    uint32_t *group_of_row; /* beside the rows of ag_profile_stacks */
    size_t n_nodes, n_groups, n_rows;
};

/* At most about MOST_NODES nodes and MOST_GROUPS groups. 0 or -ENOMEM; the caller ends it with
 * ag_outline_done in any case. */
int ag_outline_make(struct ag_profile *profile, size_t most_nodes, size_t most_groups,
                    struct ag_outline *ret_outline);
void ag_outline_done(struct ag_outline *outline);

#endif
