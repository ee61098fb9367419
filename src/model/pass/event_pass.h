/* event_pass.h: all events of a trace through a ledger, in order of time; with what a reader wants
 * left out. */
#ifndef AG_EVENT_PASS_H
#define AG_EVENT_PASS_H

#include <stdbool.h>

#include "ledger/ledger.h"
#include "model/definitions/definitions.h"
#include "model/pass/weights.h"

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
    /* A window that begins inside the trace counts the blocks that were allocated in it, and only
     * the chunks that it touches are read. With this, blocks from before it count as well: in use,
     * at the peak, and when they die; everything before the window is read. */
    bool counts_older;
    ag_block_visit *visit_block; /* NULL: nobody asks for single blocks */
    ag_ghost_visit *visit_ghost;
    void *visit_context;
    /* Of a sampled trace: the ledger gets groups of WEIGHTS as stacks; who asks for blocks or sums
     * has to know (ag_profile_pass does). NULL: every block counts as one. */
    struct ag_weights *weights;
    const struct ag_index_map *groups; /* stack | via << 32 -> what counts as its stack; or NULL */
    /* Where periods end, rising; each is told when the ledger stands there. The last one is not: it
     * is over when the ledger is closed. Not together with from_ns. */
    const uint64_t *period_ends_ns;
    size_t n_periods;
    void (*end_period)(void *context, size_t period, struct ag_ledger *ledger);
    void *period_context;
};
/* Feeds and closes LEDGER (new). Damage goes to definitions. 0 or -ENOMEM. */
int ag_event_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                  const struct ag_pass_options *options, struct ag_ledger *ledger);

#endif
