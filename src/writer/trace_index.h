/* trace_index.h: makes the sums in the index at the end of a trace. The sums come from the totals
 * (running sums) of the writer, the process that makes the traces. If there are no totals, the sums
 * come from the events in the file. */
#ifndef AG_TRACE_INDEX_H
#define AG_TRACE_INDEX_H

#include <stdint.h>

#include "schema/records.h"

struct ag_blob;
struct ag_ledger;
struct ag_stack_harvest;
struct ag_index_facts {        /* facts that the events do not contain */
    uint64_t start_ns, end_ns; /* start and end of the process, since the session began */
    uint64_t rss_peak_bytes;
};

struct ag_index_sums {
    struct ag_summary summary; /* the summary for the index */
    /* blocks whose frees were not recorded (ag_ledger_buried_blocks in ledger/ledger.h); not in the
     * index */
    uint64_t buried_blocks;
};

/* Makes the sums from a ledger (running sums) that has ended (ag_ledger_close in ledger/ledger.h).
 * ret_blob: the records of the index, for ag_trace_writer_finish (format/encode.h); the caller
 * frees it. */
int ag_trace_index_of_ledger(const struct ag_ledger *ledger, const struct ag_stack_harvest *stacks,
                             const struct ag_index_facts *facts, struct ag_blob *ret_blob,
                             struct ag_index_sums *ret_sums);
/* Makes the sums from the chunks (compressed parts) of a trace file, in one pass. Needs memory for
 * the live blocks and for a chunk of each stream (thread). */
int ag_trace_index_of_file(const char *path, const struct ag_index_facts *facts,
                           struct ag_blob *ret_blob, struct ag_index_sums *ret_sums);

#endif
