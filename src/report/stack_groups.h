/* stack_groups.h: groups of stacks that look the same to a person.
 *
 * The recorder distinguishes stacks by addresses: two calls on one source line, or one library
 * loaded twice, give two stacks. This module merges stacks with the same frames (or the same first
 * N frames, with --frames=N) and the same allocation function. */
#ifndef AG_STACK_GROUPS_H
#define AG_STACK_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metric.h"
#include "model/profile.h"
#include "table/index_map.h"

struct ag_stack_group {
    const uint32_t *frames;         /* of the profile, innermost first */
    size_t n_frames;                /* all of them, or the first N */
    size_t n_all_frames;            /* of the first stack of the group */
    const struct ag_stack_row *row; /* the first stack of the group */
    struct ag_metrics metrics;
};
struct ag_stack_groups {
    struct ag_stack_group *groups;
    size_t count;
    struct ag_metrics total;     /* of all groups */
    struct ag_index_map by_hash; /* internal */
};
/* Called for each stack with all of its frames, before stacks are merged. False leaves the stack
 * out. */
typedef bool ag_stack_is_wanted(void *context, const struct ag_stack_row *row,
                                const uint32_t *frames, size_t n_frames);

struct ag_stack_grouping {
    enum ag_metric blocks;         /* a metric of blocks: stacks for which it is 0 are left out */
    uint64_t most_frames;          /* 0: all */
    ag_stack_is_wanted *is_wanted; /* NULL: all are */
    void *context;
};
int ag_stack_groups_start(struct ag_stack_groups *groups, struct ag_profile *profile,
                          const struct ag_stack_grouping *grouping); /* 0 or -ENOMEM */
void ag_stack_groups_end(struct ag_stack_groups *groups);

#endif
