/* encode_events.c: creates and frees event encoders, manages their tuples, and encodes arrays of
 * events; encode_fast.h encodes a single event. */
#include "encode_fast.h"

#include <errno.h>
#include <stdlib.h>

enum {
    TUPLES_FIRST = 256, /* small, because there may be hundreds of encoders (one per thread) */
    BATCH_EVENTS = 1024,
};

/* ---- life ---- */

static bool tuples_resize(struct ag_event_encoder *encoder, uint32_t capacity) {
    struct ag_encoder_tuple *tuples = realloc(encoder->tuples, capacity * sizeof(*tuples));
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
    encoder->allocs.n = 1;
    encoder->frees.n = 1;
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

static void track_start(struct ag_encoder_track *track) {
    track->first = track->n;
    track->named_last = track->n;
    track->last_address = 0;
}

void ag_event_encoder_start(struct ag_event_encoder *encoder, uint64_t first_time_ns) {
    encoder->body.length = 0;
    encoder->body.error = 0;
    track_start(&encoder->allocs);
    track_start(&encoder->frees);
    encoder->last_time_ns = first_time_ns;
    encoder->free_stack = 0;
    encoder->n_tuples = 0;
    encoder->last_tuple = AG_NO_TUPLE;
    encoder->n_events = 0;
    encoder->chunk_number++;
    /* the number has wrapped: a slot of an old chunk could have the same number */
    if (encoder->chunk_number == 0) {
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
        const struct ag_encoder_tuple *tuple = &encoder->tuples[i];
        const struct ag_event event = {
            .stack = tuple->stack, .size = tuple->size, .via = (uint8_t)tuple->via};
        slot_insert(encoder, ag_encoder_tuple_hash(&event), i);
    }
    return true;
}

uint32_t ag_encoder_tuple_add(struct ag_event_encoder *encoder, const struct ag_event *event,
                              uint32_t hash) {
    const uint32_t index = encoder->n_tuples;

    if (index == AG_TUPLES_MAX || (index == encoder->tuples_capacity && !tuples_grow(encoder))) {
        return AG_NO_TUPLE;
    }
    encoder->tuples[index] = (struct ag_encoder_tuple){.stack = event->stack,
                                                       .size = event->size,
                                                       .via = event->via,
                                                       .next = index,
                                                       .last_address = 0};
    encoder->n_tuples++;
    slot_insert(encoder, hash, index);
    return index;
}

/* ---- events ---- */

AG_FAST bool is_free(const struct ag_event *event) {
    return event->kind == AG_RECORD_FREE || event->kind == AG_RECORD_REALLOC_FREE;
}

/* Encodes events for which there is room. Returns the number of encoded events. It is less than
 * `count` if the next event is not one of the common kinds, or is a free whose stack differs from
 * that of the previous free. */
static size_t add_batch(struct ag_event_encoder *encoder, const struct ag_event *events,
                        size_t count) {
    struct ag_encoder_run run;
    ag_encode_begin_fast(encoder, &run);
    size_t done = 0;
    uint32_t n_stamps = 0;

    for (; done < count; done++) {
        const struct ag_event *event = &events[done];
        if (event->kind == AG_RECORD_ALLOC) {
            ag_encode_alloc_fast(encoder, &run, event);
        } else if (is_free(event) && event->stack != encoder->free_stack) {
            break;
        } else if (event->kind == AG_RECORD_FREE) {
            ag_encode_free_fast(encoder, &run, event);
        } else if (event->kind == AG_RECORD_STAMP) {
            ag_encode_stamp_fast(encoder, &run, event->size);
            n_stamps++;
        } else if (event->kind == AG_RECORD_REALLOC_FREE) {
            ag_encode_realloc_free_fast(encoder, &run, event);
        } else if (event->kind == AG_RECORD_UNDO_FREE) {
            ag_encode_undo_free_fast(&run, event);
        } else {
            break;
        }
    }
    ag_encode_end_fast(encoder, &run, (uint32_t)done - n_stamps);
    return done;
}

int ag_encode_reserve(struct ag_event_encoder *encoder, size_t n_events) {
    if (encoder->body.length + n_events * AG_EVENT_MAX_BYTES > AG_CHUNK_MAX_BYTES) {
        return -EMSGSIZE;
    }
    return ag_blob_reserve(&encoder->body, n_events * AG_EVENT_MAX_BYTES) ? 0 : encoder->body.error;
}

/* Appends a record with the stack of the frees that follow. */
static int add_free_stack(struct ag_event_encoder *encoder, uint32_t stack) {
    const struct ag_record record = {.kind = AG_RECORD_FREE_STACK, .u.free_stack.stack = stack};
    encoder->free_stack = stack;
    return ag_event_encoder_add_record(encoder, &record);
}

/* Encodes a rare event (one that a garbage collector reported, or a reset) as a record among the
 * events. */
static int add_of_block(struct ag_event_encoder *encoder, const struct ag_event *event) {
    struct ag_record record = {.kind = (enum ag_record_kind)event->kind};
    switch (record.kind) {
    case AG_RECORD_MOVE:
        record.u.move.address = event->address;
        record.u.move.to = event->size;
        break;
    case AG_RECORD_PROMOTE:
        record.u.promote.address = event->address;
        break;
    case AG_RECORD_COLLECT:
        record.u.collect.address = event->address;
        break;
    case AG_RECORD_BLOCK_TYPE:
        record.u.block_type.address = event->address;
        record.u.block_type.size = event->size;
        record.u.block_type.stack = event->stack;
        break;
    case AG_RECORD_RESET:
        break;
    default:
        return -EINVAL;
    }
    return ag_event_encoder_add_record(encoder, &record);
}

int ag_event_encoder_add(struct ag_event_encoder *encoder, const struct ag_event *events,
                         size_t count) {
    for (size_t done = 0; done < count;) {
        const size_t batch = count - done < BATCH_EVENTS ? count - done : BATCH_EVENTS;
        int r = ag_encode_reserve(encoder, batch);
        if (r < 0) {
            return r;
        }
        const size_t added = add_batch(encoder, events + done, batch);
        done += added;
        if (added < batch) {
            const bool is_of_block = !is_free(&events[done]);
            r = is_of_block ? add_of_block(encoder, &events[done])
                            : add_free_stack(encoder, events[done].stack);
            if (r < 0) {
                return r;
            }
            done += is_of_block;
        }
    }
    return encoder->body.error;
}

int ag_event_encoder_add_record(struct ag_event_encoder *encoder, const struct ag_record *record) {
    if (!ag_blob_reserve(&encoder->body, 1)) {
        return encoder->body.error;
    }
    const size_t start = encoder->body.length;
    encoder->body.data[encoder->body.length++] =
        ag_encode_form_byte(AG_FORM_OTHER, AG_OTHER_RECORD);
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
