/* ledger.h: the live blocks of a process and what each stack did, from a stream of events.
 *
 * Used twice on the same events: by the writer as they come (its result is the index of the
 * trace) and by the model when a reader asks for a part of them (a time window, a thread, another
 * --within). So both agree by construction.
 *
 * Feed a single stream as it comes, several streams through merge.h. Exactness: everything, for one
 * stream. For several the number and bytes of allocations do not depend on the order between
 * threads. Where two threads raced for an address the order is put right by alternation: a second
 * alloc of a live address waits for the free that must be on its way; a free of an unknown address
 * waits for an alloc whose window overlaps, else it is a ghost. Repairs are counted. What that
 * cannot decide, and how often it matters, stands in order_repair.c and order_bounds.c.
 *
 * Threads: one ledger, one thread. Memory: 32 bytes a live block at a load of 1/4 to 3/4, about 200
 * bytes a stack. */
#ifndef AG_LEDGER_H
#define AG_LEDGER_H

#include <stdbool.h>

#include "format/decode.h"

struct ag_ledger;
struct ag_ledger *ag_ledger_new(void);
struct ag_ledger *ag_ledger_free(struct ag_ledger *ledger);

/* Applies events of one stream, in order; stamps among them set the time. Returns 0 or -ENOMEM
 * (sticky). */
int ag_ledger_apply(struct ag_ledger *ledger, uint32_t stream, const struct ag_event *events,
                    size_t count);
/* Several streams will be applied, window by window (ag_merge says it by itself): an event whose
 * partner is missing waits for it instead of being a ghost. Before the first event that could be
 * out of order. */
void ag_ledger_expect_streams(struct ag_ledger *ledger);
/* Are the tables beyond the caches? There the prefetching of ag_ledger_apply halves the time, else
 * it doubles it (measured on a core with 1 MiB of L2). */
bool ag_ledger_is_large(const struct ag_ledger *ledger);
void ag_ledger_set_temporary_within(struct ag_ledger *ledger, uint32_t within); /* default 0 */
void ag_ledger_thread(struct ag_ledger *ledger, uint32_t stream,
                      uint32_t thread_id); /* for the results */
void ag_ledger_via_heap(struct ag_ledger *ledger, uint32_t via,
                        uint32_t heap); /* which heap a via belongs to */
/* Counts from TIME_NS on, when events or ag_ledger_reach get there; in the order of their times. */
void ag_ledger_resident(struct ag_ledger *ledger, uint64_t time_ns, uint64_t rss_bytes);
void ag_ledger_map(struct ag_ledger *ledger, uint32_t heap, uint64_t address, uint64_t bytes);
void ag_ledger_unmap(struct ag_ledger *ledger, uint64_t address, uint64_t bytes);
/* As the events applied so far have it, before the end. */
void ag_ledger_now(const struct ag_ledger *ledger, uint64_t *ret_in_use_bytes,
                   uint64_t *ret_allocated_bytes);
/* The recording went on until TIME_NS, with or without events. */
void ag_ledger_reach(struct ag_ledger *ledger, uint64_t time_ns);
/* The last reset, told already or soon, stands in the trace with this time. */
void ag_ledger_reset_at(struct ag_ledger *ledger, uint64_t time_ns);
/* A reader's time window begins: results count from here on, the peak and the timeline are those
 * inside of it. What is in use stays in use, and its deaths count. At most once. 0 or -ENOMEM
 * (sticky). */
int ag_ledger_restart(struct ag_ledger *ledger);

/* A period of the recording ends here. Until the next event the stack sums may be read: what
 * happened since the beginning; in_use is the difference; peak is the share of the highest moment
 * since the period before, which is looked for anew from here on. The summary's peak is that of the
 * last period then. Not together with ag_ledger_restart. */
struct ag_ledger_period {
    uint64_t peak_bytes, peak_blocks, peak_time_ns;
};
void ag_ledger_end_period(struct ag_ledger *ledger, struct ag_ledger_period *ret_period);

/* Ends the books: pending frees become ghosts, shares at the peak are settled. Then the results may
 * be read. */
int ag_ledger_close(struct ag_ledger *ledger);
/* unique_stacks, truncated_stacks and incomplete_stacks are the caller's to fill in.
 * time_resolution_ns: 99 % of the events stand between two stamps of their stream that are no
 * further apart. */
const struct ag_summary *ag_ledger_summary(const struct ag_ledger *ledger);
size_t ag_ledger_stack_sums(const struct ag_ledger *ledger, const struct ag_stack_sum **ret_sums);
struct ag_live_sum { /* in use at the end; allocated - freed, but in a time window */
    uint64_t blocks, bytes;
};
size_t ag_ledger_live_sums(const struct ag_ledger *ledger,
                           const struct ag_live_sum **ret_sums); /* beside the stack sums */
size_t ag_ledger_timeline(const struct ag_ledger *ledger,
                          const struct ag_timeline_point **ret_points); /* <= 4096 */
size_t ag_ledger_thread_sums(const struct ag_ledger *ledger, const struct ag_thread_sum **ret_sums);
size_t ag_ledger_thread_pairs(const struct ag_ledger *ledger,
                              const struct ag_thread_pair **ret_pairs); /* two threads */
size_t ag_ledger_heap_sums(const struct ag_ledger *ledger, const struct ag_heap_sum **ret_sums);

/* Where a caller wants more than sums (blocks, lifetimes): called for each death when its window is
 * over (until then a failed realloc can take it back), and in close for each open block. freed_by
 * UINT32_MAX: its free was lost. */
struct ag_block {
    uint64_t address, size, allocated_ns, freed_ns; /* freed_ns UINT64_MAX: open */
    uint32_t stack, allocated_by, freed_by;
    uint32_t free_stack;            /* 0: open, or not known */
    uint32_t n_moves, n_promotions; /* how often a collector did that to it */
    uint8_t via;
    const struct ag_weight *weight; /* the ledger has none: who passes a visit on may fill it in */
};
typedef void ag_block_visit(void *context, const struct ag_block *block);
int ag_ledger_on_block(struct ag_ledger *ledger, ag_block_visit *visit,
                       void *context); /* before the first event */
/* Each ghost free when it is counted; IS_TAKEN_BACK: the last one of that address was none after
 * all (the rest of GHOST is empty). */
struct ag_ghost {
    uint64_t address, time_ns;
    uint32_t stream, free_stack; /* who freed; 0: not known */
};
typedef void ag_ghost_visit(void *context, const struct ag_ghost *ghost, bool is_taken_back);
void ag_ledger_on_ghost(struct ag_ledger *ledger, ag_ghost_visit *visit,
                        void *context); /* before the first event */

/* Where a caller wants the history itself: each birth and death in the order of the books. A repair
 * takes steps back while their window is open: the same block is told again as undone. A visit that
 * returns a negative errno ends the pass with it. */
enum ag_step_kind { AG_STEP_BIRTH, AG_STEP_DEATH, AG_STEP_BIRTH_UNDONE, AG_STEP_DEATH_UNDONE };
struct ag_step {
    enum ag_step_kind kind;
    uint64_t address, size, time_ns;
    uint64_t allocated_ns; /* of the block; a birth: time_ns */
    uint64_t serial;       /* how many blocks its thread had allocated, this one included */
    uint32_t sum;          /* (stack, via) by number, 0, 1, 2 ... as they first allocate */
    uint32_t stack;
    uint32_t thread; /* that allocated it, by number, 0, 1, 2 ... */
    uint8_t via;
    bool is_temporary; /* a death */
};
typedef int ag_step_visit(void *context, const struct ag_step *step);
int ag_ledger_on_step(struct ag_ledger *ledger, ag_step_visit *visit,
                      void *context); /* before the first event */

#endif
