/* decode_chunk.h: the structs of the decoder, for the decoding files of src/format, and for the
 * loop over events in src/model, which uses decode_fast.h. */
#ifndef AG_DECODE_CHUNK_H
#define AG_DECODE_CHUNK_H

#include <zstd.h>

#include "decode.h"
#include "trace_layout.h"

struct ag_trace_file {
    int fd;
    uint64_t n_bytes; /* size of the file when it was opened */
    struct ag_file_header header;
    /* `chunks` was read from a valid index; false: it was made by reading all chunk headers */
    bool has_index;
    struct ag_decode_error damage;      /* code AG_DECODE_OK: none */
    struct ag_chunk_list chunks;        /* in the order of the file */
    const struct ag_progress *progress; /* NULL: reading is not reported */
};

enum { AG_NO_DECODER_TUPLE = UINT32_MAX };

/* What several allocations of a chunk have in common: the stack, the size and `via`, the number of
 * the allocation function ("Tuples" in section 3 of trace-format.md). Two tuples fit into a cache
 * line. */
struct ag_decoder_tuple {
    uint64_t size;
    uint64_t last_address; /* address of the last allocation with this tuple; 0: none */
    uint32_t stack;
    /* index of the successor, the tuple that is expected after this tuple; at first the tuple's own
     * index */
    uint32_t next;
    /* free for the caller of the decoder, who stores its own number of (stack, via) here;
     * UINT32_MAX at first */
    uint32_t mark;
    uint8_t via;
    uint8_t trust; /* confidence that `next` is right, 0 to AG_TRUST_MAX */
    uint16_t reserved;
};

/* The allocations, or the frees, that were decoded in this chunk. The place of an event is its
 * number among the events of its track, from 0. A free refers to an earlier allocation, and an
 * allocation to an earlier free, by the place of the earlier event. */
struct ag_event_track {
    uint32_t n;            /* number of events so far */
    uint32_t named_last;   /* the place to which an event referred last; 0 at first */
    uint64_t last_address; /* address of the newest event of the track; 0 at first */
};

/* Everything in this chunk that an event may refer to. */
struct ag_event_state {
    struct ag_event_track allocs, frees;
    uint32_t n_undone; /* number of undo_free events (frees that did not happen) */
    uint32_t n_tuples, tuples_capacity;
    /* index of the tuple of the last allocation whose tuple is not in `loose`; AG_NO_DECODER_TUPLE:
     * none yet */
    uint32_t last_tuple;
    /* an invalid event was decoded and has changed the state: decoding must not continue */
    bool is_damaged;
    uint64_t time_ns;              /* time of the last stamp; at first the chunk's first_time_ns */
    uint32_t free_stack;           /* the stack of the frees that follow; 0: unknown */
    struct ag_decoder_tuple loose; /* a tuple that is not stored because the table is full */
    struct ag_decoder_tuple *tuples; /* grows up to AG_TUPLES_MAX */
    /* rings of addresses of the last allocations and frees: the address of place n is at index n &
     * (AG_NEAR_EVENTS - 1) */
    uint64_t alloced[AG_NEAR_EVENTS], freed[AG_NEAR_EVENTS];
};

/* The number of zero bytes after a body. If the last event of a body is incomplete, the decoder
 * reads beyond the body, but only these bytes. */
enum { AG_BODY_PADDING = 64 };

struct ag_chunk_decoder {
    ZSTD_DCtx *decompressor;
    uint8_t *stored; /* the bytes of the chunk in the file, with its header */
    uint8_t *body;   /* the decompressed body, then AG_BODY_PADDING zero bytes */
    size_t stored_capacity, body_capacity;
    /* [at, end): the bytes of the body that are not decoded yet; at <= end */
    const uint8_t *at, *end;
    struct ag_chunk_entry entry; /* of the started chunk */
    uint64_t passed_over;        /* bit k: records of kind k are skipped */
    /* rows of the last batch (a record with rows); room for AG_BATCH_ROWS rows of the largest
     * struct */
    void *rows;
    struct ag_event_state events;
};

/* Why ag_events_decode stopped. */
enum ag_events_stop {
    AG_EVENTS_FULL,   /* `capacity` events were decoded */
    AG_EVENTS_END,    /* the body ends */
    AG_EVENTS_RECORD, /* a record follows: decoder->at is at its kind */
    AG_EVENTS_DAMAGED,
    AG_EVENTS_NO_MEMORY
};
/* Decodes at most `capacity` events. */
enum ag_events_stop ag_events_decode(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                                     size_t capacity, size_t *ret_count);
/* Makes room for new tuples. Each event may add a tuple, so the result is the number of events that
 * may be decoded before the next call; 0: no memory. */
size_t ag_events_make_room(struct ag_event_state *state);
/* Decodes the stack, size and via of a new tuple, and appends it to the table, or puts it in
 * state->loose if the table is full. Returns the address after the tuple; *ret_bad becomes 1 if the
 * tuple is invalid. */
const uint8_t *ag_decode_new_tuple(struct ag_event_state *state, const uint8_t *at,
                                   uint64_t *ret_bad);
/* The slow path of ag_decode_number_fast. */
const uint8_t *ag_decode_number_slow(const uint8_t *at, uint64_t *ret_value, uint64_t *ret_bad);
void ag_events_start(struct ag_event_state *state, uint64_t first_time_ns);
/* The number of events decoded so far, counted as in a chunk header: without stamps (times) and
 * without the rare events that are encoded as records (MOVE ...). */
uint32_t ag_events_counted(const struct ag_event_state *state);

#endif
