/* merge.h: merges the streams (one per thread) of a process into one order for the ledger, which
 * computes the live blocks and the sums of each stack.
 *
 * A stream's events between two stamps (clock values among the events) are a window; its start is
 * the first stamp. Windows are applied in the order of their start times; the order inside a window
 * is the stream's own. The order between two windows that overlap in time is unknown: the ledger
 * makes the allocs and frees of each address alternate, and the summary has bounds for the peak
 * (peak_low_bytes, peak_high_bytes).
 *
 * Nothing is applied before ag_merge_advance allows it. A merge is used by one thread. A merge
 * needs memory only for the events that are not applied yet. */
#ifndef AG_MERGE_H
#define AG_MERGE_H

#include "ledger/ledger.h"

struct ag_merge;
struct ag_merge *ag_merge_new(
    struct ag_ledger *ledger); /* the caller keeps owning the ledger; NULL: no memory */
struct ag_merge *ag_merge_free(struct ag_merge *merge);
/* Adds events of one stream in its order; copies them. 0 or -ENOMEM. */
int ag_merge_add(struct ag_merge *merge, uint32_t stream, const struct ag_event *events,
                 size_t count);
/* To be called when all events of all streams that happened before `time_ns` have been added.
 * Applies the windows that started before that time. A window whose end has not been delivered is
 * applied as far as it is known, and the rest of the window counts as if it happened at or after
 * `time_ns`. If there is only one stream, only the windows that have ended by that time are
 * applied. A caller that reads the events of a running program passes a time about 2 ms in the
 * past: then the windows of busy threads have ended, and no window is cut. */
int ag_merge_advance(struct ag_merge *merge, uint64_t time_ns);
int ag_merge_finish(struct ag_merge *merge); /* applies all remaining events */

#endif
