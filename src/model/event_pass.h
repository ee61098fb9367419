/* event_pass.h: all events of a trace through a ledger, in order of time; with what a reader wants
 * left out. */
#ifndef AG_EVENT_PASS_H
#define AG_EVENT_PASS_H

#include <stdbool.h>

#include "ledger/ledger.h"
#include "model/definitions.h"

/* What the reader does not want is counted on this stack: it belongs to the process' peak, and its
 * row is left out. No node has this id. */
#define AG_STACK_OTHER UINT32_MAX

struct ag_pass_options {
    uint64_t from_ns, to_ns; /* session time; 0 and UINT64_MAX: all of it */
    uint64_t tail_ns;        /* allocations from here on do not count; UINT64_MAX: all do */
    int64_t thread;          /* kernel tid, -1: all */
    uint32_t temporary_within;
    bool is_by_stream;               /* sums are of streams: a block's stack is its stream */
    const struct ag_index_map *kept; /* stacks that count; NULL: all */
    size_t n_threads;                /* that decode beside the caller */
};
/* Feeds and closes LEDGER (new). Damage goes to definitions. 0 or -ENOMEM. */
int ag_event_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                  const struct ag_pass_options *options, struct ag_ledger *ledger);

#endif
