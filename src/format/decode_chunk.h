/* decode_chunk.h: shared by the files of the decoder. Internal to format. */
#ifndef AG_DECODE_CHUNK_H
#define AG_DECODE_CHUNK_H

#include <zstd.h>

#include "decode.h"
#include "trace_layout.h"

struct ag_trace_file {
    int fd;
    uint64_t n_bytes; /* when it was opened */
    struct ag_file_header header;
    bool has_index;
    struct ag_decode_error damage; /* code AG_DECODE_OK: none */
    struct ag_chunk_entry *entries;
    size_t n_entries, entries_capacity;
};

enum { AG_NO_DECODER_TUPLE = UINT32_MAX };

struct ag_decoder_tuple { /* two to a cache line */
    uint64_t size;
    uint64_t last_address;
    uint32_t stack;
    uint32_t next;
    uint32_t mark; /* set by the reader; UINT32_MAX at first: its number for this stack and via */
    uint8_t via, trust;
    uint16_t reserved;
};

/* The events of one kind (allocations or frees) in this chunk, as the other kind refers to them. */
struct ag_event_track {
    uint32_t n;
    /* place, counted from the chunk's start, that was last referred to; 0 at first */
    uint32_t named_last;
    uint64_t last_address; /* of the newest, 0 at first */
};

/* Everything that an event may refer to. */
struct ag_event_state {
    struct ag_event_track allocs, frees;
    uint32_t n_undone;
    uint32_t n_tuples, tuples_capacity;
    uint32_t last_tuple; /* AG_NO_DECODER_TUPLE before the chunk's first */
    /* an invalid event was decoded and has changed the state: decoding must not continue */
    bool is_damaged;
    uint64_t time_ns;
    uint32_t free_stack;             /* of the frees that follow, 0: unknown */
    struct ag_decoder_tuple loose;   /* a tuple that is not stored because the table is full */
    struct ag_decoder_tuple *tuples; /* grows up to AG_TUPLES_MAX */
    uint64_t alloced
        [AG_NEAR_EVENTS]; /* rings of addresses: place n is at index n & (AG_NEAR_EVENTS - 1) */
    uint64_t freed[AG_NEAR_EVENTS];
};

/* Zero bytes after a body: an event that is cut reads no more than these. */
enum { AG_BODY_PADDING = 64 };

struct ag_chunk_decoder {
    ZSTD_DCtx *decompressor;
    uint8_t *stored,
        /* stored: as in the file, with the chunk header; body: decoded, with AG_BODY_PADDING */
        *body;
    size_t stored_capacity, body_capacity;
    const uint8_t *at, *end; /* in body: at <= end */
    struct ag_chunk_entry entry;
    uint64_t passed_over; /* bit k: records of kind k are skipped */
    void *rows;           /* of the last batch record: AG_BATCH_ROWS of the largest row struct */
    struct ag_event_state events;
};

/* Decodes events until capacity, the end, a record (decoder->at is then at its kind) or damage. */
enum ag_events_stop {
    AG_EVENTS_FULL,
    AG_EVENTS_END,
    AG_EVENTS_RECORD,
    AG_EVENTS_DAMAGED,
    AG_EVENTS_NO_MEMORY
};
enum ag_events_stop ag_events_decode(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                                     size_t capacity, size_t *ret_count);
/* Makes room for new tuples and returns how many events may be decoded before the next call: each
 * may add a tuple. 0: no memory. */
size_t ag_events_make_room(struct ag_event_state *state);
/* Decodes a complete tuple and appends it, or puts it in state->loose when the table is full.
 * Returns where it ends; *ret_bad becomes 1 when it is invalid. */
const uint8_t *ag_decode_new_tuple(struct ag_event_state *state, const uint8_t *at,
                                   uint64_t *ret_bad);
/* The slow path of ag_decode_number_fast. */
const uint8_t *ag_decode_number_slow(const uint8_t *at, uint64_t *ret_value, uint64_t *ret_bad);
void ag_events_start(struct ag_event_state *state, uint64_t first_time_ns);
/* as a chunk header counts events */
uint32_t ag_events_counted(const struct ag_event_state *state);

#endif
