/* slice_log.h: the history of groups, stored compactly, and folded until it is small enough for the
 * page. A group is the stacks that end in one node of the outline (the call tree without its small
 * parts, model/answers/outline.h), with one allocation function, type and label. The history is
 * what each group did in each slice, one of up to 256 equal parts of the recording. */
#ifndef AG_SLICE_LOG_H
#define AG_SLICE_LOG_H

#include "model/answers/history.h"
#include "page/data_block.h"

struct ag_slice_log { /* zero-initialize, then ag_slice_log_init */
    struct ag_byte_list *slices;
    size_t n_slices, n_groups;
    uint32_t *entries_of; /* by group: the number of its entries */
    size_t n_entries;
};
int ag_slice_log_init(struct ag_slice_log *log, size_t n_slices, size_t n_groups);
void ag_slice_log_done(struct ag_slice_log *log);
int ag_slice_log_add(void *log, size_t slice, const struct ag_history_entry *entries,
                     size_t count); /* an ag_history_visit for ag_history_make */

/* Chooses for each group where the page shows it: RET_TARGET[group] is the group itself, or a group
 * of the same function below a node "other" higher in the tree, which is added to the outline. The
 * groups with the least weight are folded first, and as far up as needed until at most MOST_ENTRIES
 * are left. RET_TARGET has room for every group that the outline has before the call; targets may
 * be groups added behind these. 0 or -ENOMEM. */
int ag_slice_log_fold(const struct ag_slice_log *log, struct ag_outline *outline,
                      size_t most_entries, uint32_t *ret_target);

/* Writes the block "history". Entries of groups with the same NUMBER_OF[group] are added up. */
int ag_slice_log_write(const struct ag_slice_log *log, const uint32_t *number_of, size_t n_numbers,
                       unsigned trace, FILE *out);

#endif
