/* slice_log.h: the events of the groups by slice, stored compactly, and folded until they fit into
 * the page. */
#ifndef AG_SLICE_LOG_H
#define AG_SLICE_LOG_H

#include "model/answers/history.h"
#include "page/data_block.h"

struct ag_slice_log { /* zero-initialise, then ag_slice_log_init */
    struct ag_byte_list *slices;
    size_t n_slices, n_groups;
    uint32_t *entries_of; /* by group */
    size_t n_entries;
};
int ag_slice_log_init(struct ag_slice_log *log, size_t n_slices, size_t n_groups);
void ag_slice_log_done(struct ag_slice_log *log);
int ag_slice_log_add(void *log, size_t slice, const struct ag_history_entry *entries,
                     size_t count); /* an ag_history_visit */

/* Where each group is shown: in itself, or as the same function below the "other" of a node above,
 * which is added to the outline. Light groups go first, and as far up as it takes until
 * MOST_ENTRIES are left. RET_TARGET has room for every group of the outline; targets may be groups
 * behind the old ones. 0 or -ENOMEM. */
int ag_slice_log_fold(const struct ag_slice_log *log, struct ag_outline *outline,
                      size_t most_entries, uint32_t *ret_target);

/* The block "history": entries of groups that share NUMBER_OF[group] are one. */
int ag_slice_log_write(const struct ag_slice_log *log, const uint32_t *number_of, size_t n_numbers,
                       unsigned trace, FILE *out);

#endif
