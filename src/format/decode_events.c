/* decode_events.c: decodes the body of an event chunk (a compressed part of the trace) to an array
 * of events. decode_fast.h decodes a single event, and explains tuples and forms. encode_events.c
 * does the inverse. */
#include <errno.h>
#include <stdlib.h>

#include "decode_fast.h"

enum { TUPLES_FIRST = 256 };

void ag_events_start(struct ag_event_state *state, uint64_t first_time_ns) {
    state->allocs = (struct ag_event_track){0};
    state->frees = (struct ag_event_track){0};
    state->n_undone = 0;
    state->n_tuples = 0;
    state->last_tuple = AG_NO_DECODER_TUPLE;
    state->is_damaged = false;
    state->free_stack = 0;
    state->time_ns = first_time_ns;
}

uint32_t ag_events_counted(const struct ag_event_state *state) {
    return state->allocs.n + state->frees.n + state->n_undone;
}

/* ---- tuples ---- */

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

size_t ag_events_make_room(struct ag_event_state *state) {
    if (state->tuples_capacity == AG_TUPLES_MAX) {
        return SIZE_MAX; /* further tuples are not stored */
    }
    if (state->tuples_capacity - state->n_tuples < TUPLES_FIRST / 4 && !tuples_grow(state)) {
        return 0;
    }
    return state->tuples_capacity - state->n_tuples;
}

const uint8_t *ag_decode_new_tuple(struct ag_event_state *state, const uint8_t *at,
                                   uint64_t *ret_bad) {
    uint64_t stack, size, via;
    at = ag_decode_number_fast(at, &stack, ret_bad);
    at = ag_decode_number_fast(at, &size, ret_bad);
    at = ag_decode_number_fast(at, &via, ret_bad);
    *ret_bad |= (uint64_t)(stack > UINT32_MAX) | (uint64_t)(via > UINT8_MAX);

    const bool is_full = state->n_tuples == AG_TUPLES_MAX;
    struct ag_decoder_tuple *tuple = is_full ? &state->loose : &state->tuples[state->n_tuples];
    *tuple = (struct ag_decoder_tuple){.stack = (uint32_t)stack,
                                       .size = size,
                                       .via = (uint8_t)via,
                                       .mark = UINT32_MAX,
                                       .next = state->n_tuples};
    state->n_tuples += !is_full;
    return at;
}

AG_COLD const uint8_t *ag_decode_number_slow(const uint8_t *at, uint64_t *ret_value,
                                             uint64_t *ret_bad) {
    const uint8_t *next = ag_varint_get(at, at + AG_VARINT_MAX_BYTES, ret_value);
    if (next == NULL) {
        *ret_value = 0;
        *ret_bad = 1;
        return at;
    }
    return next;
}

/* ---- events ---- */

AG_FAST void get_alloc(struct ag_event_state *state, struct ag_decoder_run *run, uint64_t form,
                       uint64_t argument, struct ag_event *ret_event) {
    uint64_t address;
    const struct ag_decoder_tuple *tuple =
        ag_decode_alloc_fast(state, run, form, argument, &address);
    *ret_event = (struct ag_event){.address = address,
                                   .size = tuple->size,
                                   .stack = tuple->stack,
                                   .kind = AG_RECORD_ALLOC,
                                   .via = tuple->via};
}

AG_FAST void get_free(struct ag_event_state *state, struct ag_decoder_run *run, uint64_t form,
                      uint64_t argument, struct ag_event *ret_event) {
    const uint64_t address = ag_decode_free_fast(state, run, form, argument);
    *ret_event =
        (struct ag_event){.address = address, .stack = state->free_stack, .kind = AG_RECORD_FREE};
}

AG_FAST void get_special_free(struct ag_event_state *state, struct ag_decoder_run *run,
                              uint64_t argument, struct ag_event *ret_event) {
    uint8_t kind;
    const uint64_t address = ag_decode_special_fast(state, run, argument, &kind);
    const uint32_t stack = kind == AG_RECORD_REALLOC_FREE ? state->free_stack : 0;
    *ret_event = (struct ag_event){.address = address, .stack = stack, .kind = kind};
}

AG_FAST void get_stamp(struct ag_event_state *state, struct ag_decoder_run *run,
                       struct ag_event *ret_event) {
    state->time_ns = ag_decode_stamp_fast(state, run);
    *ret_event = (struct ag_event){.size = state->time_ns, .kind = AG_RECORD_STAMP};
}

/* Decodes at most `capacity` events, for which the table of tuples has room. */
static enum ag_events_stop decode_batch(struct ag_chunk_decoder *decoder,
                                        struct ag_event *ret_events, size_t capacity,
                                        size_t *ret_count) {
    struct ag_event_state *const state = &decoder->events;
    const uint8_t *const end = decoder->end;
    struct ag_decoder_run run;
    enum ag_events_stop stop = AG_EVENTS_FULL;
    size_t count = 0;

    ag_decode_begin_fast(decoder, &run);
    while (count < capacity) {
        if (AG_UNLIKELY(run.at >= end)) {
            stop = AG_EVENTS_END;
            break;
        }
        const uint8_t *const event_at = run.at;
        uint64_t argument;
        const uint64_t form = ag_decode_form_fast(&run, &argument);
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
            state->is_damaged = true;
            stop = AG_EVENTS_DAMAGED;
            break;
        }
        count++;
    }
    ag_decode_end_fast(decoder, &run);
    *ret_count = count;
    return stop;
}

enum ag_events_stop ag_events_decode(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                                     size_t capacity, size_t *ret_count) {
    size_t done = 0;

    if (AG_UNLIKELY(decoder->events.is_damaged)) {
        *ret_count = 0;
        return AG_EVENTS_DAMAGED;
    }
    while (done < capacity) {
        const size_t room = ag_events_make_room(&decoder->events);
        if (room == 0) {
            *ret_count = done;
            return AG_EVENTS_NO_MEMORY;
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
