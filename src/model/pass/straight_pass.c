/* straight_pass.c: decodes each event and applies it at once.
 *
 * 1. Why
 *
 * Decoder and ledger each have to distinguish the kinds of events, which depend on the program's
 * data: done once, the branch is mispredicted once, and no event is written and read again, least
 * of all by another CPU. And an allocation names its (stack, size, via) by a number of the chunk:
 * the ledger's sum for it is stored beside it (ag_decoder_tuple.mark) and looked up once per tuple.
 *
 * This works only for one stream: those of several threads have to be merged by time before the
 * ledger gets them. If tables are large, AHEAD events are decoded first and the memory that they
 * use is prefetched. Another CPU reads, checks and decompresses the next chunks meanwhile
 * (chunk_feed.h).
 *
 * 2. The end of a body
 *
 * An event has at most EVENT_BYTES. A run ends that many bytes before the end of the body, so none
 * of its events can reach beyond it; the last ones are decoded by ag_chunk_decoder_next, which
 * checks. A run has as many bytes as there is room for tuples, and so no more events than that. */
#include "model/pass/straight_pass.h"

#include <errno.h>

#include "format/decode_fast.h"
#include "ledger/apply_fast.h"

enum {
    EVENT_BYTES = 64, /* form, number of tuple, tuple, address: 1 + 10 + 30 + 10 */
    RUN_BYTES = 8192,
    LARGE_BYTES = 1 << 20,
    AHEAD = 128, /* events decoded ahead where tables are large: what they touch fits 32 KiB */
};
_Static_assert((int)EVENT_BYTES <= (int)AG_BODY_PADDING, "an event at the end reads zeros");

struct at_hand { /* during a run */
    struct ag_ledger *ledger;
    struct ag_event_state *state;
    struct ag_decoder_run run;
    struct ag_ledger_hot hot;
    uint32_t index; /* of the stream in the ledger */
    uint32_t n_stamps;
    uint32_t n_damaged; /* 1: the decoder has counted an event that is none */
};

bool ag_straight_pass_is_for(const struct ag_ledger *ledger) {
    return !ledger->step_visit;
}

AG_FAST void know_sum(struct ag_ledger *ledger, struct ag_decoder_tuple *tuple) {
    if (AG_UNLIKELY(tuple->mark == AG_INDEX_NONE)) {
        tuple->mark = ag_ledger_sum(ledger, tuple->stack, tuple->via);
    }
}

AG_FAST int apply_alloc(struct at_hand *hand, uint64_t address,
                        const struct ag_decoder_tuple *tuple) {
    struct ag_ledger *ledger = hand->ledger;
    const struct ag_event event = {
        .address = address, .size = tuple->size, .kind = AG_RECORD_ALLOC};
    const uint64_t at = ag_live_table_seek(&ledger->live, event.address);
    if (ag_ledger_can_be_fast(ledger, at, event.address, /* is_alloc= */ true)) {
        return ag_ledger_alloc_fast(ledger, &hand->hot, hand->index, at, tuple->mark, &event,
                                    /* is_reported= */ false);
    }
    const struct ag_event aside = {.address = event.address,
                                   .size = event.size,
                                   .stack = tuple->stack,
                                   .kind = AG_RECORD_ALLOC,
                                   .via = tuple->via};
    struct ag_ledger_hot hot = hand->hot;
    const int r = ag_ledger_step_aside(ledger, &hot, hand->index, &aside);
    hand->hot = hot;
    return r;
}

AG_FAST int apply_free(struct at_hand *hand, uint64_t address, uint8_t kind) {
    struct ag_ledger *ledger = hand->ledger;
    const struct ag_event event = {
        .address = address, .stack = hand->state->free_stack, .kind = kind};
    const uint64_t at = ag_live_table_seek(&ledger->live, address);
    if (ag_ledger_can_be_fast(ledger, at, address, /* is_alloc= */ false)) {
        return ag_ledger_free_fast(ledger, &hand->hot, hand->index, at, &event,
                                   /* is_reported= */ false);
    }
    struct ag_ledger_hot hot = hand->hot;
    const struct ag_event aside = event;
    const int r = ag_ledger_step_aside(ledger, &hot, hand->index, &aside);
    hand->hot = hot;
    return r;
}

AG_FAST bool is_undo(const uint8_t *at) {
    const uint64_t form = *at & ((1 << AG_FORM_BITS) - 1);
    return form == AG_FORM_FREE_SPECIAL && (*at >> AG_FORM_BITS & AG_SPECIAL_UNDO) != 0;
}

AG_FAST int apply_undo(struct at_hand *hand, uint64_t address) {
    const struct ag_event undo = {.address = address, .kind = AG_RECORD_UNDO_FREE};
    return ag_ledger_step_aside(hand->ledger, &hand->hot, hand->index, &undo);
}

/* A realloc_free or an undo_free. The two halves of a realloc that failed must be seen together, as
 * ag_ledger_apply does: then nothing has happened. */
static int take_special(struct at_hand *hand, uint64_t argument) {
    uint8_t kind;
    const uint64_t address = ag_decode_special_fast(hand->state, &hand->run, argument, &kind);
    if (hand->run.bad != 0) {
        return 0;
    }
    if (kind == AG_RECORD_UNDO_FREE) {
        return apply_undo(hand, address);
    }
    if (!is_undo(hand->run.at)) {
        return apply_free(hand, address, kind);
    }
    const uint64_t next_argument = *hand->run.at++ >> AG_FORM_BITS;
    const uint64_t undone = ag_decode_special_fast(hand->state, &hand->run, next_argument, &kind);
    if (hand->run.bad == 0 && undone == address) {
        return 0;
    }
    const int r = apply_free(hand, address, AG_RECORD_REALLOC_FREE);
    return r < 0 || hand->run.bad != 0 ? r : apply_undo(hand, undone);
}

/* Anything except an alloc or a free. Returns whether the run continues: not at the limit, and not
 * at what the caller handles. */
static AG_NOINLINE bool take_rare(struct at_hand *hand, uint64_t form, uint64_t argument,
                                  struct ag_straight_run *run, int *ret_r) {
    if (form == AG_FORM_FREE_SPECIAL) {
        *ret_r = take_special(hand, argument);
        return true;
    }
    run->is_at_rest = argument != AG_OTHER_STAMP;
    if (run->is_at_rest) {
        return false;
    }
    const uint64_t time_ns = ag_decode_stamp_fast(hand->state, &hand->run);
    if (hand->run.bad != 0) {
        return true; /* which ends it */
    }
    if (time_ns >= run->limit_ns) {
        run->next_ns = time_ns;
        return false;
    }
    hand->state->time_ns = run->last_ns = time_ns;
    const struct ag_event stamp = {.size = time_ns, .kind = AG_RECORD_STAMP};
    *ret_r = ag_ledger_step_aside(hand->ledger, &hand->hot, hand->index, &stamp);
    hand->n_stamps++;
    return true;
}

/* ---- one event at a time ---- */

AG_FAST int take_common(struct at_hand *hand, uint64_t form, uint64_t argument) {
    if (form <= AG_FORM_FREE_FAR) {
        const uint64_t address = ag_decode_free_fast(hand->state, &hand->run, form, argument);
        return AG_LIKELY(hand->run.bad == 0) ? apply_free(hand, address, AG_RECORD_FREE) : 0;
    }
    uint64_t address;
    struct ag_decoder_tuple *tuple =
        ag_decode_alloc_fast(hand->state, &hand->run, form, argument, &address);
    if (AG_UNLIKELY(hand->run.bad != 0)) {
        return 0;
    }
    know_sum(hand->ledger, tuple);
    return apply_alloc(hand, address, tuple);
}

/* The state stays in registers as long as its address is not taken: the rare kinds get a copy. */
static AG_NOINLINE int take_events(struct at_hand *all, const uint8_t *end,
                                   struct ag_straight_run *run) {
    struct at_hand hand = *all;
    bool goes_on = true;
    int r = 0;
    while (hand.run.at < end && r >= 0 && goes_on) {
        const uint8_t *const event_at = hand.run.at;
        uint64_t argument;
        const uint64_t form = ag_decode_form_fast(&hand.run, &argument);
        if (AG_LIKELY(form <= AG_FORM_ALLOC_FAR)) {
            r = take_common(&hand, form, argument);
        } else {
            *all = hand;
            goes_on = take_rare(all, form, argument, run, &r);
            hand = *all;
        }
        if (AG_UNLIKELY(hand.run.bad != 0 || !goes_on)) {
            hand.run.at = event_at;
            hand.n_damaged = hand.run.bad != 0 && form != AG_FORM_OTHER;
            break;
        }
    }
    *all = hand;
    return r;
}

/* ---- a row of events at a time, where the tables exceed the caches ---- */

struct ahead {
    uint64_t address;
    struct ag_decoder_tuple *tuple; /* of an alloc; NULL: a free */
};
struct row {
    size_t count, n_unknown;
    bool is_full;
    struct ahead events[AHEAD];
    struct ag_decoder_tuple *unknown[AHEAD]; /* whose sums are not known yet */
};

/* Decodes until the row is full, END, something rare, or damage; then run.at stands there. */
static AG_NOINLINE void fill_row(struct at_hand *all, const uint8_t *end, struct row *row) {
    struct at_hand hand = *all;
    const struct ag_ledger *ledger = hand.ledger;
    size_t count = 0, n_unknown = 0;
    bool is_loose = false;
    while (hand.run.at < end && count < AHEAD && !is_loose) {
        const uint8_t *const event_at = hand.run.at;
        const uint64_t form = *event_at & ((1 << AG_FORM_BITS) - 1);
        const uint64_t argument = *event_at >> AG_FORM_BITS;
        if (AG_UNLIKELY(form > AG_FORM_ALLOC_FAR)) {
            break;
        }
        struct ahead *event = &row->events[count];
        hand.run.at++;
        if (form <= AG_FORM_FREE_FAR) {
            event->address = ag_decode_free_fast(hand.state, &hand.run, form, argument);
            event->tuple = NULL;
        } else {
            struct ag_decoder_tuple *tuple =
                ag_decode_alloc_fast(hand.state, &hand.run, form, argument, &event->address);
            event->tuple = tuple;
            is_loose = tuple == &hand.state->loose; /* which the next one overwrites */
            const bool is_unknown = tuple->mark == AG_INDEX_NONE; /* no branch: half are */
            AG_PREFETCH(is_unknown ? ag_sum_index_home(&ledger->sum_index, tuple->stack, tuple->via)
                                   : &ledger->sums[tuple->mark]);
            row->unknown[n_unknown] = tuple;
            n_unknown += is_unknown;
        }
        if (AG_UNLIKELY(hand.run.bad != 0)) {
            hand.run.at = event_at;
            hand.n_damaged = 1;
            break;
        }
        count++;
    }
    row->count = count;
    row->n_unknown = hand.run.bad == 0 ? n_unknown : 0; /* a tuple of damage is none */
    row->is_full = count == AHEAD || is_loose;
    *all = hand;
}

/* Prefetches what the row will use, one step for the whole row after the other. */
static AG_NOINLINE void fetch_row(struct ag_ledger *ledger, const struct row *row) {
    const struct ag_live_table *live = &ledger->live;
    const bool is_large = (live->mask + 1) * sizeof(*live->blocks) > LARGE_BYTES;
    for (size_t i = 0; is_large && i < row->count; i++) {
        AG_PREFETCH(&live->blocks[ag_live_table_home(live, row->events[i].address)]);
    }
    for (size_t i = 0; i < row->n_unknown; i++) {
        struct ag_decoder_tuple *tuple = row->unknown[i];
        know_sum(ledger, tuple);
        if (tuple->mark != AG_INDEX_NONE) { /* no memory: heard of when it is applied */
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

static AG_NOINLINE int apply_row(struct at_hand *all, const struct row *row) {
    struct at_hand hand = *all;
    int r = 0;
    for (const struct ahead *event = row->events, *end = event + row->count; event < end && r >= 0;
         event++) {
        if (event->tuple) {
            know_sum(hand.ledger, event->tuple);
            r = apply_alloc(&hand, event->address, event->tuple);
        } else {
            r = apply_free(&hand, event->address, AG_RECORD_FREE);
        }
    }
    *all = hand;
    return r;
}

static int take_rows(struct at_hand *hand, const uint8_t *end, struct ag_straight_run *run) {
    struct row row;
    bool goes_on = true;
    int r = 0;
    while (hand->run.at < end && hand->run.bad == 0 && r >= 0 && goes_on) {
        fill_row(hand, end, &row);
        fetch_row(hand->ledger, &row);
        r = apply_row(hand, &row);
        const uint8_t *const event_at = hand->run.at;
        if (r >= 0 && !row.is_full && event_at < end && hand->run.bad == 0) {
            uint64_t argument;
            const uint64_t form = ag_decode_form_fast(&hand->run, &argument);
            goes_on = take_rare(hand, form, argument, run, &r);
            hand->run.at = goes_on && hand->run.bad == 0 ? hand->run.at : event_at;
            hand->n_damaged = hand->run.bad != 0 && form != AG_FORM_OTHER;
        }
    }
    return r;
}

int ag_straight_pass_run(struct ag_ledger *ledger, uint32_t stream,
                         struct ag_chunk_decoder *decoder, struct ag_straight_run *run) {
    struct at_hand hand = {.ledger = ledger, .state = &decoder->events};
    run->is_at_rest = false;
    run->last_ns = run->next_ns = 0;
    const ptrdiff_t left = decoder->end - decoder->at - EVENT_BYTES;
    const size_t room = left > 0 ? ag_events_make_room(&decoder->events) : 0;
    if (room == 0) {
        run->is_at_rest = true; /* without memory too: the caller will hear of it */
        return 0;
    }
    size_t n_bytes = (size_t)left < RUN_BYTES ? (size_t)left : RUN_BYTES;
    n_bytes = n_bytes < room ? n_bytes : room;
    int r = ag_ledger_begin(ledger, stream, &hand.hot, &hand.index);
    if (r < 0) {
        return r;
    }
    ag_decode_begin_fast(decoder, &hand.run);
    const uint32_t counted = ag_events_counted(&decoder->events);
    const uint8_t *const end = decoder->at + n_bytes;
    r = ag_ledger_is_large(ledger) ? take_rows(&hand, end, run) : take_events(&hand, end, run);
    ag_decode_end_fast(decoder, &hand.run);
    decoder->events.is_damaged = hand.run.bad != 0;
    run->is_at_rest |= hand.run.bad != 0;
    const uint32_t n_events =
        ag_events_counted(&decoder->events) - counted + hand.n_stamps - hand.n_damaged;
    return ag_ledger_end(ledger, &hand.hot, hand.index, n_events, r);
}
