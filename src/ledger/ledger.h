/* ledger.h: computes the live blocks of a process and the sums of each stack from events.
 *
 * The writer process applies all events as they come, and stores the result as the index of the
 * trace. The model (src/model, which computes reports) applies the events again when the reader of
 * a report asks for a part of them (a time window or a thread), or for another value of --within
 * (the limit that makes a block temporary). The results of the writer and of the model agree,
 * because the same code computes them.
 *
 * Apply a single stream (the events of one thread) directly, and several streams through merge.h.
 * For one stream all results are exact. For several, the number and bytes of allocations do not
 * depend on the order between threads. If two threads raced for an address, the events at this
 * address are reordered so that allocs and frees alternate. An alloc of a live address waits for
 * the free of the block there. A free of an unknown address waits for an alloc whose window
 * overlaps that of the free. (A window is the time between two stamps, which are clock values among
 * the events of a stream.) A free that finds no such alloc is a ghost: the free of a block whose
 * allocation is not in the trace. Repairs are counted. order_repair.c and order_bounds.c describe
 * which orders remain unknown, and how large the error is.
 *
 * Threads: a ledger belongs to one thread. Memory: about 200 bytes per stack, and 32 bytes per slot
 * of the table of live blocks. A small table is at most 1/4 full, a large table at most 3/4
 * (live_table.h). */
#ifndef AG_LEDGER_H
#define AG_LEDGER_H

#include <stdbool.h>

#include "format/decode.h"

struct ag_ledger;
struct ag_ledger *ag_ledger_new(void);
struct ag_ledger *ag_ledger_free(struct ag_ledger *ledger);

/* Applies events of one stream, in order; stamps among them set the time. Returns 0, -ENOMEM, or
 * the negative errno that a step visit returned (ag_ledger_on_step). After an error all later calls
 * return the same error. */
int ag_ledger_apply(struct ag_ledger *ledger, uint32_t stream, const struct ag_event *events,
                    size_t count);
/* Announces that several streams will be applied, window by window. After this call, a free that
 * comes before its alloc waits for that alloc, instead of becoming a ghost. merge.c calls this
 * function, before the first event that could be out of order. */
void ag_ledger_expect_streams(struct ag_ledger *ledger);
/* Returns whether the tables have more than 1 MiB, and so do not fit into a typical L2 cache. Only
 * then does prefetching help: it halves the time of ag_ledger_apply; with smaller tables it doubles
 * that time (measured on a core with 1 MiB of L2). */
bool ag_ledger_is_large(const struct ag_ledger *ledger);
/* Announces, before the first event, that the process was forked. Its first free at an address that
 * belongs to no block is then the free of a block that the parent had allocated (an inherited
 * block), and not a ghost. Further frees at that address are ghosts. */
void ag_ledger_expect_inherited(struct ag_ledger *ledger);
/* A block is temporary if its thread frees it after at most WITHIN more allocations; default 0. */
void ag_ledger_set_temporary_within(struct ag_ledger *ledger, uint32_t within);
void ag_ledger_thread(struct ag_ledger *ledger, uint32_t stream,
                      uint32_t thread_id); /* sets the id of the stream's thread */
void ag_ledger_via_heap(struct ag_ledger *ledger, uint32_t via,
                        uint32_t heap); /* sets the heap of a via (allocation function) */
/* Adds a measured resident size (RSS). The value takes effect when a stamp or ag_ledger_reach
 * reaches TIME_NS. TIME_NS must not decrease from call to call. */
void ag_ledger_resident(struct ag_ledger *ledger, uint64_t time_ns, uint64_t rss_bytes);
/* HEAP has got [address, address + bytes) from the kernel (ag_ledger_map), or has given back this
 * range (ag_ledger_unmap). */
void ag_ledger_map(struct ag_ledger *ledger, uint32_t heap, uint64_t address, uint64_t bytes);
void ag_ledger_unmap(struct ag_ledger *ledger, uint64_t address, uint64_t bytes);
/* Returns the totals of all events applied so far. Must be called before ag_ledger_close. */
void ag_ledger_now(const struct ag_ledger *ledger, uint64_t *ret_in_use_bytes,
                   uint64_t *ret_allocated_bytes);
/* Advances the end of the recording to TIME_NS, even if no event is that late. */
void ag_ledger_reach(struct ag_ledger *ledger, uint64_t time_ns);
/* Sets the time of the last reset of the reports, as the trace contains it. The reset event itself
 * may be applied before or after this call. */
void ag_ledger_reset_at(struct ag_ledger *ledger, uint64_t time_ns);
/* Starts a reader's time window: results count from here on, and the peak and the timeline are
 * those inside the time window. Blocks in use stay in use, and their deaths count. Called at most
 * once. Returns 0 or -ENOMEM, which all later calls return, too. */
int ag_ledger_restart(struct ag_ledger *ledger);

/* Ends a period of the recording: a part that has a peak of its own. Until the next event the stack
 * sums may be read. Their allocated and freed values count from the beginning of the recording; the
 * peak values are what the stack had in use at the peak of the period. The next period starts its
 * own peak. The summary's peak is that of the last period. Cannot be combined with
 * ag_ledger_restart. */
struct ag_ledger_period {
    uint64_t peak_bytes, peak_blocks, peak_time_ns;
};
void ag_ledger_end_period(struct ag_ledger *ledger, struct ag_ledger_period *ret_period);

/* Ends the ledger: all waiting events are applied (a free without a partner becomes a ghost), and
 * each stack's share of the peak is final. Then the results may be read. */
int ag_ledger_close(struct ag_ledger *ledger);
/* Four members of the result are 0, and the caller fills them in: unique_stacks, truncated_stacks,
 * incomplete_stacks and lost_stacks. time_resolution_ns: for 99 % of the events, the stamps before
 * and after the event are at most this far apart. */
const struct ag_summary *ag_ledger_summary(const struct ag_ledger *ledger);
/* Freed blocks whose frees were not recorded, noticed because their addresses were allocated
 * again. */
uint64_t ag_ledger_buried_blocks(const struct ag_ledger *ledger);
/* This function and those below return the number of rows, and set the last argument to the rows.
 * The ledger owns the rows. */
size_t ag_ledger_stack_sums(const struct ag_ledger *ledger, const struct ag_stack_sum **ret_sums);
struct ag_live_sum { /* what is in use at the end, including blocks from before the reader's time
                      * window */
    uint64_t blocks, bytes;
};
size_t ag_ledger_live_sums(const struct ag_ledger *ledger,
                           /* in the order of the stack sums */
                           const struct ag_live_sum **ret_sums);
size_t ag_ledger_timeline(const struct ag_ledger *ledger,
                          const struct ag_timeline_point **ret_points); /* at most 4096 */
size_t ag_ledger_thread_sums(const struct ag_ledger *ledger, const struct ag_thread_sum **ret_sums);
size_t ag_ledger_thread_pairs(const struct ag_ledger *ledger,
                              /* one row for each pair of threads of which one freed blocks of the
                               * other */
                              const struct ag_thread_pair **ret_pairs);
size_t ag_ledger_heap_sums(const struct ag_ledger *ledger, const struct ag_heap_sum **ret_sums);

/* For callers that need single blocks (the views blocks and lifetimes). The visit is called for
 * each death when the window of the free is over, because a failed realloc or a repair can undo the
 * free until then. ag_ledger_close calls the visit for each live block. freed_by UINT32_MAX: the
 * block is live, or its free was lost. */
struct ag_block {
    uint64_t address, size, allocated_ns, freed_ns; /* freed_ns UINT64_MAX: still live */
    uint32_t stack, allocated_by, freed_by;
    uint32_t free_stack;            /* 0: live, or unknown */
    uint32_t n_moves, n_promotions; /* how often a garbage collector moved and promoted the block */
    uint8_t via;
    /* in a sampled trace, what the block represents (model/pass/weights.h). The ledger sets NULL; a
     * visit that passes the block on to another visit may set the weight. */
    const struct ag_weight *weight;
};
typedef void ag_block_visit(void *context, const struct ag_block *block);
/* Calls VISIT for each block that is in use now, in no particular order. ADDRESS is as in an event
 * (see AG_EVENT_SPACE). May be called between events, and after ag_ledger_close. */
typedef void ag_live_visit(void *context, uint64_t address, uint8_t via);
void ag_ledger_visit_live(const struct ag_ledger *ledger, ag_live_visit *visit, void *context);
int ag_ledger_on_block(struct ag_ledger *ledger, ag_block_visit *visit,
                       void *context); /* before the first event */
/* Called for each ghost free, and for each free of an inherited block, when it is counted.
 * IS_TAKEN_BACK: the last free that was counted at this address is no longer counted, because its
 * block was found or its realloc failed (of GHOST, only `address` is set). */
struct ag_ghost {
    uint64_t address, time_ns;
    uint32_t stream, free_stack; /* stream and stack of the free; free_stack 0: unknown */
    bool is_inherited;
};
typedef void ag_ghost_visit(void *context, const struct ag_ghost *ghost, bool is_taken_back);
void ag_ledger_on_ghost(struct ag_ledger *ledger, ag_ghost_visit *visit,
                        void *context); /* before the first event */

/* For callers that need the history: each birth (allocation) and death (free) in the order in which
 * the ledger counts them. A repair or a failed realloc may undo a step while the window of the step
 * is open: the visit then gets the block again, as AG_STEP_BIRTH_UNDONE or AG_STEP_DEATH_UNDONE. If
 * the type of a live block becomes known, its birth is undone at that time, and the visit gets the
 * birth again, with the new stack. If a visit returns a negative errno, ag_ledger_apply ends and
 * returns that errno. */
enum ag_step_kind { AG_STEP_BIRTH, AG_STEP_DEATH, AG_STEP_BIRTH_UNDONE, AG_STEP_DEATH_UNDONE };
struct ag_step {
    enum ag_step_kind kind;
    uint64_t address, size, time_ns;
    uint64_t allocated_ns; /* when the block was allocated; equals time_ns in a birth */
    /* number of blocks that the block's thread had allocated, this block included */
    uint64_t serial;
    /* number of the block's sum, which is that of its stack and via: 0, 1, 2 ... in the order of
     * first allocations */
    uint32_t sum;
    uint32_t stack;
    uint32_t thread; /* number of the thread that allocated the block: 0, 1, 2 ... */
    uint8_t via;
    bool is_temporary; /* set only for a death */
};
typedef int ag_step_visit(void *context, const struct ag_step *step);
int ag_ledger_on_step(struct ag_ledger *ledger, ag_step_visit *visit,
                      void *context); /* before the first event */

#endif
