/* stack_groups.c: stacks as a person tells them apart, see stack_groups.h. Frames are interned by
 * the profile, so two stacks are equal when their arrays of frame numbers are: one hash table with
 * a slot for every other row at most. */
#include "report/stack_groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"

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

static void add(struct ag_stack_groups *groups, const struct ag_stack_group *group) {
    size_t at = hash_of(group) & (groups->n_slots - 1);
    while (groups->slots[at] != 0 && !is_same(&groups->groups[groups->slots[at] - 1], group)) {
        at = (at + 1) & (groups->n_slots - 1);
    }
    if (groups->slots[at] == 0) {
        groups->groups[groups->count] = *group;
        groups->slots[at] = (uint32_t)++groups->count;
    } else {
        ag_metrics_add(&groups->groups[groups->slots[at] - 1].metrics, &group->metrics);
    }
    ag_metrics_add(&groups->total, &group->metrics);
}

/* A window that counts older blocks knows of stacks that allocated nothing in it. */
static bool has_any(const struct ag_metrics *metrics, enum ag_metric blocks) {
    return ag_metric_of(metrics, blocks) != 0 ||
           (blocks == AG_METRIC_ALLOCATED_BLOCKS &&
            (metrics->in_use_blocks | metrics->freed_blocks | metrics->peak_blocks) != 0);
}

static void group_rows(struct ag_stack_groups *groups, struct ag_profile *profile,
                       const struct ag_stack_grouping *grouping, const struct ag_stack_row *rows,
                       size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++) {
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
            add(groups, &group);
        }
    }
}

int ag_stack_groups_start(struct ag_stack_groups *groups, struct ag_profile *profile,
                          const struct ag_stack_grouping *grouping) {
    const struct ag_stack_row *rows;
    size_t n_rows = ag_profile_stacks(profile, &rows);
    size_t n_wanted = 0;
    for (size_t i = 0; i < n_rows; i++) {
        n_wanted += has_any(&rows[i].metrics, grouping->blocks);
    }
    *groups = (struct ag_stack_groups){.n_slots = 16};
    while (groups->n_slots < 2 * n_wanted) {
        groups->n_slots *= 2;
    }
    groups->groups = calloc(n_wanted + 1, sizeof *groups->groups);
    groups->slots = calloc(groups->n_slots, sizeof *groups->slots);
    if (groups->groups == NULL || groups->slots == NULL) {
        ag_stack_groups_end(groups);
        return -ENOMEM;
    }
    group_rows(groups, profile, grouping, rows, n_rows);
    return 0;
}

void ag_stack_groups_end(struct ag_stack_groups *groups) {
    free(groups->groups);
    free(groups->slots);
    *groups = (struct ag_stack_groups){0};
}
