/* encode_events.c: one stream's events to the body of a chunk, at a few nanoseconds each, for the
 * collector.
 *
 * What makes it small before any compression: an allocation mostly gets the address that was freed
 * a few frees ago, a free mostly takes what was allocated a few allocations ago, and which (stack,
 * size, via) comes next mostly repeats what came next the last time. So a common event is one byte:
 * its form and a small distance.
 *
 * What makes it fast: one table for both directions. An address was either allocated or freed when
 * it was last seen, so `recent` maps it to that one event, and each event is one look and one store
 * in the same line. The table is direct-mapped and forgets on collision: then the event is coded as
 * a difference of addresses, longer but true. Serials grow over the encoder's whole life, so a new
 * chunk resets nothing: what is older than the chunk's first serial does not count.
 *
 * docs/trace-format.md section 3 specifies the bytes. */
#include "encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/varint.h"
#include "trace_layout.h"

enum {
    RECENT_BITS = 13, /* twice the reach of a near event: few collisions; 128 KiB, half of an L2 */
    RECENT_SLOTS = 1 << RECENT_BITS,
    TUPLES_FIRST = 256, /* tables start small: a session may have hundreds of encoders */
    NO_TUPLE = UINT32_MAX,
    BATCH_EVENTS = 1024,
    EVENT_MAX_BYTES = 32, /* form, tuple index 3, stack 5, size 10, via 2, address 10 */
};

struct recent { /* the last event at an address */
    uint64_t address;
    uint64_t serial_and_kind; /* serial << 1 | 1 for a free, 0 for an allocation; serials count each
                                 kind */
};

struct tuple { /* what allocations have in common */
    uint64_t size;
    uint64_t last_address; /* allocated last with this tuple */
    uint32_t stack;
    uint32_t next; /* the tuple allocated after this one the last time; itself at first */
    uint32_t via;
    uint32_t reserved;
};

struct ag_event_encoder {
    struct ag_blob body;
    uint64_t n_allocs, n_frees; /* over the encoder's life: the next serials */
    uint64_t first_alloc,
        first_free; /* serials at the chunk's start; both counts start at 1, so 0 is never recent */
    uint64_t last_alloced, last_freed; /* addresses, 0 before the chunk's first */
    uint64_t last_time_ns;
    struct tuple *tuples;
    uint64_t *slots; /* open addressing: chunk number << 32 | tuple index; another chunk number is
                        an empty slot */
    uint32_t n_tuples,
        tuples_capacity;   /* n_tuples <= tuples_capacity; slots are twice the capacity */
    uint32_t last_tuple;   /* of the last allocation, NO_TUPLE before the chunk's first */
    uint32_t chunk_number; /* from 1 */
    uint32_t n_events;
    struct recent recent[RECENT_SLOTS];
};

/* ---- life ---- */

static bool tuples_resize(struct ag_event_encoder *encoder, uint32_t capacity) {
    struct tuple *tuples = realloc(encoder->tuples, capacity * sizeof(*tuples));
    if (tuples == NULL) {
        return false;
    }
    encoder->tuples = tuples;

    uint64_t *slots = calloc((size_t)capacity * 2, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    free(encoder->slots);
    encoder->slots = slots;
    encoder->tuples_capacity = capacity;
    return true;
}

struct ag_event_encoder *ag_event_encoder_new(void) {
    struct ag_event_encoder *encoder = calloc(1, sizeof(*encoder));
    if (encoder == NULL) {
        return NULL;
    }
    encoder->n_allocs = 1;
    encoder->n_frees = 1;
    if (!tuples_resize(encoder, TUPLES_FIRST)) {
        return ag_event_encoder_free(encoder);
    }
    ag_event_encoder_start(encoder, 0);
    return encoder;
}

struct ag_event_encoder *ag_event_encoder_free(struct ag_event_encoder *encoder) {
    if (encoder != NULL) {
        free(encoder->tuples);
        free(encoder->slots);
        ag_blob_done(&encoder->body);
        free(encoder);
    }
    return NULL;
}

void ag_event_encoder_start(struct ag_event_encoder *encoder, uint64_t first_time_ns) {
    encoder->body.length = 0;
    encoder->body.error = 0;
    encoder->first_alloc = encoder->n_allocs;
    encoder->first_free = encoder->n_frees;
    encoder->last_alloced = 0;
    encoder->last_freed = 0;
    encoder->last_time_ns = first_time_ns;
    encoder->n_tuples = 0;
    encoder->last_tuple = NO_TUPLE;
    encoder->n_events = 0;
    encoder->chunk_number++;
    if (encoder->chunk_number == 0) { /* after 2^32 chunks an old slot could look new */
        memset(encoder->slots, 0, (size_t)encoder->tuples_capacity * 2 * sizeof(*encoder->slots));
        encoder->chunk_number = 1;
    }
}

const struct ag_blob *ag_event_encoder_body(const struct ag_event_encoder *encoder) {
    return &encoder->body;
}

uint32_t ag_event_encoder_events(const struct ag_event_encoder *encoder) {
    return encoder->n_events;
}

/* ---- tuples ---- */

AG_FAST uint32_t tuple_hash(const struct ag_event *event) {
    const uint64_t mixed =
        (event->size << 8 | event->via) * UINT64_C(0x9e3779b97f4a7c15) + event->stack;
    return (uint32_t)((mixed * UINT64_C(0xd6e8feb86659fd93)) >> 32);
}

AG_FAST bool tuple_is(const struct tuple *tuple, const struct ag_event *event) {
    return tuple->stack == event->stack && tuple->size == event->size && tuple->via == event->via;
}

static void slot_insert(struct ag_event_encoder *encoder, uint32_t hash, uint32_t index) {
    const uint32_t mask = encoder->tuples_capacity * 2 - 1;
    uint32_t at = hash & mask;

    while (encoder->slots[at] >> 32 == encoder->chunk_number) {
        at = (at + 1) & mask;
    }
    encoder->slots[at] = (uint64_t)encoder->chunk_number << 32 | index;
}

static AG_COLD bool tuples_grow(struct ag_event_encoder *encoder) {
    if (!tuples_resize(encoder, encoder->tuples_capacity * 4)) {
        encoder->body.error = -ENOMEM;
        return false;
    }
    for (uint32_t i = 0; i < encoder->n_tuples; i++) {
        const struct tuple *tuple = &encoder->tuples[i];
        const struct ag_event event = {
            .stack = tuple->stack, .size = tuple->size, .via = (uint8_t)tuple->via};
        slot_insert(encoder, tuple_hash(&event), i);
    }
    return true;
}

/* The tuple's index; n_tuples when it is new. */
AG_FAST uint32_t tuple_find(const struct ag_event_encoder *encoder, const struct ag_event *event,
                            uint32_t hash) {
    const uint32_t mask = encoder->tuples_capacity * 2 - 1;

    for (uint32_t at = hash & mask;; at = (at + 1) & mask) {
        const uint64_t slot = encoder->slots[at];
        if (slot >> 32 != encoder->chunk_number) {
            return encoder->n_tuples;
        }
        if (tuple_is(&encoder->tuples[(uint32_t)slot], event)) {
            return (uint32_t)slot;
        }
    }
}

/* Adds a new tuple while there is room: its index, or NO_TUPLE. */
static AG_NOINLINE uint32_t tuple_add(struct ag_event_encoder *encoder,
                                      const struct ag_event *event, uint32_t hash) {
    const uint32_t index = encoder->n_tuples;

    if (index == AG_TUPLES_MAX || (index == encoder->tuples_capacity && !tuples_grow(encoder))) {
        return NO_TUPLE;
    }
    encoder->tuples[index] = (struct tuple){.stack = event->stack,
                                            .size = event->size,
                                            .via = event->via,
                                            .next = index,
                                            .last_address = 0};
    encoder->n_tuples++;
    slot_insert(encoder, hash, index);
    return index;
}

/* ---- events ---- */

/* Remembers this event at its address. The distance to the event of the other kind there, counted
 * in events of that kind, or a number >= AG_NEAR_EVENTS when there is none to be named. */
AG_FAST uint64_t recent_exchange(struct ag_event_encoder *encoder, uint64_t address,
                                 uint64_t serial, uint32_t is_free, uint64_t n_others,
                                 uint64_t first_other) {
    const uint32_t at =
        (uint32_t)(((address >> 4) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - RECENT_BITS));
    struct recent *recent = &encoder->recent[at];
    const struct recent before = *recent;

    *recent = (struct recent){.address = address, .serial_and_kind = serial << 1 | is_free};
    const uint64_t other = before.serial_and_kind >> 1;
    if (before.address != address || (before.serial_and_kind & 1) == is_free ||
        other < first_other) {
        return UINT64_MAX;
    }
    return n_others - 1 - other;
}

AG_FAST uint8_t form_byte(enum ag_event_form form, uint64_t argument) {
    return (uint8_t)(argument << AG_FORM_BITS | form);
}

/* A difference in units of 16 where it can be: the varint's value; *ret_flags gets AG_FAR_UNSCALED
 * where not. */
AG_FAST uint64_t far_value(uint64_t address, uint64_t base, uint64_t *ret_flags) {
    const uint64_t difference = address - base;
    if ((difference & ((1 << AG_FAR_SHIFT) - 1)) != 0) {
        *ret_flags |= AG_FAR_UNSCALED;
        return ag_zigzag(difference);
    }
    return ag_zigzag(difference) >> AG_FAR_SHIFT;
}

/* Which tuple: *ret_index is NO_TUPLE when the table is full. Writes nothing where the expected one
 * comes. */
AG_FAST uint8_t *put_tuple(struct ag_event_encoder *encoder, uint8_t *at,
                           const struct ag_event *event, uint32_t *ret_index) {
    const uint32_t hash = tuple_hash(event);
    uint32_t index = tuple_find(encoder, event, hash);

    at = ag_varint_put(at, index);
    if (index == encoder->n_tuples) {
        at = ag_varint_put(at, event->stack);
        at = ag_varint_put(at, event->size);
        at = ag_varint_put(at, event->via);
        index = tuple_add(encoder, event, hash);
    }
    if (index != NO_TUPLE && encoder->last_tuple != NO_TUPLE) {
        encoder->tuples[encoder->last_tuple].next = index;
    }
    *ret_index = index;
    return at;
}

AG_FAST uint8_t *put_alloc(struct ag_event_encoder *encoder, uint8_t *at,
                           const struct ag_event *event) {
    uint8_t *const head = at++;
    uint32_t index =
        encoder->last_tuple == NO_TUPLE ? NO_TUPLE : encoder->tuples[encoder->last_tuple].next;
    uint32_t is_given = 0; /* added to the form: the tuple stands in the bytes */

    if (index == NO_TUPLE || !tuple_is(&encoder->tuples[index], event)) {
        at = put_tuple(encoder, at, event, &index);
        is_given = 1;
    }
    const uint64_t distance =
        recent_exchange(encoder, event->address, encoder->n_allocs, /* is_free= */ 0,
                        encoder->n_frees, encoder->first_free);
    encoder->n_allocs++;
    if (AG_LIKELY(distance < AG_NEAR_EVENTS)) {
        if (AG_LIKELY(distance < AG_ARGUMENT_MAX)) {
            *head = form_byte(AG_FORM_ALLOC_NEAR_EXPECTED + is_given, distance);
        } else {
            *head = form_byte(AG_FORM_ALLOC_NEAR_EXPECTED + is_given, AG_ARGUMENT_MAX);
            at = ag_varint_put(at, distance - AG_ARGUMENT_MAX);
        }
    } else {
        uint64_t flags = 0;
        uint64_t value = far_value(event->address, encoder->last_alloced, &flags);
        if (index != NO_TUPLE) {
            uint64_t tuple_flags = AG_FAR_OF_TUPLE;
            const uint64_t tuple_value =
                far_value(event->address, encoder->tuples[index].last_address, &tuple_flags);
            if (tuple_value < value) {
                value = tuple_value;
                flags = tuple_flags;
            }
        }
        *head = form_byte(AG_FORM_ALLOC_FAR_EXPECTED + is_given, flags);
        at = ag_varint_put(at, value);
    }
    encoder->last_alloced = event->address;
    if (index != NO_TUPLE) {
        encoder->tuples[index].last_address = event->address;
        encoder->last_tuple = index;
    }
    return at;
}

AG_FAST uint8_t *put_free(struct ag_event_encoder *encoder, uint8_t *at,
                          const struct ag_event *event) {
    const uint64_t distance =
        recent_exchange(encoder, event->address, encoder->n_frees, /* is_free= */ 1,
                        encoder->n_allocs, encoder->first_alloc);
    encoder->n_frees++;
    if (AG_LIKELY(distance < AG_ARGUMENT_MAX)) {
        *at++ = form_byte(AG_FORM_FREE_NEAR, distance);
    } else if (distance < AG_NEAR_EVENTS) {
        *at++ = form_byte(AG_FORM_FREE_NEAR, AG_ARGUMENT_MAX);
        at = ag_varint_put(at, distance - AG_ARGUMENT_MAX);
    } else {
        uint64_t flags = 0;
        const uint64_t value = far_value(event->address, encoder->last_freed, &flags);
        *at++ = form_byte(AG_FORM_FREE_FAR, flags);
        at = ag_varint_put(at, value);
    }
    encoder->last_freed = event->address;
    return at;
}

static uint8_t *put_realloc_free(struct ag_event_encoder *encoder, uint8_t *at,
                                 const struct ag_event *event) {
    const uint64_t distance =
        recent_exchange(encoder, event->address, encoder->n_frees, /* is_free= */ 1,
                        encoder->n_allocs, encoder->first_alloc);
    encoder->n_frees++;
    if (distance < AG_NEAR_EVENTS) {
        *at++ = form_byte(AG_FORM_FREE_SPECIAL, AG_SPECIAL_NEAR);
        at = ag_varint_put(at, distance);
    } else {
        uint64_t flags = 0;
        const uint64_t value = far_value(event->address, encoder->last_freed, &flags);
        *at++ = form_byte(AG_FORM_FREE_SPECIAL, flags);
        at = ag_varint_put(at, value);
    }
    encoder->last_freed = event->address;
    return at;
}

/* An undone free takes no place among the frees: only its address is told, mostly the one freed
 * last. */
static uint8_t *put_undo_free(const struct ag_event_encoder *encoder, uint8_t *at,
                              const struct ag_event *event) {
    uint64_t flags = AG_SPECIAL_UNDO;
    const uint64_t value = far_value(event->address, encoder->last_freed, &flags);

    *at++ = form_byte(AG_FORM_FREE_SPECIAL, flags);
    return ag_varint_put(at, value);
}

/* Time never goes back in a stream; a clock that was corrected stands still instead. */
static uint8_t *put_stamp(struct ag_event_encoder *encoder, uint8_t *at, uint64_t time_ns) {
    const uint64_t passed_ns =
        time_ns > encoder->last_time_ns ? time_ns - encoder->last_time_ns : 0;

    encoder->last_time_ns += passed_ns;
    *at++ = form_byte(AG_FORM_OTHER, AG_OTHER_STAMP);
    return ag_varint_put(at, passed_ns);
}

/* Encodes events that there is room for; fewer than count when one of them is no event. */
static size_t add_batch(struct ag_event_encoder *encoder, const struct ag_event *events,
                        size_t count) {
    uint8_t *at = encoder->body.data + encoder->body.length;
    size_t done = 0;
    uint32_t n_stamps = 0;

    for (; done < count; done++) {
        const struct ag_event *event = &events[done];
        if (event->kind == AG_RECORD_ALLOC) {
            at = put_alloc(encoder, at, event);
        } else if (event->kind == AG_RECORD_FREE) {
            at = put_free(encoder, at, event);
        } else if (event->kind == AG_RECORD_STAMP) {
            at = put_stamp(encoder, at, event->size);
            n_stamps++;
        } else if (event->kind == AG_RECORD_REALLOC_FREE) {
            at = put_realloc_free(encoder, at, event);
        } else if (event->kind == AG_RECORD_UNDO_FREE) {
            at = put_undo_free(encoder, at, event);
        } else {
            break;
        }
    }
    encoder->body.length = (size_t)(at - encoder->body.data);
    encoder->n_events += (uint32_t)done - n_stamps;
    return done;
}

int ag_event_encoder_add(struct ag_event_encoder *encoder, const struct ag_event *events,
                         size_t count) {
    for (size_t done = 0; done < count;) {
        const size_t batch = count - done < BATCH_EVENTS ? count - done : BATCH_EVENTS;
        if (encoder->body.length + batch * EVENT_MAX_BYTES > AG_CHUNK_MAX_BYTES) {
            return -EMSGSIZE;
        }
        if (!ag_blob_reserve(&encoder->body, batch * EVENT_MAX_BYTES)) {
            return encoder->body.error;
        }
        if (add_batch(encoder, events + done, batch) != batch) {
            return -EINVAL;
        }
        done += batch;
    }
    return encoder->body.error;
}

int ag_event_encoder_add_record(struct ag_event_encoder *encoder, const struct ag_record *record) {
    if (!ag_blob_reserve(&encoder->body, 1)) {
        return encoder->body.error;
    }
    const size_t start = encoder->body.length;
    encoder->body.data[encoder->body.length++] = form_byte(AG_FORM_OTHER, AG_OTHER_RECORD);
    const int r = ag_record_append(&encoder->body, record);
    if (r < 0) {
        encoder->body.length = start;
        return r;
    }
    if (encoder->body.length > AG_CHUNK_MAX_BYTES) {
        encoder->body.length = start;
        return -EMSGSIZE;
    }
    return 0;
}
