/* stack_groups.c: merges stacks that look the same to a person, see stack_groups.h. The profile
 * gives equal frames the same number, so two stacks are equal if their arrays of frame numbers
 * are. */
#include "report/stack_groups.h"

#include <stdlib.h>
#include <string.h>

#include "table/array.h"

static uint64_t hash_of(const struct ag_stack_group *group) {
    const char *via = group->row->via_name != NULL ? group->row->via_name : "";
    return ag_keyed_hash_pair(
        ag_keyed_hash_bytes(group->frames, group->n_frames * sizeof *group->frames),
        ag_keyed_hash_bytes(via, strlen(via)));
}

static int same_name(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static int is_same(const struct ag_stack_group *a, const struct ag_stack_group *b) {
    return a->n_frames == b->n_frames && same_name(a->row->via_name, b->row->via_name) &&
           (a->n_frames == 0 || memcmp(a->frames, b->frames, a->n_frames * sizeof *a->frames) == 0);
}

static int stack_groups_add(struct ag_stack_groups *groups, const struct ag_stack_group *group) {
    const uint64_t hash = hash_of(group);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&groups->by_hash, hash, &cursor)) != AG_INDEX_NONE &&
           !is_same(&groups->groups[at], group)) {
    }
    ag_metrics_add(&groups->total, &group->metrics);
    if (at != AG_INDEX_NONE) {
        ag_metrics_add(&groups->groups[at].metrics, &group->metrics);
        return 0;
    }
    const int r = ag_index_map_insert(&groups->by_hash, hash, (uint32_t)groups->count);
    return r < 0 ? r : AG_ARRAY_ADD(groups->groups, groups->count, *group);
}

/* With a time window that counts older blocks, a stack may have allocated nothing in the window. */
static bool has_any(const struct ag_metrics *metrics, enum ag_metric blocks) {
    return ag_metric_of(metrics, blocks) != 0 ||
           (blocks == AG_METRIC_ALLOCATED_BLOCKS &&
            (metrics->in_use_blocks | metrics->freed_blocks | metrics->peak_blocks) != 0);
}

int ag_stack_groups_start(struct ag_stack_groups *groups, struct ag_profile *profile,
                          const struct ag_stack_grouping *grouping) {
    *groups = (struct ag_stack_groups){0};
    const struct ag_stack_row *rows;
    const size_t n_rows = ag_profile_stacks(profile, &rows);
    int r = 0;
    for (size_t i = 0; i < n_rows && r == 0; i++) {
        if (!has_any(&rows[i].metrics, grouping->blocks)) {
            continue;
        }
        struct ag_stack_group group = {.row = &rows[i], .metrics = rows[i].metrics};
        group.n_all_frames = ag_profile_stack_frames(profile, rows[i].stack, &group.frames);
        group.n_frames = grouping->most_frames != 0 && grouping->most_frames < group.n_all_frames
                             ? (size_t)grouping->most_frames
                             : group.n_all_frames;
        if (grouping->is_wanted == NULL ||
            grouping->is_wanted(grouping->context, &rows[i], group.frames, group.n_all_frames)) {
            r = stack_groups_add(groups, &group);
        }
    }
    if (r < 0) {
        ag_stack_groups_end(groups);
    }
    return r;
}

void ag_stack_groups_end(struct ag_stack_groups *groups) {
    free(groups->groups);
    ag_index_map_done(&groups->by_hash);
    *groups = (struct ag_stack_groups){0};
}
