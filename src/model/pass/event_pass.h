/* event_pass.h: passes all events of a trace to a ledger, in order of time, without what the reader
 * leaves out. */
#ifndef AG_EVENT_PASS_H
#define AG_EVENT_PASS_H

#include <stdbool.h>

#include "ledger/ledger.h"
#include "model/definitions/definitions.h"
#include "model/pass/weights.h"

/* Blocks that the reader leaves out count on this stack: they are part of the process' peak, and
 * the row is dropped. No node has this id. */
#define AG_STACK_OTHER UINT32_MAX
/* A block that is in none of the reader's groups so far. When its type becomes known, it may move
 * to one; a block that was left out never does. */
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
    ag_block_visit *visit_block; /* NULL: single blocks are not visited */
    ag_ghost_visit *visit_ghost;
    void *visit_context;
    /* Of a sampled trace: the ledger gets groups of WEIGHTS as stacks; code that uses blocks or
     * sums has to convert them (ag_profile_pass does). NULL: every block counts as one. */
    struct ag_weights *weights;
    const struct ag_index_map
        *groups; /* of ag_pass_group: what counts as a block's stack; or NULL */
    /* The ends of periods, rising; the ledger notifies of each when it gets there. Not of the last
     * one: it ends when the ledger is closed. Not to be combined with from_ns. */
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
/* The group of blocks of (STACK, VIA); AG_INDEX_NONE: none. */
uint32_t ag_pass_group_of(const struct ag_index_map *groups, uint32_t stack, uint32_t via);
/* Feeds and closes LEDGER (new). Damage goes to definitions. 0 or -ENOMEM. */
int ag_event_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                  const struct ag_pass_options *options, struct ag_ledger *ledger);

#endif
