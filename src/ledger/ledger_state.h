/* ledger_state.h: what a ledger holds; shared by the files of the ledger and by nobody else.
 *
 *     apply.c          the hot loop: one event after the other
 *     order_repair.c   the few events whose partner has not come yet
 *     open_deaths.c    deaths of open windows by their address, for order_repair.c
 *     collected.c      what a collector does to blocks: they move, are promoted, get a type
 *     ledger.c         life cycle, rare records, and the results */
#ifndef AG_LEDGER_STATE_H
#define AG_LEDGER_STATE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "ledger/index_map.h"
#include "ledger/ledger.h"
#include "ledger/live_table.h"
#include "ledger/mapped_ranges.h"
#include "ledger/order_bounds.h"
#include "ledger/residents.h"
#include "ledger/sum_index.h"
#include "ledger/timeline.h"

enum { AG_VIAS = 256 };

struct ag_sum { /* what one (stack, via) did; one cache line, written at each of its events */
    AG_CACHE_ALIGNED uint64_t allocated_blocks;
    uint64_t allocated_bytes, freed_blocks, freed_bytes; /* live = allocated - freed */
    uint64_t peak_blocks, peak_bytes; /* live at the peak numbered peak_version */
    uint64_t temporary_blocks;
    uint64_t peak_version;
};
_Static_assert(sizeof(struct ag_sum) == AG_CACHE_LINE, "one cache line a sum");
struct ag_sum_base { /* what a sum held when the reader's time window began */
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, temporary_blocks;
};

struct ag_death { /* enough to take a free back */
    struct ag_live_block block;
    struct ag_live_past past;
    uint64_t freed_ns;
    uint64_t number;     /* deaths are numbered in the order in which they were applied */
    uint32_t free_stack; /* 0: not known */
    bool is_temporary;
};

struct ag_stream {
    uint32_t number, thread_id;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
    uint64_t window_ns; /* the stamp before its newest events */
    uint64_t window_serial,
        window_freed; /* allocated_blocks and freed_blocks when the window began */
    bool has_window;
    struct ag_death
        *deaths; /* of the window, kept where they may be asked for: see ledger.deaths_are_kept;
                    rising numbers; block.address 0: it was taken back */
    uint32_t n_deaths, death_capacity;
    /* open_deaths.c: deaths [0, n_indexed) are in its index, under these entries */
    uint32_t *death_entries;
    uint32_t n_indexed, entry_capacity;
    bool is_listed;                       /* in open_deaths.unindexed */
    uint32_t first_waiting, last_waiting; /* order_repair.c: waiting events of the window */
    uint32_t pair_with, pair;             /* the last pair used, a cache of the look-up */
    struct ag_thread_sum base;            /* what the reader's time window counts from */
    struct ag_death undo;                 /* the last realloc_free, for undo_free */
    uint64_t undo_serial;                 /* allocated_blocks at that time */
    enum { AG_UNDO_NONE, AG_UNDO_DEATH, AG_UNDO_GHOST } undo_kind;
    uint64_t
        realloc_waits_at; /* where its last realloc_free waits, or has waited; 0: it did not wait */
};

/* order_repair.c. Indexes into its arrays; 0 is never used and means none. */
struct ag_waiting {
    uint64_t address, size, time_ns, serial, deadline_ns;
    int64_t order; /* among those of its address: what came first has less */
    uint32_t stream, sum;
    uint32_t line;           /* what waits of its stream at its address */
    uint32_t before, behind; /* in that line */
    uint32_t next_of_expiry;
    uint32_t free_stack; /* of a free; 0: not known */
    uint8_t kind;        /* AG_RECORD_ALLOC, FREE, REALLOC_FREE; 0: settled, waits to be recycled */
    uint8_t n_passed_on; /* how often an event that ran out of time took the place of another */
};
struct ag_waiting_line { /* what waits of one stream at one address */
    uint64_t address;
    uint32_t stream, place;
    uint32_t first, last, count; /* of the pool */
    uint32_t before, behind;     /* lines of the same address */
    uint32_t next_of_bucket;
};
struct ag_waiting_place { /* an address where something waits */
    uint64_t address;
    uint32_t first, last; /* lines */
    uint32_t next_of_bucket;
};
/* A free that found no block, or a block that was buried without a free. */
struct ag_odd {
    bool is_free;
    uint32_t stream, next; /* of who freed; of who allocated the buried block */
    uint64_t bytes;        /* of the buried block */
};
struct ag_repair {
    /* All with room for `capacity`, a power of two. What is free is linked by next_of_expiry and
     * next_of_bucket. */
    struct ag_waiting *pool;
    struct ag_waiting_line *lines;
    struct ag_waiting_place *places;
    uint32_t *line_buckets, *place_buckets; /* by (address, stream) and by address */
    uint32_t capacity;
    uint32_t n_pool, n_lines, n_places;
    uint32_t first_free, first_free_line, first_free_place;
    int64_t first_order, last_order; /* given so far */
    size_t n_waiting, n_taken;       /* n_taken: of the pool, those that wait to be recycled too */
    uint32_t first_expiry, last_expiry; /* those whose window has ended, rising deadlines */
    struct ag_index_map odd_index;      /* address -> odd_newest */
    uint32_t *odd_newest; /* index in odd of what found no partner there last, 0: none; all of one
                             address are frees, or all are burials */
    struct ag_odd *odd;   /* [0] is unused */
    size_t n_odd_newest, odd_newest_capacity, n_odd, odd_capacity;
    uint64_t repairs;
    uint64_t buried; /* blocks whose address was allocated again while they were in use */
};

/* open_deaths.c */
struct ag_open_death {
    uint64_t address, number;
    uint32_t freed_by, allocated_by; /* indexes of streams */
    uint32_t older, newer;           /* of the same address, as they came into the index; 0: none */
    uint32_t place;
};
struct ag_death_place {
    uint64_t address;
    uint32_t oldest, newest;
    uint32_t next_of_bucket;
};
struct ag_open_deaths {
    /* Both with room for `capacity`, a power of two; index 0 is never used. What is free is linked
     * by `older` and next_of_bucket. */
    struct ag_open_death *entries;
    struct ag_death_place *places;
    uint32_t *buckets; /* of places, by address */
    uint32_t capacity, n_entries, n_places, first_free, first_free_place;
    uint32_t *unindexed; /* streams that may have deaths which are not in the index */
    size_t n_unindexed, unindexed_capacity;
};

struct ag_tally { /* the running totals; apply.c keeps a copy in registers */
    uint64_t in_use_blocks, in_use_bytes, allocated_bytes;
    uint64_t peak_bytes, peak_time_ns;
    uint64_t peak_version; /* bumped when the total leaves its highest moment */
    uint64_t now_ns;       /* the stamp before the event */
    bool at_peak;          /* the total stands at its highest moment: nothing has happened since */
    int64_t net, rise,
        dip; /* of the bytes in use by the stream's own events, since the window began */
};

struct ag_ledger {
    struct ag_live_table live;
    struct ag_sum *sums;
    struct ag_stack_sum *results; /* stack and via are set from the beginning, the rest in close */
    size_t n_sums, sum_capacity;
    struct ag_sum_index sum_index;
    struct ag_tally tally;
    uint64_t within;

    struct ag_stream *streams;
    size_t n_streams, stream_capacity;
    struct ag_index_map stream_index;
    uint32_t applying; /* index of the stream whose events are applied, AG_INDEX_NONE between */
    bool is_at_start;  /* of a batch: no window of it has begun yet */

    bool is_concurrent;   /* several streams: partners may come in the wrong order */
    bool deaths_are_kept; /* is_concurrent, or somebody visits blocks */
    uint64_t n_deaths;
    struct ag_repair repair;
    struct ag_open_deaths open_deaths;
    struct ag_order_bounds bounds;
    int64_t late_plus, late_minus; /* late events of the stream that is being applied: told to
                                      bounds after its window */

    uint64_t now_ns; /* newest stamp of all */
    uint64_t peak_blocks, peak_allocated_bytes,
        peak_rss_bytes; /* taken when the total leaves its highest moment */
    uint64_t rss_bytes, rss_peak_bytes;
    struct ag_residents residents; /* from after now_ns */
    uint64_t events, ghost_frees;
    uint64_t reset_ns;         /* of the program's last reset, 0: none */
    uint64_t written_reset_ns; /* the same as the trace has it, where that is another; else 0 */
    struct ag_timeline timeline;
    uint64_t windows[64], window_longest_ns[64]; /* events in windows of [2^i, 2^(i+1)) ns, and the
                                                    longest of those */

    struct ag_thread_pair *pairs;
    size_t n_pairs, pair_capacity;
    struct ag_index_map pair_index; /* index of the allocating stream << 32 | of the freeing one */

    uint32_t via_heap[AG_VIAS];
    struct ag_mapped_ranges mapped;
    struct ag_heap_collected { /* what collectors did, by the heap's space */
        uint64_t moved, promoted, collected;
    } collected[AG_VIAS], collected_before[AG_VIAS]; /* _before: the reader's time window */

    struct ag_sum_base
        *sum_bases; /* where the reader's time window began inside the trace, else NULL */
    size_t n_sum_bases;
    struct ag_summary base; /* what the results are counted from; zero but in a time window */

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
    int error; /* sticky */
};

/* ---- ledger.c ---- */
void *ag_ledger_grown(void *items, size_t *capacity, size_t count,
                      size_t item_bytes); /* room for one more, or NULL */
uint32_t ag_ledger_stream_slow(struct ag_ledger *ledger, uint32_t number); /* adds a stream */
uint32_t ag_ledger_sum_slow(struct ag_ledger *ledger, uint32_t stack,
                            uint8_t via); /* adds a sum; AG_INDEX_NONE: no memory */
AG_FAST uint32_t ag_ledger_sum(struct ag_ledger *ledger, uint32_t stack, uint8_t via) {
    const uint32_t sum = ag_sum_index_find(&ledger->sum_index, stack, via);
    return AG_LIKELY(sum != AG_INDEX_NONE) ? sum : ag_ledger_sum_slow(ledger, stack, via);
}
int ag_ledger_begin_window(struct ag_ledger *ledger, uint32_t stream, uint64_t time_ns);
/* The window's events so far are complete: tells the bounds, and starts to collect the next. */
void ag_ledger_flush_window(struct ag_ledger *ledger, uint32_t stream);
void ag_ledger_visit_death(const struct ag_ledger *ledger, const struct ag_death *death,
                           uint32_t freed_by); /* only where ledger.visit is set */
void ag_ledger_flush_deaths(struct ag_ledger *ledger, struct ag_stream *stream);
/* Room for one more death of the window: the list grows, or is flushed when it is very long. */
int ag_ledger_grow_deaths(struct ag_ledger *ledger, struct ag_stream *stream);
int ag_ledger_keep_death(struct ag_ledger *ledger, struct ag_stream *stream,
                         const struct ag_death *death);
int ag_ledger_count_pair(struct ag_ledger *ledger, uint32_t allocated_by, uint32_t freed_by,
                         uint64_t bytes);
void ag_ledger_uncount_pair(struct ag_ledger *ledger, uint32_t allocated_by, uint32_t freed_by,
                            uint64_t bytes);

/* One ghost free more; or one less, where the last one at ADDRESS was none after all. */
void ag_ledger_count_ghost(struct ag_ledger *ledger, const struct ag_ghost *ghost);
void ag_ledger_uncount_ghost(struct ag_ledger *ledger, uint64_t address);

/* ---- collected.c ---- */
/* A MOVE, PROMOTE or BLOCK_TYPE. 0 or -ENOMEM. */
int ag_ledger_collected(struct ag_ledger *ledger, const struct ag_event *event);
/* A living block dies: of a COLLECT it is counted who found it dead. */
AG_FAST void ag_ledger_count_collected(struct ag_ledger *ledger, uint8_t kind, uint64_t address) {
    ledger->collected[AG_EVENT_SPACE(address) % AG_VIAS].collected += kind == AG_RECORD_COLLECT;
}

/* ---- open_deaths.c ---- */
void ag_open_deaths_done(struct ag_open_deaths *open);
/* STREAM may have a new death: it is indexed when somebody asks. 0 or -ENOMEM. */
int ag_ledger_list_deaths(struct ag_ledger *ledger, uint32_t stream);
/* The death in place AT of the stream's list is taken off the index. */
void ag_ledger_forget_death(struct ag_ledger *ledger, struct ag_stream *stream, uint32_t at);
/* The death of this number in the stream's window; NULL: it is not there. */
struct ag_death *ag_ledger_find_death(const struct ag_stream *stream, uint64_t number);
/* The oldest death at ADDRESS in the open window of another stream than STREAM; of a block that is
 * not STREAM's, if there is such a one: who frees and allocates in turn with another thread frees
 * the other's blocks. *ret_death is NULL where there is none. 0 or -ENOMEM. */
int ag_ledger_first_open_death(struct ag_ledger *ledger, uint64_t address, uint32_t stream,
                               const struct ag_death **ret_death, uint32_t *ret_freed_by);
/* The newest death at ADDRESS in the open window of another stream. */
int ag_ledger_last_open_death(struct ag_ledger *ledger, uint64_t address, uint32_t stream,
                              const struct ag_death **ret_death, uint32_t *ret_freed_by);

/* ---- steps.c ---- */
int ag_ledger_notify_step(struct ag_ledger *ledger, enum ag_step_kind kind,
                          const struct ag_live_block *block, uint64_t time_ns,
                          uint64_t allocated_ns, bool is_temporary);

/* ---- single steps, the way the slow paths take them (apply.c) ---- */
/* Puts a block into the books and the live table; its address must be dead. */
int ag_ledger_birth(struct ag_ledger *ledger, const struct ag_live_block *block, uint64_t time_ns);
struct ag_freeing {  /* who frees, when and where */
    uint64_t serial; /* how many blocks the stream had allocated by then */
    uint64_t time_ns;
    uint32_t stream;     /* its index; AG_INDEX_NONE: nobody we saw */
    uint32_t free_stack; /* 0: not known */
};
/* The live block in slot AT dies. */
int ag_ledger_death(struct ag_ledger *ledger, uint64_t at, const struct ag_freeing *freeing,
                    struct ag_death *ret_death);
/* A block came to live where the one in slot AT does, and no other thread can have freed that: its
 * free was lost. */
int ag_ledger_bury(struct ag_ledger *ledger, uint64_t at);
/* Takes a death back: the block lives on. Its address must be dead. */
int ag_ledger_restore(struct ag_ledger *ledger, const struct ag_death *death, uint32_t freed_by);

void ag_ledger_unbirth(struct ag_ledger *ledger,
                       uint64_t at); /* takes the birth of the block in slot AT back */
/* Puts a block into the table alone, where it was set aside from. */
int ag_ledger_put_back(struct ag_ledger *ledger, const struct ag_live_block *block,
                       struct ag_live_past past);

/* ---- order_repair.c ---- */
void ag_repair_done(struct ag_repair *repair);
/* An event that does not fit, or whose address has waiting events. Applies what can be applied. */
int ag_ledger_defer(struct ag_ledger *ledger, uint32_t stream, const struct ag_event *event);
/* The realloc_free of ADDRESS that STREAM has just undone: true when it was still waiting, and is
 * gone now. */
bool ag_ledger_cancel_waiting(struct ag_ledger *ledger, uint32_t stream, uint64_t address);
/* The live block in SLOT was born in the open window of another stream than STREAM: its birth may
 * come later. */
bool ag_ledger_can_give_way(const struct ag_ledger *ledger, uint64_t slot, uint32_t stream);
/* Takes that birth back and lets it wait. N_PASSED_ON: how often that was done for the event which
 * is in its way. */
int ag_ledger_give_way(struct ag_ledger *ledger, uint64_t slot, uint8_t n_passed_on);
bool ag_ledger_is_waiting(const struct ag_ledger *ledger, uint64_t address);
/* Applies what waits at ADDRESS and fits now. */
int ag_ledger_drain(struct ag_ledger *ledger, uint64_t address);
void ag_ledger_end_waiting(struct ag_ledger *ledger, struct ag_stream *stream,
                           uint64_t deadline_ns); /* its window ended */
int ag_ledger_expire(struct ag_ledger *ledger, uint64_t now_ns);
/* A reader's time window begins: the totals will count what waits inside of it, when it is applied.
 * So the threads have to, which counted allocs as they came, and so has who sees single blocks:
 * the time of what waits is the window's beginning. */
void ag_ledger_take_waiting_along(struct ag_ledger *ledger);

/* When a block ended. A time is that of the stamp before the event in its own stream, so a thread
 * that stamps less often frees a block of another before its birth: it happened behind both. */
static inline uint64_t ag_ledger_not_before_birth(uint64_t time_ns, uint64_t born_ns) {
    return time_ns > born_ns ? time_ns : born_ns;
}

#endif
