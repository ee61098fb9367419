/* chunk_feed.h: delivers the events of a trace to one thread, the consumer, in blocks for each
 * stream (the events of one thread of the program). Other threads decode the chunks (the compressed
 * pieces of the trace) before the consumer needs them. A consumer that decodes events itself can
 * instead get whole chunks, which other threads have read, checked and decompressed.
 *
 * While the consumer works on a block, other threads decompress and decode the chunks that follow
 * in time. Each open chunk needs the memory of two blocks and one decoder. The open chunks are the
 * current chunks of the streams that the consumer asked for, and a few later chunks. */
#ifndef AG_CHUNK_FEED_H
#define AG_CHUNK_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "format/decode.h"

enum {
    AG_FEED_EVENTS = 2048, /* two blocks fit into the L2 cache, with the tables of the code that
                            * computes sums from the events */
    AG_FEED_MAPS = 64,
};
struct ag_feed_map { /* a MAP or UNMAP record between the events */
    uint64_t time_ns, address, bytes;
    /* rises in the order in which records are delivered; set by the consumer */
    uint64_t number;
    uint32_t stream, thread_id; /* stream and id of the thread that made the call; set by the
                                 * consumer */
    uint32_t stack, via, protection, flags;
    uint32_t kind; /* enum ag_record_kind */
};
struct ag_feed_block {
    size_t count, n_maps;
    /* sampling interval of the allocations in this block; 0: all allocations were recorded */
    uint64_t interval_bytes;
    /* the sampler adds this to the size of each allocated block when it counts bytes */
    uint32_t extra_bytes;
    struct ag_event events[AG_FEED_EVENTS]; /* the consumer may change the events */
    struct ag_feed_map maps[AG_FEED_MAPS];
};
/* Adds a MAP or UNMAP record to the block, which must have room for it; ignores other records. */
void ag_feed_block_add_map(struct ag_feed_block *block, const struct ag_record *record,
                           uint64_t time_ns);
struct ag_feed_stream {
    uint32_t stream, thread_id;
    uint64_t first_time_ns; /* start of the first chunk that is read */
};
struct ag_feed_piece { /* the result of ag_chunk_feed_next */
    struct ag_feed_block *block;
    struct ag_chunk_decoder *chunk; /* a decoder positioned at the first event of the chunk */
    uint64_t next_ns;
};

struct ag_chunk_feed;
/* The caller still owns FILE. N_THREADS: number of decoding threads in addition to the caller's; 0:
 * only the caller's thread decodes. Returns 0 or -ENOMEM. */
int ag_chunk_feed_new(const struct ag_trace_file *file, size_t n_threads,
                      struct ag_chunk_feed **ret_feed);
/* For a consumer that needs only the events from FROM_NS until before TO_NS. Each stream then
 * begins with its last chunk that starts before FROM_NS. Chunks that start at TO_NS or later are
 * not opened early, but are delivered if the consumer asks for them. Call it before the first
 * ag_chunk_feed_next. */
void ag_chunk_feed_narrow(struct ag_chunk_feed *feed, uint64_t from_ns, uint64_t to_ns);
struct ag_chunk_feed *ag_chunk_feed_free(struct ag_chunk_feed *feed);
size_t ag_chunk_feed_streams(const struct ag_chunk_feed *feed,
                             const struct ag_feed_stream **ret_streams);
/* Returns the stored bytes of the chunks that start before TO_NS, without those that
 * ag_chunk_feed_narrow skips. */
uint64_t ag_chunk_feed_bytes(const struct ag_chunk_feed *feed, uint64_t to_ns);
/* ag_chunk_feed_go sets how chunks that are opened after the call are delivered: in blocks of
 * decoded events (the default), or whole. */
enum ag_feed_way { AG_FEED_IN_BLOCKS, AG_FEED_WHOLE };
void ag_chunk_feed_go(struct ag_chunk_feed *feed, enum ag_feed_way way);
/* Returns the kind of the next piece of streams[INDEX], or -ENOMEM. The piece is valid until the
 * next call for this stream. AG_FEED_BLOCK: a block of events. AG_FEED_CHUNK: a whole chunk; the
 * next call continues after the chunk, even if the caller has not decoded all of it. AG_FEED_PAUSE:
 * a chunk has ended; the next chunk starts at next_ns, and the next call opens that chunk.
 * AG_FEED_END: the stream has ended. */
enum ag_feed_answer { AG_FEED_END = 0, AG_FEED_BLOCK = 1, AG_FEED_PAUSE = 2, AG_FEED_CHUNK = 3 };
int ag_chunk_feed_next(struct ag_chunk_feed *feed, size_t index, struct ag_feed_piece *ret_piece);
/* Gives back the last block of streams[INDEX]. If the block was the last of its chunk, closes the
 * chunk now, and not only at the next call of ag_chunk_feed_next for this stream. Closing it early
 * saves memory if there are a thousand streams, most of which continue much later. */
void ag_chunk_feed_return(struct ag_chunk_feed *feed, size_t index);
/* Adds damage to ag_chunk_feed_damage. A consumer that decodes a whole chunk calls this function
 * when the decoder reports damage. The rest of a damaged chunk is skipped. */
void ag_chunk_feed_note_damage(struct ag_chunk_feed *feed, const struct ag_decode_error *error);
struct ag_feed_damage {
    struct ag_decode_error first;
    /* sums over all damaged chunks; events and bytes are those in the headers of the chunks */
    uint64_t chunks, events, bytes;
};
struct ag_feed_damage ag_chunk_feed_damage(struct ag_chunk_feed *feed);

#endif
