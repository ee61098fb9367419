/* decode_chunk.h: what the files of the decoder share. Inside format only. */
#ifndef AG_DECODE_CHUNK_H
#define AG_DECODE_CHUNK_H

#include <zstd.h>

#include "decode.h"
#include "trace_layout.h"

enum { AG_NO_DECODER_TUPLE = UINT32_MAX };

struct ag_decoder_tuple { /* two to a cache line */
    uint64_t size;
    uint64_t last_address;
    uint32_t stack;
    uint32_t next;
    uint32_t mark; /* the reader's own, UINT32_MAX at first: what it knows of this stack and via */
    uint8_t via, trust;
    uint16_t reserved;
};

/* The events of one kind (allocations or frees) in this chunk, as the other kind refers to them. */
struct ag_event_track {
    uint32_t n;
    uint32_t named_last; /* the place, counted from the chunk's start, that was referred to last; 0
                            at first */
    uint64_t last_address; /* of the newest, 0 at first */
};

/* All that an event may refer to. */
struct ag_event_state {
    struct ag_event_track allocs, frees;
    uint32_t n_undone;
    uint32_t n_tuples, tuples_capacity;
    uint32_t last_tuple; /* AG_NO_DECODER_TUPLE before the chunk's first */
    bool is_damaged; /* what was seen of an event that is none has left its traces here: no further
                      */
    uint64_t time_ns;
    uint32_t free_stack;             /* of the frees that come, 0: not known */
    struct ag_decoder_tuple loose;   /* the one that is not remembered: the table is full */
    struct ag_decoder_tuple *tuples; /* grows up to AG_TUPLES_MAX */
    uint64_t
        alloced[AG_NEAR_EVENTS]; /* rings of addresses: place n is at n & (AG_NEAR_EVENTS - 1) */
    uint64_t freed[AG_NEAR_EVENTS];
};

/* Zero bytes behind a body: an event that is cut reads at most as many. */
enum { AG_BODY_PADDING = 64 };

struct ag_chunk_decoder {
    ZSTD_DCtx *decompressor;
    uint8_t *stored,
        *body; /* as in the file, with the chunk header; decoded, with AG_BODY_PADDING */
    size_t stored_capacity, body_capacity;
    const uint8_t *at, *end; /* in body: at <= end */
    struct ag_chunk_entry entry;
    uint64_t passed_over; /* bit k: records of kind k are not decoded */
    void *rows; /* of the batch record that was decoded last: AG_BATCH_ROWS of the longest struct */
    struct ag_event_state events;
};

/* Decodes events until capacity, the end, a record (decoder->at then stands at its kind) or damage.
 */
enum ag_events_stop {
    AG_EVENTS_FULL,
    AG_EVENTS_END,
    AG_EVENTS_RECORD,
    AG_EVENTS_DAMAGED,
    AG_EVENTS_NO_MEMORY
};
enum ag_events_stop ag_events_decode(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                                     size_t capacity, size_t *ret_count);
/* How many events may be decoded before this is asked again: each may add a tuple, and there is
 * room for them. 0: no memory for more. */
size_t ag_events_make_room(struct ag_event_state *state);
/* A tuple in full, behind the last ones, or in state->loose when the table is full. Returns where
 * it ends; *ret_bad gets 1 when it is none. */
const uint8_t *ag_decode_new_tuple(struct ag_event_state *state, const uint8_t *at,
                                   uint64_t *ret_bad);
/* The slow half of ag_decode_number_fast. */
const uint8_t *ag_decode_number_slow(const uint8_t *at, uint64_t *ret_value, uint64_t *ret_bad);
void ag_events_start(struct ag_event_state *state, uint64_t first_time_ns);
uint32_t ag_events_counted(const struct ag_event_state *state); /* as a chunk header counts them */

/* Decodes the record at decoder->at. 1: *ret_record is filled; 0: of an unknown kind, passed over;
 * negative errno with *ret_code and *ret_kind. */
int ag_record_decode(struct ag_chunk_decoder *decoder, struct ag_record *ret_record,
                     enum ag_decode_code *ret_code, uint32_t *ret_kind);

#endif
