/* event_pass.h: passes the events of a trace, in order of time, to a ledger, which computes the
 * sums of blocks by stack. The options select which events count. */
#ifndef AG_EVENT_PASS_H
#define AG_EVENT_PASS_H

#include <stdbool.h>

#include "ledger/ledger.h"
#include "model/definitions/definitions.h"
#include "model/pass/weights.h"

/* The ledger counts blocks that the options leave out on this stack, because they are part of the
 * process's peak. The row of this stack is dropped. No node has this id. */
#define AG_STACK_OTHER UINT32_MAX
/* The stack of blocks that belong to none of the groups in ag_pass_options.groups. When the type of
 * such a block becomes known, the block may move to a group; a block on AG_STACK_OTHER never
 * does. */
#define AG_STACK_UNGROUPED (UINT32_MAX - 1)

struct ag_pass_options {
    uint64_t from_ns, to_ns;   /* session time; 0 and UINT64_MAX: the whole recording */
    uint64_t tail_ns;          /* allocations from this time on are left out; UINT64_MAX: none */
    int64_t thread;            /* kernel tid; -1: all threads */
    uint32_t temporary_within; /* as in ag_profile_options */
    /* sums by stream: the stack of a block is replaced by its stream */
    bool is_by_stream;
    const struct ag_index_map *kept; /* the stacks whose blocks count; NULL: all */
    size_t n_threads;                /* threads that decode, in addition to the caller's */
    /* A window that begins at from_ns > 0 counts only blocks that were allocated inside the window,
     * and only the chunks that overlap it are read. With counts_older, blocks from before the
     * window count as well: in use, at the peak, and when they are freed; then everything before
     * the window is read, too. */
    bool counts_older;
    ag_block_visit *visit_block; /* NULL: the ledger does not report single blocks */
    ag_ghost_visit *visit_ghost;
    void *visit_context;
    /* For a sampled trace: the ledger gets the groups of WEIGHTS (see weights.h) as stacks. Code
     * that uses its blocks or sums has to convert them to estimates, as ag_profile_pass does. NULL:
     * every block counts once. */
    struct ag_weights *weights;
    /* made by ag_pass_group: the group that replaces a block's stack; or NULL */
    const struct ag_index_map *groups;
    /* The ends of periods, in rising order; end_period is called when the pass reaches each of
     * them. It is not called for the last period, which ends when the ledger is closed. Cannot be
     * combined with from_ns. */
    const uint64_t *period_ends_ns;
    size_t n_periods;
    void (*end_period)(void *context, size_t period, struct ag_ledger *ledger);
    void *period_context;
};
/* Assigns the blocks of (STACK, VIA) to GROUP, which must be below AG_STACK_UNGROUPED. A pair that
 * is in GROUPS already keeps its group. If the type of a block becomes known after its allocation,
 * the event contains the stack but not the via. Such a block belongs to the group of its stack's
 * first via; few stacks have a second one. 0 or -ENOMEM. */
int ag_pass_group(struct ag_index_map *groups, const struct ag_stack_nodes *nodes, uint32_t stack,
                  uint32_t via, uint32_t group);
/* The group of the blocks of (STACK, VIA); AG_INDEX_NONE: they have none. */
uint32_t ag_pass_group_of(const struct ag_index_map *groups, uint32_t stack, uint32_t via);
/* Applies the events to LEDGER, which must be new, and closes it. Damage in the trace is noted in
 * DEFINITIONS. 0 or -ENOMEM. */
int ag_event_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                  const struct ag_pass_options *options, struct ag_ledger *ledger);

#endif
