/* decode_fast.h: decodes the body of an event chunk (a compressed part of the trace), one event at
 * a time. decode_events.c uses it to fill arrays. The model's loop (model/pass/straight_pass.c)
 * uses it to apply each event while the event is in registers.
 *
 * The decoder is fast for two reasons. First, zero bytes follow the body, and a zero byte ends any
 * number. So the end of the body is tested once per event, not at each byte. Second, the state
 * (counts, last addresses) is in local variables during a run, the decoding of a sequence of
 * events:
 *
 *     ag_decode_begin_fast
 *     for each event: ag_decode_form_fast, then the function of the form
 *     ag_decode_end_fast
 *
 * A tuple is the stack, the size and the allocation function (via) of an allocation; the tuples of
 * a chunk are numbered. An allocation either contains the number of its tuple, or has the tuple
 * that the decoder predicts. A track is the sequence of the chunk's allocations, or of its frees;
 * the place of an event is its number in its track, from 0. An allocation may refer to an earlier
 * free, and a free to an earlier allocation, by a distance: the number of events of that track
 * after the earlier event. A ring keeps the addresses of the track's latest events. The form of an
 * event, the low bits of its first byte, says which of these references it contains. No byte is
 * trusted: a distance must be less than the number of events of the track so far and less than the
 * ring's size; a tuple's number must be at most that of the next new tuple; a chunk's first
 * allocation must contain the number of its tuple. A violation sets run.bad; then the caller must
 * not use the event. Section 3 of docs/reference/trace-format.md specifies the bytes and explains
 * tuples, places and forms. */
#ifndef AG_DECODE_FAST_H
#define AG_DECODE_FAST_H

#include "base/compiler.h"
#include "base/little_endian.h"
#include "base/varint.h"
#include "decode_chunk.h"

enum { AG_NEAR_MASK = AG_NEAR_EVENTS - 1 };

/* The state that changes with every event; in registers during a run. */
struct ag_decoder_run {
    const uint8_t *at;
    uint64_t bad; /* not 0: damage was found; the caller tests it once per event */
    uint32_t last_tuple;
    struct ag_event_track allocs, frees;
};

AG_FAST void ag_decode_begin_fast(const struct ag_chunk_decoder *decoder,
                                  struct ag_decoder_run *ret_run) {
    *ret_run = (struct ag_decoder_run){.at = decoder->at,
                                       .last_tuple = decoder->events.last_tuple,
                                       .allocs = decoder->events.allocs,
                                       .frees = decoder->events.frees};
}

AG_FAST void ag_decode_end_fast(struct ag_chunk_decoder *decoder,
                                const struct ag_decoder_run *run) {
    decoder->at = run->at;
    decoder->events.last_tuple = run->last_tuple;
    decoder->events.allocs = run->allocs;
    decoder->events.frees = run->frees;
}

/* Reads the first byte of an event. Returns the form of the event; the argument is the rest of the
 * byte. */
AG_FAST uint64_t ag_decode_form_fast(struct ag_decoder_run *run, uint64_t *ret_argument) {
    const uint64_t byte = *run->at++;
    *ret_argument = byte >> AG_FORM_BITS;
    return byte & ((1 << AG_FORM_BITS) - 1);
}

/* ---- numbers ---- */

/* Decodes a varint of the padded body. Lengths from 2 to 8 bytes are decoded without a branch.
 * *ret_bad becomes 1 if the number exceeds 64 bits. */
AG_FAST const uint8_t *ag_decode_number_fast(const uint8_t *at, uint64_t *ret_value,
                                             uint64_t *ret_bad) {
    if (AG_LIKELY(at[0] < 0x80)) {
        *ret_value = at[0];
        return at + 1;
    }
    uint64_t word = ag_get_64(at);
    const uint64_t ends = ~word & UINT64_C(0x8080808080808080);
    if (AG_UNLIKELY(ends == 0)) {
        return ag_decode_number_slow(at, ret_value, ret_bad);
    }
    /* Keep the bytes up to the first byte that ends a number. Then remove the unused bits between
     * the groups: pairs of 7 bits become 14 bits, pairs of 14 become 28, and those of 28 become
     * 56. */
    word &= ends ^ (ends - 1);
    word &= UINT64_C(0x7f7f7f7f7f7f7f7f);
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    word = (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
    *ret_value = word;
    return at + AG_TRAILING_ZEROS(ends) / 8 + 1;
}

/* ---- addresses ---- */

/* Decodes the difference of an address to BASE; returns the address. */
AG_FAST uint64_t ag_decode_far_fast(struct ag_decoder_run *run, uint64_t base, uint64_t flags) {
    uint64_t value;
    run->at = ag_decode_number_fast(run->at, &value, &run->bad);
    const uint64_t difference = ag_unzigzag(value);
    return base + ((flags & AG_FAR_UNSCALED) != 0 ? difference : difference << AG_FAR_SHIFT);
}

/* Returns the address of the event at `place` of the track. The event must be one of the track's
 * last AG_NEAR_EVENTS. */
AG_FAST uint64_t ag_decode_place_fast(struct ag_decoder_run *run, struct ag_event_track *track,
                                      const uint64_t *ring, uint32_t place) {
    const uint32_t distance = track->n - 1 - place; /* an invalid place wraps to a large number */
    if (AG_UNLIKELY(distance >= track->n || distance >= AG_NEAR_EVENTS)) {
        run->bad = 1;
    }
    track->named_last = place;
    return ring[place & AG_NEAR_MASK];
}

/* Returns the address of a near event: an event among the last AG_NEAR_EVENTS of the track. An
 * argument below AG_NEAR_DISTANCES is the distance of the event's place from the newest place.
 * AG_NEAR_LONG means that a longer distance follows as a number. Other arguments mean an offset
 * from the place to which an event referred last. */
AG_FAST uint64_t ag_decode_near_fast(struct ag_decoder_run *run, struct ag_event_track *track,
                                     const uint64_t *ring, uint64_t argument) {
    static const int8_t offsets[] = {-1,  -2,  -3,  -4,  -5, -6, -7, -8, -9, -10, -11,
                                     -12, -13, -14, -15, -8, -7, -6, -5, -4, -3,  -2,
                                     -1,  1,   2,   3,   4,  5,  6,  7,  8,  0};

    uint32_t place =
        (argument < AG_NEAR_DISTANCES ? track->n : track->named_last) + (uint32_t)offsets[argument];
    if (AG_UNLIKELY(argument == AG_NEAR_LONG)) {
        uint64_t rest;
        run->at = ag_decode_number_fast(run->at, &rest, &run->bad);
        run->bad |= rest > AG_NEAR_EVENTS; /* the sum must not wrap */
        place = track->n - 1 - AG_NEAR_DISTANCES - (uint32_t)rest;
    }
    return ag_decode_place_fast(run, track, ring, place);
}

/* ---- events ---- */

/* Returns the tuple of an allocation. is_given 0: the tuple is the successor of the last
 * allocation's tuple; 1: the bytes contain the number of the tuple, and the tuple itself if it is
 * new. Updates the predicted successor of the last allocation's tuple, and the counter that says
 * how reliable this prediction was (trust). The result is never NULL; at damage the content of the
 * tuple is arbitrary. */
AG_FAST struct ag_decoder_tuple *ag_decode_tuple_fast(struct ag_event_state *state,
                                                      struct ag_decoder_run *run,
                                                      uint64_t is_given) {
    struct ag_decoder_tuple *const tuples = state->tuples;
    struct ag_decoder_tuple *const last =
        AG_LIKELY(run->last_tuple != AG_NO_DECODER_TUPLE) ? &tuples[run->last_tuple] : NULL;
    if (!is_given) {
        if (AG_UNLIKELY(!last)) {
            run->bad = 1;
            return &state->loose;
        }
        last->trust += last->trust < AG_TRUST_MAX;
        run->last_tuple = last->next;
        return &tuples[last->next];
    }
    uint64_t given;
    run->at = ag_decode_number_fast(run->at, &given, &run->bad);
    if (AG_UNLIKELY(given >= state->n_tuples)) {
        if (given > state->n_tuples) {
            run->bad = 1;
            return &state->loose;
        }
        run->at = ag_decode_new_tuple(state, run->at, &run->bad);
        if (AG_UNLIKELY(given == AG_TUPLES_MAX)) {
            /* the table is full: the tuple has no number, so it does not become the last tuple */
            return &state->loose;
        }
    }
    if (AG_LIKELY(last != NULL)) {
        last->next = last->trust == 0 ? (uint32_t)given : last->next;
        last->trust -= last->trust != 0;
    }
    run->last_tuple = (uint32_t)given;
    return &tuples[given];
}

/* Decodes an allocation. Returns its tuple. The table must have room for one more tuple
 * (ag_events_make_room). */
AG_FAST struct ag_decoder_tuple *ag_decode_alloc_fast(struct ag_event_state *state,
                                                      struct ag_decoder_run *run, uint64_t form,
                                                      uint64_t argument, uint64_t *ret_address) {
    struct ag_decoder_tuple *const tuple = ag_decode_tuple_fast(state, run, form & 1);
    uint64_t address;

    if (AG_LIKELY(form < AG_FORM_ALLOC_FAR_EXPECTED)) {
        address = ag_decode_near_fast(run, &run->frees, state->freed, argument);
    } else {
        const uint64_t base =
            (argument & AG_FAR_OF_TUPLE) != 0 ? tuple->last_address : run->allocs.last_address;
        address = ag_decode_far_fast(run, base, argument);
    }
    state->alloced[run->allocs.n & AG_NEAR_MASK] = address;
    run->allocs.n++;
    run->allocs.last_address = address;
    tuple->last_address = address;
    *ret_address = address;
    return tuple;
}

/* Adds a free to its track. */
AG_FAST void ag_decode_note_free_fast(struct ag_event_state *state, struct ag_decoder_run *run,
                                      uint64_t address) {
    state->freed[run->frees.n & AG_NEAR_MASK] = address;
    run->frees.n++;
    run->frees.last_address = address;
}

/* Decodes a free. Returns the address. */
AG_FAST uint64_t ag_decode_free_fast(struct ag_event_state *state, struct ag_decoder_run *run,
                                     uint64_t form, uint64_t argument) {
    const uint64_t address = AG_LIKELY(form == AG_FORM_FREE_NEAR)
                                 ? ag_decode_near_fast(run, &run->allocs, state->alloced, argument)
                                 : ag_decode_far_fast(run, run->frees.last_address, argument);
    ag_decode_note_free_fast(state, run, address);
    return address;
}

/* Decodes a realloc_free (the free in a realloc) or an undo_free (a free that did not happen).
 * Returns the address. */
AG_FAST uint64_t ag_decode_special_fast(struct ag_event_state *state, struct ag_decoder_run *run,
                                        uint64_t argument, uint8_t *ret_kind) {
    uint64_t address;

    if ((argument & AG_SPECIAL_NEAR) != 0) {
        uint64_t distance;
        run->at = ag_decode_number_fast(run->at, &distance, &run->bad);
        run->bad |= distance > AG_NEAR_EVENTS; /* the sum must not wrap */
        address = ag_decode_place_fast(run, &run->allocs, state->alloced,
                                       run->allocs.n - 1 - (uint32_t)distance);
    } else {
        address = ag_decode_far_fast(run, run->frees.last_address, argument);
    }
    if ((argument & AG_SPECIAL_UNDO) != 0) {
        state->n_undone++;
        *ret_kind = AG_RECORD_UNDO_FREE;
    } else {
        ag_decode_note_free_fast(state, run, address);
        *ret_kind = AG_RECORD_REALLOC_FREE;
    }
    return address;
}

/* Decodes a stamp (the time of the events that follow). Returns its time, which the caller stores
 * in state->time_ns if it accepts the stamp. */
AG_FAST uint64_t ag_decode_stamp_fast(const struct ag_event_state *state,
                                      struct ag_decoder_run *run) {
    uint64_t passed_ns;
    run->at = ag_decode_number_fast(run->at, &passed_ns, &run->bad);
    run->bad |= passed_ns > UINT64_MAX - state->time_ns;
    return state->time_ns + passed_ns;
}

#endif
