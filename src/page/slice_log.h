/* slice_log.h: the history of groups, stored compactly, and folded until it is small enough for the
 * page. The outline is the call tree without its small parts (model/answers/outline.h). A group is
 * the blocks of one process whose stacks have the same innermost node in the outline, and that have
 * the same allocation function, blamed line, type and label (a text that the program sets for a
 * thread). The recording is divided into up to 256 equal slices. An entry of the history says how
 * much one group allocated and freed in one slice. */
#ifndef AG_SLICE_LOG_H
#define AG_SLICE_LOG_H

#include "model/answers/history.h"
#include "page/data_block.h"

struct ag_slice_log {            /* zero-initialize, then ag_slice_log_init */
    struct ag_byte_list *slices; /* by slice: its entries, encoded (slice_log.c) */
    size_t n_slices, n_groups;
    uint32_t *entries_of; /* by group: the number of its entries */
    size_t n_entries;
};
int ag_slice_log_init(struct ag_slice_log *log, size_t n_slices, size_t n_groups);
void ag_slice_log_done(struct ag_slice_log *log);
int ag_slice_log_add(void *log, size_t slice, const struct ag_history_entry *entries,
                     size_t count); /* an ag_history_visit for ag_history_make */

/* Chooses for each group where the page shows it. RET_TARGET[group] is the group itself, or a group
 * below a node "other" with the same function, process, allocation function, blamed line, type and label.
 * This function adds the nodes "other", each below a caller of the original groups, and the groups
 * below them to the outline. The groups with the least weight are folded first, as far up the tree
 * as needed, until the log has at most MOST_ENTRIES entries. RET_TARGET has an element for every
 * group that the outline has before the call. 0 or -ENOMEM. */
int ag_slice_log_fold(const struct ag_slice_log *log, struct ag_outline *outline,
                      size_t most_entries, uint32_t *ret_target);

/* Writes the block "history" of the page (data_block.h). NUMBER_OF[group] is the group's number on
 * the page. Entries of groups with the same number are added up. */
int ag_slice_log_write(const struct ag_slice_log *log, const uint32_t *number_of, size_t n_numbers,
                       unsigned trace, FILE *out);

#endif
