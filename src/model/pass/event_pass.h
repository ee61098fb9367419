/* event_pass.h: passes the events of a trace, in order of time, to a ledger (src/ledger), which
 * computes the sums of blocks by stack. The options select which events count. */
#ifndef AG_EVENT_PASS_H
#define AG_EVENT_PASS_H

#include <stdbool.h>

#include "ledger/ledger.h"
#include "model/definitions/definitions.h"
#include "model/pass/weights.h"

struct ag_feed_map;
/* The id of a stack that exists in no trace. For this stack the ledger counts the blocks that the
 * options exclude, because these blocks are part of the process's peak. Views do not show this
 * stack. */
#define AG_STACK_OTHER UINT32_MAX
/* The id of the stack for blocks that belong to none of the groups in ag_pass_options.groups. When
 * the type of such a block becomes known, the block may move to a group. A block on AG_STACK_OTHER
 * never moves to a group. */
#define AG_STACK_UNGROUPED (UINT32_MAX - 1)

struct ag_pass_options {
    /* begin and end of the time window in session time, which counts from the start of the session
     * (the recording of all processes); 0 and UINT64_MAX: the whole recording */
    uint64_t from_ns, to_ns;
    /* blocks allocated at this time or later are excluded; UINT64_MAX: none */
    uint64_t tail_ns;
    /* only blocks that this thread (kernel tid) allocated count; -1: all threads */
    int64_t thread;
    /* a block is temporary if its thread frees it after at most this many other allocations */
    uint32_t temporary_within;
    /* compute the sums by stream (the events of one thread): the stack of a block is replaced by
     * its stream */
    bool is_by_stream;
    const struct ag_index_map *kept; /* the stacks whose blocks count; NULL: all */
    size_t n_threads;                /* number of decoding threads, in addition to the caller's */
    /* A window that begins at from_ns > 0 counts only blocks that were allocated inside the window,
     * and only the chunks (compressed pieces of the trace) that overlap the window are read. With
     * counts_older, blocks that were allocated before the window also count: as in use, at the
     * peak, and as freed. Then everything before the window is read, too. */
    bool counts_older;
    ag_block_visit *visit_block; /* NULL: the ledger does not report single blocks */
    ag_ghost_visit *visit_ghost;
    /* Called for each MAP and UNMAP record up to the end of the window, in the order of time; for
     * records before the window only if counts_older is set. NULL: none. */
    void (*visit_map)(void *context, const struct ag_feed_map *map);
    void *visit_context;
    /* For a sampled trace: groups of samples with equal weight (see weights.h), which the ledger
     * gets in place of stacks. Code that uses the ledger's blocks or sums has to convert them to
     * estimates, as ag_profile_pass (model/profile.c) does. NULL: every block counts once. */
    struct ag_weights *weights;
    /* made by ag_pass_group: stack and via (allocation function) of a block -> the group that
     * replaces its stack; NULL: stacks are not replaced */
    const struct ag_index_map *groups;
    /* The ends of n_periods periods in session time, in rising order. When the pass reaches the end
     * of a period, it calls end_period, except for the last period, which ends when the ledger is
     * closed. If from_ns is not 0, all ends must be later than from_ns, and end_period must not
     * call ag_ledger_end_period. */
    const uint64_t *period_ends_ns;
    size_t n_periods;
    void (*end_period)(void *context, size_t period, struct ag_ledger *ledger);
    void *period_context;
};
/* Assigns the blocks with the stack STACK and the allocation function VIA to GROUP, which must be
 * below AG_STACK_UNGROUPED. If GROUPS contains the pair already, the pair keeps its group. If the
 * type of a block becomes known after its allocation, the event with the type contains the stack
 * but not the via. Such a block moves to the group of the first via of its stack; few stacks have a
 * second via. Returns 0 or -ENOMEM. */
int ag_pass_group(struct ag_index_map *groups, const struct ag_stack_nodes *nodes, uint32_t stack,
                  uint32_t via, uint32_t group);
/* Returns the group of the blocks with the stack STACK and the allocation function VIA;
 * AG_INDEX_NONE: these blocks have no group. */
uint32_t ag_pass_group_of(const struct ag_index_map *groups, uint32_t stack, uint32_t via);
/* Applies the events to LEDGER, which must be new, and closes LEDGER. Stores damage of the trace in
 * DEFINITIONS. Returns 0, -ENOMEM, or the negative errno that a step visit of LEDGER returned. */
int ag_event_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                  const struct ag_pass_options *options, struct ag_ledger *ledger);

#endif
