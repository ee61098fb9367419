/* encode_fast.h: encodes the events of one stream (one thread) to the body of a chunk, one at a
 * time, at a few nanoseconds each. Used by encode_events.c, and by the writer's loop that encodes
 * and counts each event while the event is in registers (writer/one_pass.c).
 *
 * Size. Most allocations get the address of a recent free, and most frees are of a recent
 * allocation. Consecutive frees often refer to consecutive allocations: a loop over an array frees
 * its elements in the order in which they were allocated. A tuple is the stack, the size and the
 * allocation function (via) of an allocation; a given tuple is mostly followed by the same tuple as
 * the last time. So a common event takes one byte: its form and a small number.
 *
 * Speed. One table, `recent`, is used for allocations and for frees. It maps an address to the last
 * event at this address, which was either an allocation or a free. So each event costs one lookup
 * and one store in the same cache line. The table is direct-mapped: if another address has replaced
 * the entry of an address, the event is encoded as a difference of addresses, which is longer but
 * correct. Serials (numbers of events) increase over the encoder's whole life, so a new chunk need
 * not clear the table: an entry whose serial is below the first serial of the chunk is ignored.
 * Where the choice between the common cases depends on the recorded data, the code selects without
 * a branch, because one misprediction costs as much as the rest of an event.
 *
 * docs/reference/trace-format.md section 3 specifies the bytes. */
#ifndef AG_ENCODE_FAST_H
#define AG_ENCODE_FAST_H

#include <string.h>

#include "base/compiler.h"
#include "base/keyed_hash.h"
#include "base/little_endian.h"
#include "base/varint.h"
#include "encode.h"
#include "trace_layout.h"

enum {
    /* log2 of the slots of `recent`: 2 * AG_NEAR_EVENTS slots (128 KiB), so there are few
     * collisions */
    AG_RECENT_BITS = 13,
    AG_RECENT_SLOTS = 1 << AG_RECENT_BITS,
    /* the most bytes: 1 for the form, 3 for the tuple index, 5 for the stack, 10 for the size, 2
     * for the via, 10 for the address; and 8 that ag_encode_number_fast may write after a number */
    AG_EVENT_MAX_BYTES = 40,
};
#define AG_NO_TUPLE UINT32_MAX

struct ag_encoder_recent { /* the last event at an address */
    uint64_t address;
    /* serial << 1 | (1 for a free, 0 for an allocation); allocations and frees are numbered
     * separately */
    uint64_t serial_and_kind;
};

struct ag_encoder_tuple { /* what several allocations have in common */
    uint64_t size;
    uint64_t last_address; /* address of the last allocation with this tuple */
    uint32_t stack;
    /* index of the tuple that is expected after this tuple; at first its own index */
    uint32_t next;
    uint32_t via;
    /* confidence in `next`: +1 if `next` was right, -1 if `next` was wrong; if `next` is wrong
     * while trust is 0, `next` is replaced */
    uint32_t trust;
};

/* The allocations, or the frees. A free refers to an earlier allocation, and an allocation to an
 * earlier free, by its serial. */
struct ag_encoder_track {
    /* the next serial. It is never reset, and starts at 1, so that an empty entry (serial 0) is
     * never recent */
    uint64_t n;
    uint64_t first;        /* serial of the chunk's first event */
    uint64_t named_last;   /* the serial to which an event referred last */
    uint64_t last_address; /* address of the newest event; 0 before the chunk's first event */
};

struct ag_event_encoder {
    struct ag_blob body;
    struct ag_encoder_track allocs, frees;
    uint64_t last_time_ns;
    uint32_t free_stack; /* the stack of the frees that follow in the chunk; 0: unknown */
    struct ag_encoder_tuple *tuples;
    /* open addressing: chunk number << 32 | tuple index; a slot of another chunk number is empty */
    uint64_t *slots;
    uint32_t n_tuples, tuples_capacity; /* there are 2 * tuples_capacity slots */
    /* tuple of the last allocation whose tuple is in the table; AG_NO_TUPLE before the chunk's
     * first allocation */
    uint32_t last_tuple;
    uint32_t chunk_number; /* number of the chunk among those of this encoder, from 1 */
    uint32_t n_events;
    struct ag_encoder_recent recent[AG_RECENT_SLOTS];
};

/* ---- tuples ---- */

AG_FAST uint32_t ag_encoder_tuple_hash(const struct ag_event *event) {
    const uint64_t mixed = event->size * ag_hash_key.first +
                           ((uint64_t)event->stack << 8 | event->via) * ag_hash_key.mask;
    return (uint32_t)((mixed ^ mixed >> 32) * ag_hash_key.second >> 32);
}

AG_FAST bool ag_encoder_tuple_is(const struct ag_encoder_tuple *tuple,
                                 const struct ag_event *event) {
    return tuple->stack == event->stack && tuple->size == event->size && tuple->via == event->via;
}

/* Adds a new tuple. Returns its index, or AG_NO_TUPLE if there is no room. */
uint32_t ag_encoder_tuple_add(struct ag_event_encoder *encoder, const struct ag_event *event,
                              uint32_t hash);

/* Returns the index of the event's tuple; n_tuples if the tuple is new. */
AG_FAST uint32_t ag_encoder_tuple_find(const struct ag_event_encoder *encoder,
                                       const struct ag_event *event, uint32_t hash) {
    const uint32_t mask = encoder->tuples_capacity * 2 - 1;

    for (uint32_t at = hash & mask;; at = (at + 1) & mask) {
        const uint64_t slot = encoder->slots[at];
        if (slot >> 32 != encoder->chunk_number) {
            return encoder->n_tuples;
        }
        if (ag_encoder_tuple_is(&encoder->tuples[(uint32_t)slot], event)) {
            return (uint32_t)slot;
        }
    }
}

/* ---- bytes ---- */

/* Encodes a varint. For numbers below 2^56 there is no branch on the length: the function
 * distributes groups of 7 bits to bytes and always writes 8 bytes. Returns the byte after the
 * varint. */
AG_FAST uint8_t *ag_encode_number_fast(uint8_t *at, uint64_t value) {
    if (AG_UNLIKELY(value >> 56 != 0)) {
        return ag_varint_put(at, value);
    }
    const unsigned n_bytes = (AG_BITS(value | 1) * 9 + 64) >> 6; /* bits / 7, rounded up */
    uint64_t word = value;
    word = (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x00fffffff0000000)) << 4;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x0fffc0000fffc000)) << 2;
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x3f803f803f803f80)) << 1;
    word |= UINT64_C(0x0080808080808080) & ((UINT64_C(1) << (8 * n_bytes - 8)) - 1);
    ag_put_64(at, word);
    return at + n_bytes;
}

AG_FAST uint8_t ag_encode_form_byte(enum ag_event_form form, uint64_t argument) {
    return (uint8_t)(argument << AG_FORM_BITS | form);
}

/* ---- events ---- */

/* The state that changes with every event; in registers between ag_encode_begin_fast and
 * ag_encode_end_fast. */
struct ag_encoder_run {
    uint8_t *at;
    uint32_t last_tuple;
    struct ag_encoder_track allocs, frees;
};

/* Stores this event in `recent` and adds it to its track. Returns the serial of the previous event
 * at this address if it is of the other kind (for a free an allocation, for an allocation a free)
 * and near; else 0. */
AG_FAST uint64_t ag_encode_recent_fast(struct ag_event_encoder *encoder,
                                       struct ag_encoder_track *track,
                                       const struct ag_encoder_track *other, uint64_t address,
                                       uint32_t is_free) {
    const uint32_t at =
        (uint32_t)(((address >> 4) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - AG_RECENT_BITS));
    struct ag_encoder_recent *recent = &encoder->recent[at];
    const struct ag_encoder_recent before = *recent;

    *recent =
        (struct ag_encoder_recent){.address = address, .serial_and_kind = track->n << 1 | is_free};
    track->n++;
    track->last_address = address;
    const uint64_t serial = before.serial_and_kind >> 1;
    const bool is_near = (before.address == address) & ((before.serial_and_kind & 1) != is_free) &
                         (serial >= other->first) & (other->n - 1 - serial < AG_NEAR_EVENTS);
    return is_near ? serial : 0;
}

/* Encodes a reference to the event `serial` of the track: writes the form byte at HEAD, and a
 * varint for a long distance. If one byte is enough, no branch depends on the kind of reference. */
AG_FAST void ag_encode_near_fast(struct ag_encoder_run *run, struct ag_encoder_track *track,
                                 uint64_t serial, enum ag_event_form form, uint8_t *head) {
    const uint64_t distance = track->n - 1 - serial;
    const uint64_t neighbour =
        serial - track->named_last + AG_NEAR_NEIGHBOURS; /* 0 to 7 or 9 to 16, if the event is a
                                                          * neighbor */
    const bool is_neighbour =
        (neighbour <= 2 * AG_NEAR_NEIGHBOURS) & (neighbour != AG_NEAR_NEIGHBOURS);
    uint64_t argument = is_neighbour
                            ? AG_NEAR_DISTANCES + neighbour - (neighbour > AG_NEAR_NEIGHBOURS)
                            : AG_NEAR_LONG;

    argument = distance < AG_NEAR_DISTANCES ? distance : argument;
    track->named_last = serial;
    *head = ag_encode_form_byte(form, argument);
    if (AG_UNLIKELY(argument == AG_NEAR_LONG)) {
        run->at = ag_encode_number_fast(run->at, distance - AG_NEAR_DISTANCES);
    }
}

/* Returns the value of the varint for the difference of two addresses. The unit is 16 bytes if the
 * difference is a multiple of 16; else it is 1 byte, and AG_FAR_UNSCALED is set in *ret_flags. */
AG_FAST uint64_t ag_encode_far_value(uint64_t address, uint64_t base, uint64_t *ret_flags) {
    const uint64_t difference = address - base;
    if (AG_UNLIKELY((difference & ((1 << AG_FAR_SHIFT) - 1)) != 0)) {
        *ret_flags |= AG_FAR_UNSCALED;
        return ag_zigzag(difference);
    }
    return ag_zigzag(difference) >> AG_FAR_SHIFT;
}

AG_FAST void ag_encode_far_fast(struct ag_encoder_run *run, uint64_t address, uint64_t base,
                                enum ag_event_form form, uint64_t flags, uint8_t *head) {
    const uint64_t value = ag_encode_far_value(address, base, &flags);

    *head = ag_encode_form_byte(form, flags);
    run->at = ag_encode_number_fast(run->at, value);
}

/* Encodes the tuple of an event: its index, and the tuple itself if it is new. Returns its index,
 * or AG_NO_TUPLE if the table is full. */
AG_FAST uint32_t ag_encode_tuple_fast(struct ag_event_encoder *encoder, struct ag_encoder_run *run,
                                      const struct ag_event *event) {
    const uint32_t hash = ag_encoder_tuple_hash(event);
    const uint32_t index = ag_encoder_tuple_find(encoder, event, hash);

    run->at = ag_encode_number_fast(run->at, index);
    if (index == encoder->n_tuples) {
        run->at = ag_encode_number_fast(run->at, event->stack);
        run->at = ag_encode_number_fast(run->at, event->size);
        run->at = ag_encode_number_fast(run->at, event->via);
        return ag_encoder_tuple_add(encoder, event, hash);
    }
    return index;
}

/* Returns the index of the event's tuple, or AG_NO_TUPLE. *ret_is_given: 0 if the tuple is the
 * expected tuple; else 1, and the tuple was encoded. */
AG_FAST uint32_t ag_encode_expected_fast(struct ag_event_encoder *encoder,
                                         struct ag_encoder_run *run, const struct ag_event *event,
                                         uint32_t *ret_is_given) {
    *ret_is_given = 1;
    if (AG_UNLIKELY(run->last_tuple == AG_NO_TUPLE)) {
        return ag_encode_tuple_fast(encoder, run, event);
    }
    struct ag_encoder_tuple *last = &encoder->tuples[run->last_tuple];
    if (AG_LIKELY(ag_encoder_tuple_is(&encoder->tuples[last->next], event))) {
        last->trust += last->trust < AG_TRUST_MAX;
        *ret_is_given = 0;
        return last->next;
    }
    const uint32_t index = ag_encode_tuple_fast(encoder, run, event);
    if (AG_LIKELY(index != AG_NO_TUPLE)) {
        last = &encoder->tuples[run->last_tuple]; /* the table may have moved */
        last->next = last->trust == 0 ? index : last->next;
        last->trust -= last->trust != 0;
    }
    return index;
}

/* Encodes an allocation. Returns the index of its tuple, or AG_NO_TUPLE if the table of tuples is
 * full. Indexes are given in the order of first use in the chunk, from 0. */
AG_FAST uint32_t ag_encode_alloc_fast(struct ag_event_encoder *encoder, struct ag_encoder_run *run,
                                      const struct ag_event *event) {
    uint8_t *const head = run->at++;
    uint32_t is_given; /* 0 or 1, which is added to the form */
    const uint32_t index = ag_encode_expected_fast(encoder, run, event, &is_given);
    const uint64_t base = run->allocs.last_address;
    const uint64_t serial =
        ag_encode_recent_fast(encoder, &run->allocs, &run->frees, event->address, /* is_free= */ 0);
    struct ag_encoder_tuple *tuple = index == AG_NO_TUPLE ? NULL : &encoder->tuples[index];

    if (AG_LIKELY(serial != 0)) {
        ag_encode_near_fast(run, &run->frees, serial, AG_FORM_ALLOC_NEAR_EXPECTED + is_given, head);
    } else {
        const enum ag_event_form form = AG_FORM_ALLOC_FAR_EXPECTED + is_given;
        uint64_t flags = 0, tuple_flags = 0;
        const uint64_t value = ag_encode_far_value(event->address, base, &flags);
        if (tuple != NULL &&
            ag_encode_far_value(event->address, tuple->last_address, &tuple_flags) < value) {
            ag_encode_far_fast(run, event->address, tuple->last_address, form, AG_FAR_OF_TUPLE,
                               head);
        } else {
            ag_encode_far_fast(run, event->address, base, form, /* flags= */ 0, head);
        }
    }
    if (AG_LIKELY(tuple != NULL)) {
        tuple->last_address = event->address;
        run->last_tuple = index;
    }
    return index;
}

AG_FAST void ag_encode_free_fast(struct ag_event_encoder *encoder, struct ag_encoder_run *run,
                                 const struct ag_event *event) {
    uint8_t *const head = run->at++;
    const uint64_t base = run->frees.last_address;
    const uint64_t serial =
        ag_encode_recent_fast(encoder, &run->frees, &run->allocs, event->address, /* is_free= */ 1);

    if (AG_LIKELY(serial != 0)) {
        ag_encode_near_fast(run, &run->allocs, serial, AG_FORM_FREE_NEAR, head);
    } else {
        ag_encode_far_fast(run, event->address, base, AG_FORM_FREE_FAR, /* flags= */ 0, head);
    }
}

AG_FAST void ag_encode_realloc_free_fast(struct ag_event_encoder *encoder,
                                         struct ag_encoder_run *run, const struct ag_event *event) {
    uint8_t *const head = run->at++;
    const uint64_t base = run->frees.last_address;
    const uint64_t serial =
        ag_encode_recent_fast(encoder, &run->frees, &run->allocs, event->address, /* is_free= */ 1);

    if (serial != 0) {
        *head = ag_encode_form_byte(AG_FORM_FREE_SPECIAL, AG_SPECIAL_NEAR);
        run->at = ag_encode_number_fast(run->at, run->allocs.n - 1 - serial);
        run->allocs.named_last = serial;
    } else {
        ag_encode_far_fast(run, event->address, base, AG_FORM_FREE_SPECIAL, /* flags= */ 0, head);
    }
}

/* An undone free (a free that did not happen) is not added to the track of frees. Only its address
 * is encoded, which mostly is the address that was freed last. */
AG_FAST void ag_encode_undo_free_fast(struct ag_encoder_run *run, const struct ag_event *event) {
    uint8_t *const head = run->at++;

    ag_encode_far_fast(run, event->address, run->frees.last_address, AG_FORM_FREE_SPECIAL,
                       AG_SPECIAL_UNDO, head);
}

/* Times in a stream never decrease: if the clock goes back, the time stays the same until the clock
 * has reached it again. */
AG_FAST void ag_encode_stamp_fast(struct ag_event_encoder *encoder, struct ag_encoder_run *run,
                                  uint64_t time_ns) {
    const uint64_t passed_ns =
        time_ns > encoder->last_time_ns ? time_ns - encoder->last_time_ns : 0;

    encoder->last_time_ns += passed_ns;
    *run->at++ = ag_encode_form_byte(AG_FORM_OTHER, AG_OTHER_STAMP);
    run->at = ag_encode_number_fast(run->at, passed_ns);
}

/* Makes room for n_events events; must be called before ag_encode_begin_fast. Returns 0, -EMSGSIZE
 * or -ENOMEM, as ag_event_encoder_add does. */
int ag_encode_reserve(struct ag_event_encoder *encoder, size_t n_events);

AG_FAST void ag_encode_begin_fast(const struct ag_event_encoder *encoder,
                                  struct ag_encoder_run *ret_run) {
    *ret_run = (struct ag_encoder_run){.at = encoder->body.data + encoder->body.length,
                                       .last_tuple = encoder->last_tuple,
                                       .allocs = encoder->allocs,
                                       .frees = encoder->frees};
}

/* n_events: the number of encoded events, without stamps (times). */
AG_FAST void ag_encode_end_fast(struct ag_event_encoder *encoder, const struct ag_encoder_run *run,
                                uint32_t n_events) {
    encoder->body.length = (size_t)(run->at - encoder->body.data);
    encoder->last_tuple = run->last_tuple;
    encoder->allocs = run->allocs;
    encoder->frees = run->frees;
    encoder->n_events += n_events;
}

#endif
