/* straight_pass.c: decodes the events of a chunk of a trace and applies each event to the ledger
 * (the table of live blocks with its sums) before the next event is decoded, for event_pass.c.
 *
 * 1. Why
 *
 * The decoder and the ledger both branch on the kind of each event, which depends on the program's
 * data. This file executes the branch, and mispredicts it, once instead of twice. No event is
 * written to memory by one thread and then read by another thread, possibly on another CPU. An
 * allocation in a chunk contains the number of a tuple of stack, size and via (allocation
 * function). The number of the ledger's sum is stored in the tuple (ag_decoder_tuple.mark), so that
 * the sum is looked up once for each tuple.
 *
 * This is possible only for a trace of one stream (thread), because the events of several streams
 * have to be merged by time before they are applied. If the ledger's tables are larger than the
 * caches, AHEAD events (a row) are decoded before any of them is applied, and the memory that they
 * use is prefetched. Meanwhile another CPU reads, checks and decompresses the next chunks
 * (chunk_feed.h).
 *
 * 2. The end of a chunk's body
 *
 * An event has at most EVENT_BYTES. A run (one call of ag_straight_pass_run) ends EVENT_BYTES
 * before the end of the body, so no event of a run reaches beyond the end. The caller decodes the
 * last events with ag_chunk_decoder_next, which checks for the end. A run has at most as many bytes
 * as the table of tuples has free entries. An event has at least one byte and adds at most one
 * tuple, so the tuples of a run always fit. */
#include "model/pass/straight_pass.h"

#include "format/decode_fast.h"
#include "ledger/apply_fast.h"

enum {
    /* an event has at most 51 bytes: 1 for its form (the kind of the event), 10 for the number of
     * the tuple, 30 for the tuple, 10 for the address */
    EVENT_BYTES = 64,
    RUN_BYTES = 8192,
    /* a larger table does not fit into the CPU's L2 cache */
    LARGE_BYTES = 1 << 20,
    /* events of a row (section 1); the memory that they use fits into a cache of 32 KiB */
    AHEAD = 128,
};
_Static_assert((int)EVENT_BYTES <= (int)AG_BODY_PADDING,
               "an event at the end of the body reads only padding after it");

struct pass_state { /* state of a run, kept in registers where possible */
    struct ag_ledger *ledger;
    struct ag_event_state *state;
    struct ag_decoder_run run;
    struct ag_ledger_hot hot;
    uint32_t index; /* index of the stream in the ledger */
    uint32_t n_stamps;
    uint32_t n_damaged; /* 1: the decoder counted a damaged event, which was not applied */
};

bool ag_straight_pass_is_for(const struct ag_ledger *ledger) {
    return !ledger->step_visit;
}

AG_FAST void know_sum(struct ag_ledger *ledger, struct ag_decoder_tuple *tuple) {
    if (AG_UNLIKELY(tuple->mark == AG_INDEX_NONE)) {
        tuple->mark = ag_ledger_sum(ledger, tuple->stack, tuple->via);
    }
}

AG_FAST int apply_alloc(struct pass_state *pass, uint64_t address,
                        const struct ag_decoder_tuple *tuple) {
    struct ag_ledger *ledger = pass->ledger;
    const struct ag_event event = {
        .address = address, .size = tuple->size, .kind = AG_RECORD_ALLOC};
    const uint64_t at = ag_live_table_seek(&ledger->live, event.address);
    if (ag_ledger_can_be_fast(ledger, at, event.address, /* is_alloc= */ true)) {
        return ag_ledger_alloc_fast(ledger, &pass->hot, pass->index, at, tuple->mark, &event,
                                    /* is_reported= */ false);
    }
    const struct ag_event aside = {.address = event.address,
                                   .size = event.size,
                                   .stack = tuple->stack,
                                   .kind = AG_RECORD_ALLOC,
                                   .via = tuple->via};
    struct ag_ledger_hot hot = pass->hot;
    const int r = ag_ledger_step_aside(ledger, &hot, pass->index, &aside);
    pass->hot = hot;
    return r;
}

AG_FAST int apply_free(struct pass_state *pass, uint64_t address, uint8_t kind) {
    struct ag_ledger *ledger = pass->ledger;
    const struct ag_event event = {
        .address = address, .stack = pass->state->free_stack, .kind = kind};
    const uint64_t at = ag_live_table_seek(&ledger->live, address);
    if (ag_ledger_can_be_fast(ledger, at, address, /* is_alloc= */ false)) {
        return ag_ledger_free_fast(ledger, &pass->hot, pass->index, at, &event,
                                   /* is_reported= */ false);
    }
    struct ag_ledger_hot hot = pass->hot;
    const struct ag_event aside = event;
    const int r = ag_ledger_step_aside(ledger, &hot, pass->index, &aside);
    pass->hot = hot;
    return r;
}

AG_FAST bool is_undo(const uint8_t *at) {
    const uint64_t form = *at & ((1 << AG_FORM_BITS) - 1);
    return form == AG_FORM_FREE_SPECIAL && (*at >> AG_FORM_BITS & AG_SPECIAL_UNDO) != 0;
}

AG_FAST int apply_undo(struct pass_state *pass, uint64_t address) {
    const struct ag_event undo = {.address = address, .kind = AG_RECORD_UNDO_FREE};
    return ag_ledger_step_aside(pass->ledger, &pass->hot, pass->index, &undo);
}

/* Applies a REALLOC_FREE or an UNDO_FREE event. A failed realloc writes both events for one
 * address. If the second follows the first directly, both are skipped, as in ag_ledger_apply. */
static int take_special(struct pass_state *pass, uint64_t argument) {
    uint8_t kind;
    const uint64_t address = ag_decode_special_fast(pass->state, &pass->run, argument, &kind);
    if (pass->run.bad != 0) {
        return 0;
    }
    if (kind == AG_RECORD_UNDO_FREE) {
        return apply_undo(pass, address);
    }
    if (!is_undo(pass->run.at)) {
        return apply_free(pass, address, kind);
    }
    const uint64_t next_argument = *pass->run.at++ >> AG_FORM_BITS;
    const uint64_t undone = ag_decode_special_fast(pass->state, &pass->run, next_argument, &kind);
    if (pass->run.bad == 0 && undone == address) {
        return 0;
    }
    const int r = apply_free(pass, address, AG_RECORD_REALLOC_FREE);
    return r < 0 || pass->run.bad != 0 ? r : apply_undo(pass, undone);
}

/* Handles an event that is no plain allocation or free. Returns whether the run continues: the run
 * ends at a stamp at limit_ns or later, and at a record that the caller has to handle. */
static AG_NOINLINE bool take_rare(struct pass_state *pass, uint64_t form, uint64_t argument,
                                  struct ag_straight_run *run, int *ret_r) {
    if (form == AG_FORM_FREE_SPECIAL) {
        *ret_r = take_special(pass, argument);
        return true;
    }
    run->needs_next = argument != AG_OTHER_STAMP;
    if (run->needs_next) {
        return false;
    }
    const uint64_t time_ns = ag_decode_stamp_fast(pass->state, &pass->run);
    if (pass->run.bad != 0) {
        return true; /* the damage ends the run */
    }
    if (time_ns >= run->limit_ns) {
        run->next_ns = time_ns;
        return false;
    }
    pass->state->time_ns = run->last_ns = time_ns;
    const struct ag_event stamp = {.size = time_ns, .kind = AG_RECORD_STAMP};
    *ret_r = ag_ledger_step_aside(pass->ledger, &pass->hot, pass->index, &stamp);
    pass->n_stamps++;
    return true;
}

/* ---- one event at a time ---- */

AG_FAST int take_common(struct pass_state *pass, uint64_t form, uint64_t argument) {
    if (form <= AG_FORM_FREE_FAR) {
        const uint64_t address = ag_decode_free_fast(pass->state, &pass->run, form, argument);
        return AG_LIKELY(pass->run.bad == 0) ? apply_free(pass, address, AG_RECORD_FREE) : 0;
    }
    uint64_t address;
    struct ag_decoder_tuple *tuple =
        ag_decode_alloc_fast(pass->state, &pass->run, form, argument, &address);
    if (AG_UNLIKELY(pass->run.bad != 0)) {
        return 0;
    }
    know_sum(pass->ledger, tuple);
    return apply_alloc(pass, address, tuple);
}

/* The compiler keeps the local copy of the state in registers only if its address is not taken. So
 * the state is copied to *ALL before take_rare is called with ALL, and copied back afterwards. */
static AG_NOINLINE int take_events(struct pass_state *all, const uint8_t *end,
                                   struct ag_straight_run *run) {
    struct pass_state pass = *all;
    bool goes_on = true;
    int r = 0;
    while (pass.run.at < end && r >= 0 && goes_on) {
        const uint8_t *const event_at = pass.run.at;
        uint64_t argument;
        const uint64_t form = ag_decode_form_fast(&pass.run, &argument);
        if (AG_LIKELY(form <= AG_FORM_ALLOC_FAR)) {
            r = take_common(&pass, form, argument);
        } else {
            *all = pass;
            goes_on = take_rare(all, form, argument, run, &r);
            pass = *all;
        }
        if (AG_UNLIKELY(pass.run.bad != 0 || !goes_on)) {
            pass.run.at = event_at;
            pass.n_damaged = pass.run.bad != 0 && form != AG_FORM_OTHER;
            break;
        }
    }
    *all = pass;
    return r;
}

/* ---- a row of AHEAD events at a time, if the ledger's tables are larger than the caches ---- */

struct ahead {
    uint64_t address;
    struct ag_decoder_tuple *tuple; /* tuple of an allocation; NULL: the event is a free */
};
struct row {
    size_t count, n_unknown;
    bool is_full;
    struct ahead events[AHEAD];
    struct ag_decoder_tuple *unknown[AHEAD]; /* tuples whose sums in the ledger are not known yet */
};

/* Decodes events until the row is full, or until END, an event of a rare kind, or damage. run.at
 * then points to the first byte that was not decoded. */
static AG_NOINLINE void fill_row(struct pass_state *all, const uint8_t *end, struct row *row) {
    struct pass_state pass = *all;
    const struct ag_ledger *ledger = pass.ledger;
    size_t count = 0, n_unknown = 0;
    bool is_loose = false;
    while (pass.run.at < end && count < AHEAD && !is_loose) {
        const uint8_t *const event_at = pass.run.at;
        const uint64_t form = *event_at & ((1 << AG_FORM_BITS) - 1);
        const uint64_t argument = *event_at >> AG_FORM_BITS;
        if (AG_UNLIKELY(form > AG_FORM_ALLOC_FAR)) {
            break;
        }
        struct ahead *event = &row->events[count];
        pass.run.at++;
        if (form <= AG_FORM_FREE_FAR) {
            event->address = ag_decode_free_fast(pass.state, &pass.run, form, argument);
            event->tuple = NULL;
        } else {
            struct ag_decoder_tuple *tuple =
                ag_decode_alloc_fast(pass.state, &pass.run, form, argument, &event->address);
            event->tuple = tuple;
            /* a tuple that does not fit the table is in `loose`, which the next event may
             * overwrite; so this event must be the last of the row */
            is_loose = tuple == &pass.state->loose;
            /* is_unknown is used without a branch, because it is true for about half of the
             * events */
            const bool is_unknown = tuple->mark == AG_INDEX_NONE;
            AG_PREFETCH(is_unknown ? ag_sum_index_home(&ledger->sum_index, tuple->stack, tuple->via)
                                   : &ledger->sums[tuple->mark]);
            row->unknown[n_unknown] = tuple;
            n_unknown += is_unknown;
        }
        if (AG_UNLIKELY(pass.run.bad != 0)) {
            pass.run.at = event_at;
            pass.n_damaged = 1;
            break;
        }
        count++;
    }
    row->count = count;
    /* the last tuple may belong to the damaged event */
    row->n_unknown = pass.run.bad == 0 ? n_unknown : 0;
    row->is_full = count == AHEAD || is_loose;
    *all = pass;
}

/* Prefetches the memory that the row will use, in three loops over the row. The second and the
 * third loop use memory that was prefetched before them. */
static AG_NOINLINE void fetch_row(struct ag_ledger *ledger, const struct row *row) {
    const struct ag_live_table *live = &ledger->live;
    const bool is_large = (live->mask + 1) * sizeof(*live->blocks) > LARGE_BYTES;
    for (size_t i = 0; is_large && i < row->count; i++) {
        AG_PREFETCH(&live->blocks[ag_live_table_home(live, row->events[i].address)]);
    }
    for (size_t i = 0; i < row->n_unknown; i++) {
        struct ag_decoder_tuple *tuple = row->unknown[i];
        know_sum(ledger, tuple);
        /* if there is no memory for the sum, apply_row fails with -ENOMEM */
        if (tuple->mark != AG_INDEX_NONE) {
            AG_PREFETCH(&ledger->sums[tuple->mark]);
        }
    }
    for (size_t i = 0; is_large && i < row->count; i++) {
        const uint64_t home = ag_live_table_home(live, row->events[i].address);
        if (!row->events[i].tuple && live->blocks[home].address != 0) {
            AG_PREFETCH(&ledger->sums[live->blocks[home].sum]);
        }
    }
}

static AG_NOINLINE int apply_row(struct pass_state *all, const struct row *row) {
    struct pass_state pass = *all;
    int r = 0;
    for (const struct ahead *event = row->events, *end = event + row->count; event < end && r >= 0;
         event++) {
        if (event->tuple) {
            know_sum(pass.ledger, event->tuple);
            r = apply_alloc(&pass, event->address, event->tuple);
        } else {
            r = apply_free(&pass, event->address, AG_RECORD_FREE);
        }
    }
    *all = pass;
    return r;
}

static int take_rows(struct pass_state *pass, const uint8_t *end, struct ag_straight_run *run) {
    struct row row;
    bool goes_on = true;
    int r = 0;
    while (pass->run.at < end && pass->run.bad == 0 && r >= 0 && goes_on) {
        fill_row(pass, end, &row);
        fetch_row(pass->ledger, &row);
        r = apply_row(pass, &row);
        const uint8_t *const event_at = pass->run.at;
        if (r >= 0 && !row.is_full && event_at < end && pass->run.bad == 0) {
            uint64_t argument;
            const uint64_t form = ag_decode_form_fast(&pass->run, &argument);
            goes_on = take_rare(pass, form, argument, run, &r);
            pass->run.at = goes_on && pass->run.bad == 0 ? pass->run.at : event_at;
            pass->n_damaged = pass->run.bad != 0 && form != AG_FORM_OTHER;
        }
    }
    return r;
}

int ag_straight_pass_run(struct ag_ledger *ledger, uint32_t stream,
                         struct ag_chunk_decoder *decoder, struct ag_straight_run *run) {
    struct pass_state pass = {.ledger = ledger, .state = &decoder->events};
    run->needs_next = false;
    run->last_ns = run->next_ns = 0;
    const ptrdiff_t left = decoder->end - decoder->at - EVENT_BYTES;
    const size_t room = left > 0 ? ag_events_make_room(&decoder->events) : 0;
    if (room == 0) {
        /* room is also 0 if there is no memory; then ag_chunk_decoder_next, which the caller calls,
         * fails */
        run->needs_next = true;
        return 0;
    }
    size_t n_bytes = (size_t)left < RUN_BYTES ? (size_t)left : RUN_BYTES;
    n_bytes = n_bytes < room ? n_bytes : room;
    int r = ag_ledger_begin(ledger, stream, &pass.hot, &pass.index);
    if (r < 0) {
        return r;
    }
    ag_decode_begin_fast(decoder, &pass.run);
    const uint32_t counted = ag_events_counted(&decoder->events);
    const uint8_t *const end = decoder->at + n_bytes;
    r = ag_ledger_is_large(ledger) ? take_rows(&pass, end, run) : take_events(&pass, end, run);
    ag_decode_end_fast(decoder, &pass.run);
    decoder->events.is_damaged = pass.run.bad != 0;
    run->needs_next |= pass.run.bad != 0;
    const uint32_t n_events =
        ag_events_counted(&decoder->events) - counted + pass.n_stamps - pass.n_damaged;
    return ag_ledger_end(ledger, &pass.hot, pass.index, n_events, r);
}
