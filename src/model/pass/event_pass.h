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
/* A block that is in none of the reader's groups so far. When its type becomes known, it may come
 * into one; what was left out never does. */
#define AG_STACK_UNGROUPED (UINT32_MAX - 1)

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
    const struct ag_index_map
        *groups; /* of ag_pass_group: what counts as a block's stack; or NULL */
    /* Where periods end, rising; each is told when the ledger stands there. The last one is not: it
     * is over when the ledger is closed. Not together with from_ns. */
    const uint64_t *period_ends_ns;
    size_t n_periods;
    void (*end_period)(void *context, size_t period, struct ag_ledger *ledger);
    void *period_context;
};
/* Blocks of (STACK, VIA) count as those of GROUP, below AG_STACK_UNGROUPED; what is in GROUPS
 * already stays. A type that becomes known late comes with the stack alone, not with the via: such
 * a block is in the group of its stack's first via, and few stacks have a second one. 0 or -ENOMEM.
 */
int ag_pass_group(struct ag_index_map *groups, const struct ag_stack_nodes *nodes, uint32_t stack,
                  uint32_t via, uint32_t group);
/* Which group blocks of (STACK, VIA) are in; AG_INDEX_NONE: in none. */
uint32_t ag_pass_group_of(const struct ag_index_map *groups, uint32_t stack, uint32_t via);
/* Feeds and closes LEDGER (new). Damage goes to definitions. 0 or -ENOMEM. */
int ag_event_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                  const struct ag_pass_options *options, struct ag_ledger *ledger);

#endif
