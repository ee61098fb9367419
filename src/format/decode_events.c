/* decode_events.c: the body of an event chunk to events in bulk, for every reader.
 *
 * The inverse of encode_events.c, and the place where reading spends its time. Two things keep it
 * fast. The body is followed by zero bytes, so that an event is decoded without looking for the end
 * at each byte (zeros end any number) and the end is compared once per event. And the state
 * (counts, last addresses) lives in locals while a batch runs.
 *
 * Nothing in the bytes is believed: a distance is below the number of events there were and below
 * the ring, a tuple index below the table, an expected tuple only after a first.
 * docs/trace-format.md section 3 specifies the bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/little_endian.h"
#include "base/varint.h"
#include "decode_chunk.h"

enum { NO_TUPLE = UINT32_MAX, RING_MASK = AG_NEAR_EVENTS - 1, TUPLES_FIRST = 256 };

void ag_events_start(struct ag_event_state *state, uint64_t first_time_ns) {
    state->allocs = (struct ag_event_track){0};
    state->frees = (struct ag_event_track){0};
    state->n_undone = 0;
    state->n_tuples = 0;
    state->last_tuple = NO_TUPLE;
    state->time_ns = first_time_ns;
}

uint32_t ag_events_counted(const struct ag_event_state *state) {
    return state->allocs.n + state->frees.n + state->n_undone;
}

static AG_COLD bool tuples_grow(struct ag_event_state *state) {
    const uint32_t capacity =
        state->tuples_capacity == 0 ? TUPLES_FIRST : state->tuples_capacity * 4;
    struct ag_decoder_tuple *tuples = realloc(state->tuples, capacity * sizeof(*tuples));
    if (tuples == NULL) {
        return false;
    }
    state->tuples = tuples;
    state->tuples_capacity = capacity;
    return true;
}

/* ---- numbers ---- */

static AG_COLD const uint8_t *number_9_or_10(const uint8_t *at, uint64_t *ret_value,
                                             uint64_t *ret_bad) {
    const uint8_t *next = ag_varint_get(at, at + AG_VARINT_MAX_BYTES, ret_value);
    if (next == NULL) {
        *ret_value = 0;
        *ret_bad = 1;
        return at;
    }
    return next;
}

/* A varint of the padded body, without a branch on its length up to 8 bytes. *ret_bad gets 1 when
 * it exceeds 64 bits. */
AG_FAST const uint8_t *number(const uint8_t *at, uint64_t *ret_value, uint64_t *ret_bad) {
    if (AG_LIKELY(at[0] < 0x80)) {
        *ret_value = at[0];
        return at + 1;
    }
    uint64_t word = ag_get_64(at);
    const uint64_t ends = ~word & UINT64_C(0x8080808080808080);
    if (AG_UNLIKELY(ends == 0)) {
        return number_9_or_10(at, ret_value, ret_bad);
    }
    /* Keep the bytes up to the first that ends, then close the gaps: 7 bits to 14, 14 to 28, 28
     * to 56. */
    word &= ends ^ (ends - 1);
    word &= UINT64_C(0x7f7f7f7f7f7f7f7f);
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    word = (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
    *ret_value = word;
    return at + AG_TRAILING_ZEROS(ends) / 8 + 1;
}

/* ---- events ---- */

/* What changes with every event, in registers while a batch runs. */
struct run {
    const uint8_t *at;
    uint64_t bad; /* not 0: damage was seen; looked at once per event */
    uint32_t last_tuple;
    struct ag_event_track allocs, frees;
};

AG_FAST uint64_t far_address(uint64_t base, uint64_t value, uint64_t flags) {
    const uint64_t difference = ag_unzigzag(value);
    return base + ((flags & AG_FAR_UNSCALED) != 0 ? difference : difference << AG_FAR_SHIFT);
}

/* The address at `place` in a ring, which is to be one of the last AG_NEAR_EVENTS. */
AG_FAST uint64_t place_address(struct run *run, struct ag_event_track *track, const uint64_t *ring,
                               uint32_t place) {
    const uint32_t distance =
        track->n - 1 - place; /* wraps to a large number for a place that is not */
    run->bad |= (uint64_t)(distance >= track->n) | (uint64_t)(distance >= AG_NEAR_EVENTS);
    track->named_last = place;
    return ring[place & RING_MASK];
}

/* By a near argument: places below AG_NEAR_DISTANCES from the newest, the others from the one named
 * last. */
AG_FAST uint64_t near_address(struct run *run, struct ag_event_track *track, const uint64_t *ring,
                              uint64_t argument) {
    static const int8_t offsets[] = {-1,  -2,  -3,  -4,  -5, -6, -7, -8, -9, -10, -11,
                                     -12, -13, -14, -15, -8, -7, -6, -5, -4, -3,  -2,
                                     -1,  1,   2,   3,   4,  5,  6,  7,  8,  0};

    uint32_t place =
        (argument < AG_NEAR_DISTANCES ? track->n : track->named_last) + (uint32_t)offsets[argument];
    if (AG_UNLIKELY(argument == AG_NEAR_LONG)) {
        uint64_t rest;
        run->at = number(run->at, &rest, &run->bad);
        run->bad |= rest > AG_NEAR_EVENTS; /* the sum must not wrap */
        place = track->n - 1 - AG_NEAR_DISTANCES - (uint32_t)rest;
    }
    return place_address(run, track, ring, place);
}

/* A tuple in full, in *ret_tuple. Its index, or NO_TUPLE when the table has no more room. */
static AG_NOINLINE uint32_t new_tuple(struct ag_event_state *state, struct run *run,
                                      struct ag_decoder_tuple *ret_tuple) {
    uint64_t stack, size, via;
    run->at = number(run->at, &stack, &run->bad);
    run->at = number(run->at, &size, &run->bad);
    run->at = number(run->at, &via, &run->bad);
    run->bad |= (uint64_t)(stack > UINT32_MAX) | (uint64_t)(via > UINT8_MAX);

    const uint32_t index = state->n_tuples;
    *ret_tuple = (struct ag_decoder_tuple){
        .stack = (uint32_t)stack, .size = size, .via = (uint32_t)via, .next = index};
    if (index == AG_TUPLES_MAX) {
        return NO_TUPLE;
    }
    state->tuples[index] = *ret_tuple; /* there is room: see ag_events_decode */
    state->n_tuples++;
    return index;
}

/* The tuple that is expected, or that stands in the bytes. */
AG_FAST uint32_t get_tuple(struct ag_event_state *state, struct run *run, uint32_t is_given,
                           struct ag_decoder_tuple *ret_tuple) {
    if (!is_given) {
        if (AG_UNLIKELY(run->last_tuple == NO_TUPLE)) {
            run->bad = 1;
            return NO_TUPLE;
        }
        struct ag_decoder_tuple *last = &state->tuples[run->last_tuple];
        const uint32_t index = last->next;
        last->trust += last->trust < AG_TRUST_MAX;
        *ret_tuple = state->tuples[index];
        return index;
    }
    uint64_t given;
    run->at = number(run->at, &given, &run->bad);
    uint32_t index = (uint32_t)given;
    if (given < state->n_tuples) {
        *ret_tuple = state->tuples[index];
    } else if (given == state->n_tuples) {
        index = new_tuple(state, run, ret_tuple);
    } else {
        run->bad = 1;
        return NO_TUPLE;
    }
    if (index != NO_TUPLE && run->last_tuple != NO_TUPLE) {
        struct ag_decoder_tuple *last = &state->tuples[run->last_tuple];
        last->next = last->trust == 0 ? index : last->next;
        last->trust -= last->trust != 0;
    }
    return index;
}

AG_FAST void get_alloc(struct ag_event_state *state, struct run *run, uint64_t form,
                       uint64_t argument, struct ag_event *ret_event) {
    struct ag_decoder_tuple tuple = {0};
    const uint32_t index = get_tuple(state, run, form & 1, &tuple);
    uint64_t address;

    if (AG_LIKELY(form < AG_FORM_ALLOC_FAR_EXPECTED)) {
        address = near_address(run, &run->frees, state->freed, argument);
    } else {
        uint64_t value;
        run->at = number(run->at, &value, &run->bad);
        const uint64_t base =
            (argument & AG_FAR_OF_TUPLE) != 0 ? tuple.last_address : run->allocs.last_address;
        address = far_address(base, value, argument);
    }
    state->alloced[run->allocs.n & RING_MASK] = address;
    run->allocs.n++;
    run->allocs.last_address = address;
    if (AG_LIKELY(index != NO_TUPLE)) {
        state->tuples[index].last_address = address;
        run->last_tuple = index;
    }
    *ret_event = (struct ag_event){.address = address,
                                   .size = tuple.size,
                                   .stack = tuple.stack,
                                   .kind = AG_RECORD_ALLOC,
                                   .via = (uint8_t)tuple.via};
}

AG_FAST void note_free(struct ag_event_state *state, struct run *run, uint64_t address) {
    state->freed[run->frees.n & RING_MASK] = address;
    run->frees.n++;
    run->frees.last_address = address;
}

AG_FAST void get_free(struct ag_event_state *state, struct run *run, uint64_t form,
                      uint64_t argument, struct ag_event *ret_event) {
    uint64_t address;

    if (AG_LIKELY(form == AG_FORM_FREE_NEAR)) {
        address = near_address(run, &run->allocs, state->alloced, argument);
    } else {
        uint64_t value;
        run->at = number(run->at, &value, &run->bad);
        address = far_address(run->frees.last_address, value, argument);
    }
    note_free(state, run, address);
    *ret_event = (struct ag_event){.address = address, .kind = AG_RECORD_FREE};
}

AG_FAST void get_special_free(struct ag_event_state *state, struct run *run, uint64_t argument,
                              struct ag_event *ret_event) {
    uint64_t value, address;
    run->at = number(run->at, &value, &run->bad);

    if ((argument & AG_SPECIAL_NEAR) != 0) {
        run->bad |= value > AG_NEAR_EVENTS; /* the sum must not wrap */
        address =
            place_address(run, &run->allocs, state->alloced, run->allocs.n - 1 - (uint32_t)value);
    } else {
        address = far_address(run->frees.last_address, value, argument);
    }
    if ((argument & AG_SPECIAL_UNDO) != 0) {
        state->n_undone++;
        *ret_event = (struct ag_event){.address = address, .kind = AG_RECORD_UNDO_FREE};
    } else {
        note_free(state, run, address);
        *ret_event = (struct ag_event){.address = address, .kind = AG_RECORD_REALLOC_FREE};
    }
}

AG_FAST void get_stamp(struct ag_event_state *state, struct run *run, struct ag_event *ret_event) {
    uint64_t passed_ns;
    run->at = number(run->at, &passed_ns, &run->bad);
    run->bad |= passed_ns > UINT64_MAX - state->time_ns;
    state->time_ns += passed_ns;
    *ret_event = (struct ag_event){.size = state->time_ns, .kind = AG_RECORD_STAMP};
}

/* One batch during which the table of tuples needs not grow. */
static enum ag_events_stop decode_batch(struct ag_chunk_decoder *decoder,
                                        struct ag_event *ret_events, size_t capacity,
                                        size_t *ret_count) {
    struct ag_event_state *const state = &decoder->events;
    const uint8_t *const end = decoder->end;
    struct run run = {.at = decoder->at,
                      .last_tuple = state->last_tuple,
                      .allocs = state->allocs,
                      .frees = state->frees};
    enum ag_events_stop stop = AG_EVENTS_FULL;
    size_t count = 0;

    while (count < capacity) {
        if (AG_UNLIKELY(run.at >= end)) {
            stop = AG_EVENTS_END;
            break;
        }
        const uint8_t *const event_at = run.at;
        const uint64_t form = *run.at & ((1 << AG_FORM_BITS) - 1);
        const uint64_t argument = *run.at >> AG_FORM_BITS;
        run.at++;
        if (form <= AG_FORM_FREE_FAR) {
            get_free(state, &run, form, argument, &ret_events[count]);
        } else if (form <= AG_FORM_ALLOC_FAR) {
            get_alloc(state, &run, form, argument, &ret_events[count]);
        } else if (form == AG_FORM_FREE_SPECIAL) {
            get_special_free(state, &run, argument, &ret_events[count]);
        } else if (argument == AG_OTHER_STAMP) {
            get_stamp(state, &run, &ret_events[count]);
        } else if (argument == AG_OTHER_RECORD) {
            stop = AG_EVENTS_RECORD;
            break;
        } else {
            run.bad = 1;
        }
        if (AG_UNLIKELY(run.bad != 0 || run.at > end)) {
            run.at = event_at;
            stop = AG_EVENTS_DAMAGED;
            break;
        }
        count++;
    }
    decoder->at = run.at;
    state->last_tuple = run.last_tuple;
    state->allocs = run.allocs;
    state->frees = run.frees;
    *ret_count = count;
    return stop;
}

enum ag_events_stop ag_events_decode(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                                     size_t capacity, size_t *ret_count) {
    struct ag_event_state *const state = &decoder->events;
    size_t done = 0;

    while (done < capacity) {
        /* An event adds one tuple at most: as many events may run as there is room for tuples. */
        uint32_t room = state->tuples_capacity - state->n_tuples;
        if (state->tuples_capacity == AG_TUPLES_MAX) {
            room = UINT32_MAX; /* a full table takes no more */
        } else if (room < TUPLES_FIRST / 4) {
            if (!tuples_grow(state)) {
                *ret_count = done;
                return AG_EVENTS_NO_MEMORY;
            }
            room = state->tuples_capacity - state->n_tuples;
        }
        const size_t batch = capacity - done < room ? capacity - done : room;
        size_t count;
        const enum ag_events_stop stop = decode_batch(decoder, ret_events + done, batch, &count);
        done += count;
        if (stop != AG_EVENTS_FULL) {
            *ret_count = done;
            return stop;
        }
    }
    *ret_count = done;
    return AG_EVENTS_FULL;
}
