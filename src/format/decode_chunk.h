/* decode_chunk.h: the decoder's structs, for the files of format that decode, and for the model's
 * loop over events (decode_fast.h). */
#ifndef AG_DECODE_CHUNK_H
#define AG_DECODE_CHUNK_H

#include <zstd.h>

#include "decode.h"
#include "trace_layout.h"

struct ag_trace_file {
    int fd;
    uint64_t n_bytes; /* size of the file when it was opened */
    struct ag_file_header header;
    bool has_index;                /* `chunks` is from a valid index, not from a walk */
    struct ag_decode_error damage; /* code AG_DECODE_OK: none */
    struct ag_chunk_list chunks;   /* in the order of the file */
};

enum { AG_NO_DECODER_TUPLE = UINT32_MAX };

/* What several allocations of a chunk have in common: stack, size and via ("Tuples" in section 3 of
 * trace-format.md). Two to a cache line. */
struct ag_decoder_tuple {
    uint64_t size;
    uint64_t last_address; /* of the last allocation with this tuple; 0: none */
    uint32_t stack;
    uint32_t next; /* index of its successor, the tuple expected after it; at first its own */
    uint32_t mark; /* for the reader's own number of (stack, via); UINT32_MAX at first */
    uint8_t via;
    uint8_t trust; /* in the successor, 0 to AG_TRUST_MAX */
    uint16_t reserved;
};

/* The allocations, or the frees, that were decoded in this chunk. Events of the other kind refer to
 * them by their place: 0 is the first in the chunk. */
struct ag_event_track {
    uint32_t n;            /* number of events so far */
    uint32_t named_last;   /* place that was last referred to; 0 at first */
    uint64_t last_address; /* of the newest event, 0 at first */
};

/* Everything in this chunk that an event may refer to. */
struct ag_event_state {
    struct ag_event_track allocs, frees;
    uint32_t n_undone; /* number of undo_free events */
    uint32_t n_tuples, tuples_capacity;
    uint32_t last_tuple; /* the last that has a number; AG_NO_DECODER_TUPLE: none yet */
    /* an invalid event was decoded and has changed the state: decoding must not continue */
    bool is_damaged;
    uint64_t time_ns;
    uint32_t free_stack;             /* of the frees that follow, 0: unknown */
    struct ag_decoder_tuple loose;   /* a tuple that is not stored because the table is full */
    struct ag_decoder_tuple *tuples; /* grows up to AG_TUPLES_MAX */
    /* rings of addresses: that of place n is at index n & (AG_NEAR_EVENTS - 1) */
    uint64_t alloced[AG_NEAR_EVENTS], freed[AG_NEAR_EVENTS];
};

/* Zero bytes after a body. The decoder of an event that is cut reads only these beyond the end. */
enum { AG_BODY_PADDING = 64 };

struct ag_chunk_decoder {
    ZSTD_DCtx *decompressor;
    uint8_t *stored; /* the chunk as in the file, with its header */
    uint8_t *body;   /* the decompressed body, then AG_BODY_PADDING zero bytes */
    size_t stored_capacity, body_capacity;
    const uint8_t *at, *end;     /* in body: what is not decoded yet; at <= end */
    struct ag_chunk_entry entry; /* of the started chunk */
    uint64_t passed_over;        /* bit k: records of kind k are skipped */
    void *rows; /* of the last batch record: AG_BATCH_ROWS of the largest row struct */
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
/* Makes room for new tuples. Returns how many events may be decoded before the next call, because
 * each of them may add a tuple; 0: no memory. */
size_t ag_events_make_room(struct ag_event_state *state);
/* Decodes the stack, size and via of a new tuple, and appends it to the table, or puts it in
 * state->loose if the table is full. Returns the byte after it; *ret_bad becomes 1 if it is
 * invalid. */
const uint8_t *ag_decode_new_tuple(struct ag_event_state *state, const uint8_t *at,
                                   uint64_t *ret_bad);
/* The slow path of ag_decode_number_fast. */
const uint8_t *ag_decode_number_slow(const uint8_t *at, uint64_t *ret_value, uint64_t *ret_bad);
void ag_events_start(struct ag_event_state *state, uint64_t first_time_ns);
/* The number of events decoded so far, counted as in a chunk header: without stamps and records. */
uint32_t ag_events_counted(const struct ag_event_state *state);

#endif
