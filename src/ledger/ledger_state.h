/* ledger_state.h: the fields of a ledger (ledger.h). Internal to the files of the ledger. A stream
 * is the events of one thread, cut into windows by its stamps (clock values). A via is an
 * allocation function. A ghost is the free of an unknown block. A reader's time window is the range
 * of time to which a report is limited. Two events at one address are partners if one of them must
 * come directly before the other (an alloc and its free, or a free and the next alloc).
 *
 *     apply.c          the hot loop: one event after the other
 *     order_repair.c   the few events that wait for their partner
 *     open_deaths.c    deaths of open windows by their address, for order_repair.c
 *     address_lists.c  lists of items with the same address, for order_repair.c and open_deaths.c
 *     collected.c      what a garbage collector does to blocks: they move, are promoted, get a type
 *     ledger.c         life cycle, windows and their deaths, ghosts, pairs of threads, visitors,
 *                      memory maps, resident sizes, and the results */
#ifndef AG_LEDGER_STATE_H
#define AG_LEDGER_STATE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "ledger/address_lists.h"
#include "ledger/ledger.h"
#include "ledger/live_table.h"
#include "ledger/mapped_ranges.h"
#include "ledger/order_bounds.h"
#include "ledger/sum_index.h"
#include "ledger/timeline.h"
#include "table/array.h"
#include "table/index_map.h"

enum { AG_VIAS = 256 };

struct ag_sum { /* counts of one stack and allocation function, in one cache line */
    AG_CACHE_ALIGNED uint64_t allocated_blocks;
    uint64_t allocated_bytes, freed_blocks, freed_bytes; /* live = allocated - freed */
    /* the sum's share of the last peak that the total has left: live blocks and bytes; valid if
     * peak_version equals that of the tally (apply_fast.h) */
    uint64_t peak_blocks, peak_bytes;
    uint64_t temporary_blocks;
    uint64_t peak_version;
};
_Static_assert(sizeof(struct ag_sum) == AG_CACHE_LINE, "a sum has one cache line");
struct ag_sum_base { /* the values of a sum when the reader's time window began */
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, temporary_blocks;
};

struct ag_death { /* enough data to undo a free */
    struct ag_live_block block;
    struct ag_live_past past;
    uint64_t freed_ns;
    uint64_t number;     /* deaths are numbered in the order in which they were applied */
    uint32_t free_stack; /* 0: unknown */
    bool is_temporary;
};

struct ag_stream {
    uint32_t number, thread_id;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
    uint64_t window_ns; /* time of the stamp before the stream's newest events */
    /* allocated_blocks and freed_blocks when the window began */
    uint64_t window_serial, window_freed;
    bool has_window;
    /* deaths in the stream's open window, if ledger.deaths_are_kept; with rising numbers; an undone
     * death has the address 0 */
    struct ag_death *deaths;
    uint32_t n_deaths;
    size_t death_capacity, entry_capacity;
    /* entries of deaths [0, n_indexed) in the index of open_deaths.c */
    uint32_t *death_entries;
    uint32_t n_indexed;
    bool is_listed;                       /* whether the stream is in open_deaths.unindexed */
    uint32_t first_waiting, last_waiting; /* order_repair.c: waiting events of the window */
    uint32_t pair_with, pair;             /* cache of the pair of threads used last: index of the
                                           * allocating stream, and index in ledger.pairs */
    struct ag_thread_sum base;            /* values at the start of the reader's time window */
    /* the last realloc_free (free of a realloc); an undo_free undoes it if the realloc failed */
    struct ag_death undo;
    uint64_t undo_serial; /* allocated_blocks when `undo` was applied */
    enum { AG_UNDO_NONE, AG_UNDO_DEATH, AG_UNDO_GHOST } undo_kind;
    /* address where the stream's last realloc_free waits or waited; 0: none */
    uint64_t realloc_waits_at;
};

/* For order_repair.c: an event that waits for its partner. Items refer to each other by their
 * indexes in the arrays of ag_repair; index 0 means none. */
struct ag_waiting {
    /* serial: number of blocks that the stream had allocated (for an alloc: with this block).
     * deadline_ns: end of the event's window; 0: the window is still open */
    uint64_t address, size, time_ns, serial, deadline_ns;
    /* position in the queue of an address: an event that is added at the end gets the highest
     * number so far, an event that is added in front gets the lowest */
    int64_t order;
    uint32_t stream, sum;
    /* index of the event's line (struct ag_waiting_line) */
    uint32_t line;
    uint32_t before, behind; /* the previous and the next event in the line */
    /* the next item of the list that contains this item: the events of a stream's open window, the
     * events whose windows have ended, or the free items */
    uint32_t next_of_expiry;
    uint32_t free_stack; /* if the event is a free: its stack; 0: unknown */
    /* AG_RECORD_ALLOC, FREE, REALLOC_FREE or COLLECT; 0: the event was applied or canceled, and its
     * item can be reused */
    uint8_t kind;
    uint8_t n_passed_on; /* An event may displace another event at its address, which may displace a
                          * third event. This is the number of displaced events in the chain that
                          * ends with this event. */
};
struct ag_waiting_line { /* the events of one stream that wait at one address */
    uint64_t address;
    uint32_t stream;
    uint32_t first, last, count; /* indexes into the pool */
};
/* A free that found no block; or a buried block, which is a block whose address was allocated again
 * without a free. */
struct ag_odd {
    bool is_free;
    uint32_t stream; /* stream of the free, or of the allocation of the buried block */
    uint32_t next;   /* 1 + index in ag_repair.odd of the next older item at the address; 0: none */
    uint64_t bytes;  /* of the buried block */
};
struct ag_repair {
    struct ag_waiting *pool; /* [0] is unused; free items are linked by next_of_expiry */
    size_t pool_capacity;
    uint32_t n_pool, first_free;
    struct ag_waiting_line *lines; /* by number in line_lists */
    size_t line_capacity;
    struct ag_address_lists line_lists;
    struct ag_index_map line_index;  /* hash of address and stream -> line */
    int64_t first_order, last_order; /* the lowest and highest ag_waiting.order so far */
    /* n_taken: pool items in use, including those of events that were applied or canceled */
    size_t n_waiting, n_taken;
    /* list of the events whose window has ended, in rising order of deadline_ns, the end of the
     * window */
    uint32_t first_expiry, last_expiry;
    struct ag_index_map odd_index; /* address -> index in odd_newest */
    /* For each address, 1 + the index in `odd` of the newest item without a partner; 0: none. The
     * items of one address are all frees or all buried blocks. */
    uint32_t *odd_newest;
    struct ag_odd *odd;
    size_t n_odd_newest, n_odd;
    uint64_t repairs;
    uint64_t buried; /* blocks whose address was allocated again while they were in use */
};

/* For open_deaths.c: a death in the open window of the stream that freed the block. */
struct ag_open_death {
    uint64_t number;
    uint32_t freed_by, allocated_by; /* indexes of streams */
};
struct ag_open_deaths {
    struct ag_open_death *entries; /* by number in `lists` */
    size_t entry_capacity;
    struct ag_address_lists lists; /* lists of deaths, in the order in which they were indexed */
    uint32_t *unindexed;           /* streams that may have deaths that are not indexed */
    size_t n_unindexed;
};

struct ag_tally { /* the running totals; apply.c keeps a copy in registers */
    uint64_t in_use_blocks, in_use_bytes, allocated_bytes;
    uint64_t peak_bytes, peak_time_ns;
    uint64_t peak_version; /* incremented when the bytes in use leave their highest value */
    uint64_t now_ns;       /* time of the stamp before the event */
    bool at_peak;          /* the bytes in use are at their highest value */
    /* net: by how much the events of the applied stream have changed the bytes in use since the
     * window began; rise (>= 0) and dip (<= 0): the highest and the lowest value of net */
    int64_t net, rise, dip;
};

struct ag_ledger {
    struct ag_live_table live;
    struct ag_sum *sums;
    /* stack and via are set when a sum is created, the other fields in ag_ledger_close and
     * ag_ledger_end_period */
    struct ag_stack_sum *results;
    size_t n_sums, sum_capacity;
    struct ag_sum_index sum_index;
    struct ag_tally tally;
    /* a block is temporary if its thread frees it after at most this many further allocations */
    uint64_t within;

    struct ag_stream *streams;
    size_t n_streams;
    struct ag_index_map stream_index;
    /* index of the stream whose events are being applied, AG_INDEX_NONE otherwise */
    uint32_t applying;
    bool is_at_start; /* no window of the batch of events has begun yet */

    bool is_concurrent;   /* there are several streams, so partners may come in the wrong order */
    bool deaths_are_kept; /* set if is_concurrent is set, or if there is a block visitor */
    uint64_t n_deaths;
    struct ag_repair repair;
    struct ag_open_deaths open_deaths;
    struct ag_order_bounds bounds;
    /* bytes that late events (events that waited for their partner; order_bounds.c, section 5)
     * added and removed; passed to `bounds` after the window */
    int64_t late_plus, late_minus;

    uint64_t now_ns; /* newest stamp of all streams */
    /* stored when the bytes in use leave their highest value */
    uint64_t peak_blocks, peak_allocated_bytes, peak_rss_bytes;
    uint64_t rss_bytes, rss_peak_bytes;
    /* resident sizes that were measured after now_ns, and so are not in `timeline` yet */
    struct ag_residents residents;
    uint64_t events, ghost_frees, inherited_frees;
    /* Only in a forked process: the addresses of the frees that found no block (unseen_index), and
     * for each address the number of these frees (unseen_frees). The first free at an address is
     * that of an inherited block, the others are ghosts. The memory is in proportion to the number
     * of inherited blocks that the process frees. */
    bool expects_inherited;
    struct ag_index_map unseen_index;
    uint32_t *unseen_frees;
    uint64_t reset_ns; /* time of the last RESET event that was applied; 0: none */
    /* time of the last reset as the trace contains it (ag_ledger_reset_at), used instead of
     * reset_ns; 0: not set */
    uint64_t written_reset_ns;
    struct ag_timeline timeline;
    /* number of events in windows of [2^i, 2^(i+1)) ns, and the length of the longest such
     * window */
    uint64_t windows[64], window_longest_ns[64];

    struct ag_thread_pair *pairs;
    size_t n_pairs;
    /* (index of the allocating stream) << 32 | (index of the freeing stream) */
    struct ag_index_map pair_index;

    uint32_t via_heap[AG_VIAS];
    struct ag_mapped_ranges mapped;
    /* how many blocks garbage collectors moved, promoted and freed; index: heap number */
    struct ag_heap_collected {
        uint64_t moved, promoted, collected;
    } collected[AG_VIAS],
        collected_before[AG_VIAS]; /* _before: at the start of the reader's time window */

    /* values at the start of the reader's time window; NULL: there is no time window */
    struct ag_sum_base *sum_bases;
    size_t n_sum_bases;
    uint64_t base_buried_blocks; /* repair.buried when the reader's time window began */
    /* results are differences from these values; zero without a time window */
    struct ag_summary base;

    ag_block_visit *visit;
    void *visit_context;
    ag_ghost_visit *visit_ghost;
    void *ghost_context;
    ag_step_visit *step_visit;
    void *step_context;

    struct ag_summary summary;
    struct ag_live_sum *live_results;
    struct ag_thread_sum *thread_results;
    size_t n_thread_results;
    struct ag_heap_sum *heap_results;
    size_t n_heap_results;
    int error; /* sticky: the result of all later calls */
};

/* ---- ledger.c ---- */
/* Finds or adds a stream; AG_INDEX_NONE: no memory. */
uint32_t ag_ledger_stream(struct ag_ledger *ledger, uint32_t number);
uint32_t ag_ledger_sum_slow(struct ag_ledger *ledger, uint32_t stack,
                            uint8_t via); /* adds a sum; AG_INDEX_NONE: no memory */
AG_FAST uint32_t ag_ledger_sum(struct ag_ledger *ledger, uint32_t stack, uint8_t via) {
    const uint32_t sum = ag_sum_index_find(&ledger->sum_index, stack, via);
    return AG_LIKELY(sum != AG_INDEX_NONE) ? sum : ag_ledger_sum_slow(ledger, stack, via);
}
int ag_ledger_begin_window(struct ag_ledger *ledger, uint32_t stream, uint64_t time_ns);
/* Passes to ledger.bounds, as one window, the net, rise and dip since the last call of this
 * function. */
void ag_ledger_flush_window(struct ag_ledger *ledger, uint32_t stream);
void ag_ledger_visit_death(const struct ag_ledger *ledger, const struct ag_death *death,
                           uint32_t freed_by); /* only if ledger.visit is set */
/* Makes room for one more death of the window: the list grows. If the list is very long, its deaths
 * are reported to the visitor and dropped instead. */
int ag_ledger_grow_deaths(struct ag_ledger *ledger, struct ag_stream *stream);
int ag_ledger_keep_death(struct ag_ledger *ledger, struct ag_stream *stream,
                         const struct ag_death *death);
int ag_ledger_count_pair(struct ag_ledger *ledger, uint32_t allocated_by, uint32_t freed_by,
                         uint64_t bytes);
void ag_ledger_uncount_pair(struct ag_ledger *ledger, uint32_t allocated_by, uint32_t freed_by,
                            uint64_t bytes);

/* ag_ledger_count_ghost counts a free that found no block: as a ghost, or as the free of an
 * inherited block. ag_ledger_uncount_ghost takes back the last such count at ADDRESS. */
void ag_ledger_count_ghost(struct ag_ledger *ledger, const struct ag_ghost *ghost);
void ag_ledger_uncount_ghost(struct ag_ledger *ledger, uint64_t address);

/* ---- collected.c ---- */
/* Applies a MOVE, PROMOTE or BLOCK_TYPE event. Returns 0 or a negative errno. */
int ag_ledger_collected(struct ag_ledger *ledger, const struct ag_event *event);
/* Called when a live block dies: counts the death for its heap if KIND is COLLECT. */
AG_FAST void ag_ledger_count_collected(struct ag_ledger *ledger, uint8_t kind, uint64_t address) {
    ledger->collected[AG_EVENT_SPACE(address) % AG_VIAS].collected += kind == AG_RECORD_COLLECT;
}

/* ---- open_deaths.c ---- */
void ag_open_deaths_done(struct ag_open_deaths *open);
/* Lists STREAM if it has new deaths, so that the next search indexes them. 0 or -ENOMEM. */
int ag_ledger_list_deaths(struct ag_ledger *ledger, uint32_t stream);
/* Removes stream->deaths[AT] from the index. */
void ag_ledger_forget_death(struct ag_ledger *ledger, struct ag_stream *stream, uint32_t at);
/* Finds the death with this number in the stream's window; NULL: the window has no such death. */
struct ag_death *ag_ledger_find_death(const struct ag_stream *stream, uint64_t number);
/* Finds the oldest death at ADDRESS in the open window of another stream than STREAM, preferably of
 * a block that STREAM did not allocate, because two threads that pass blocks back and forth free
 * each other's blocks. *ret_death is NULL if there is no such death. Returns 0 or -ENOMEM. */
int ag_ledger_first_open_death(struct ag_ledger *ledger, uint64_t address, uint32_t stream,
                               const struct ag_death **ret_death, uint32_t *ret_freed_by);
/* Finds the newest death at ADDRESS in the open window of another stream than STREAM. */
int ag_ledger_last_open_death(struct ag_ledger *ledger, uint64_t address, uint32_t stream,
                              const struct ag_death **ret_death, uint32_t *ret_freed_by);

/* ---- single steps, for a visitor (ledger.c) ---- */
int ag_ledger_notify_step(struct ag_ledger *ledger, enum ag_step_kind kind,
                          const struct ag_live_block *block, uint64_t time_ns,
                          uint64_t allocated_ns, bool is_temporary);

/* ---- single steps, for the slow paths (apply.c) ---- */
/* Adds a block to the totals and the live table; its address must be dead (without a block). */
int ag_ledger_birth(struct ag_ledger *ledger, const struct ag_live_block *block, uint64_t time_ns);
struct ag_freeing {  /* a free: stream, time and stack */
    uint64_t serial; /* number of blocks that the stream had allocated before the free */
    uint64_t time_ns;
    uint32_t stream;     /* index of the freeing stream; AG_INDEX_NONE: unknown */
    uint32_t free_stack; /* 0: unknown */
};
/* Ends the live block in slot AT. */
int ag_ledger_death(struct ag_ledger *ledger, uint64_t at, const struct ag_freeing *freeing,
                    struct ag_death *ret_death);
/* Ends the block in slot AT, whose free was lost: another block is allocated at its address. */
int ag_ledger_bury(struct ag_ledger *ledger, uint64_t at);
/* Undoes a death: the block lives on. Its address must be dead. */
int ag_ledger_restore(struct ag_ledger *ledger, const struct ag_death *death, uint32_t freed_by);

void ag_ledger_unbirth(struct ag_ledger *ledger,
                       uint64_t at); /* undoes the birth of the block in slot AT */
/* Adds a block to the live table without counting the block in any sum. */
int ag_ledger_put_back(struct ag_ledger *ledger, const struct ag_live_block *block,
                       struct ag_live_past past);

/* ---- order_repair.c ---- */
void ag_repair_done(struct ag_repair *repair);
/* Handles an event whose address has waiting events, or which does not fit the state of its address
 * (an alloc at a live block, or a free without a live block). Applies the waiting events that
 * fit. */
int ag_ledger_defer(struct ag_ledger *ledger, uint32_t stream, const struct ag_event *event);
/* If the realloc_free of ADDRESS that STREAM has just undone still waits, removes it and returns
 * true. */
bool ag_ledger_cancel_waiting(struct ag_ledger *ledger, uint32_t stream, uint64_t address);
/* Was the live block in SLOT born in the open window of another stream than STREAM? Then its birth
 * may be moved to a later time. */
bool ag_ledger_can_give_way(const struct ag_ledger *ledger, uint64_t slot, uint32_t stream);
/* Undoes the birth of the block in SLOT, and lets its alloc wait. N_PASSED_ON: how often the event
 * that displaces the alloc has itself been displaced. */
int ag_ledger_give_way(struct ag_ledger *ledger, uint64_t slot, uint8_t n_passed_on);
bool ag_ledger_is_waiting(const struct ag_ledger *ledger, uint64_t address);
/* Applies the events that wait at ADDRESS and fit now. */
int ag_ledger_drain(struct ag_ledger *ledger, uint64_t address);
/* Moves the waiting events of STREAM, whose window has ended at DEADLINE_NS, to the list of the
 * events whose windows have ended. */
void ag_ledger_end_waiting(struct ag_ledger *ledger, struct ag_stream *stream,
                           uint64_t deadline_ns);
/* Forces the waiting events whose windows ended before NOW_NS (order_repair.c, section 4).
 * UINT64_MAX: all events whose windows have ended. Returns 0 or a negative errno. */
int ag_ledger_expire(struct ag_ledger *ledger, uint64_t now_ns);
/* Called when a reader's time window begins. The sums of the threads counted a waiting alloc when
 * it arrived, before the time window; the totals count it when it is applied, inside the time
 * window. So this function moves the waiting allocs into the time window for the sums of the
 * threads, too. It also sets the time of each waiting event to the beginning of the time window. */
void ag_ledger_take_waiting_along(struct ag_ledger *ledger);

#endif
