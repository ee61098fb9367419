/* chunk_feed.h: the events of a trace, stream by stream in blocks, decoded ahead by other threads;
 * or whole chunks, read, checked and decompressed ahead, for a consumer that decodes on its own.
 *
 * One thread consumes. It asks for a stream's next block; the chunks that come next in time are
 * being decompressed and decoded meanwhile. Memory: two blocks and one decoder for each chunk that
 * is open: the current ones of streams that were asked for, and a few ahead. */
#ifndef AG_CHUNK_FEED_H
#define AG_CHUNK_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "format/decode.h"

enum {
    AG_FEED_EVENTS = 2048, /* 64 KiB a block: two of them and the ledger's tables fit L2 */
    AG_FEED_MAPS = 64,
};
struct ag_feed_map { /* MAP or UNMAP among the events */
    uint64_t time_ns, address, bytes;
    uint32_t via;
    uint32_t kind; /* enum ag_record_kind */
};
struct ag_feed_block {
    size_t count, n_maps;
    uint64_t
        interval_bytes;   /* of a sampled trace: that these allocations were chosen with; 0: all */
    uint32_t extra_bytes; /* and what a block counted with beyond its size */
    struct ag_event events[AG_FEED_EVENTS]; /* the consumer may change them */
    struct ag_feed_map maps[AG_FEED_MAPS];
};
/* Notes a MAP or UNMAP, of which there is room for one more; ignores other records. */
void ag_feed_block_add_map(struct ag_feed_block *block, const struct ag_record *record,
                           uint64_t time_ns);
struct ag_feed_stream {
    uint32_t stream, thread_id;
    uint64_t first_time_ns; /* of its first chunk that is wanted */
};
struct ag_feed_piece { /* what ag_chunk_feed_next gives */
    struct ag_feed_block *block;
    struct ag_chunk_decoder *chunk; /* at its first event */
    uint64_t next_ns;
};

struct ag_chunk_feed;
/* FILE stays the caller's. N_THREADS: beside the caller's own; 0: it decodes itself. */
int ag_chunk_feed_new(const struct ag_trace_file *file, size_t n_threads,
                      struct ag_chunk_feed **ret_feed);
/* Limits the feed to events from FROM_NS to below TO_NS: a stream begins with its last chunk that
 * starts before FROM_NS, and chunks that start at TO_NS or later are not read ahead. Called before
 * the first call of next. */
void ag_chunk_feed_narrow(struct ag_chunk_feed *feed, uint64_t from_ns, uint64_t to_ns);
struct ag_chunk_feed *ag_chunk_feed_free(struct ag_chunk_feed *feed);
size_t ag_chunk_feed_streams(const struct ag_chunk_feed *feed,
                             const struct ag_feed_stream **ret_streams);
/* Whether chunks opened from now on are delivered in blocks (the default), or whole. */
enum ag_feed_way { AG_FEED_IN_BLOCKS, AG_FEED_WHOLE };
void ag_chunk_feed_go(struct ag_chunk_feed *feed, enum ag_feed_way way);
/* What is next of streams[index], valid until the next call for that stream. AG_FEED_BLOCK: a
 * block; AG_FEED_CHUNK: a chunk, after which the next call goes on, decoded to its end or not;
 * AG_FEED_PAUSE: a chunk has ended, next_ns says when the next one starts, which is not opened
 * before the next call; AG_FEED_END: the stream has ended; -ENOMEM. */
enum ag_feed_answer { AG_FEED_END = 0, AG_FEED_BLOCK = 1, AG_FEED_PAUSE = 2, AG_FEED_CHUNK = 3 };
int ag_chunk_feed_next(struct ag_chunk_feed *feed, size_t index, struct ag_feed_piece *ret_piece);
/* The block that was delivered last is no longer used. A chunk that ends with it is closed at once,
 * and not at the next call for its stream: of a thousand streams most wait for their time. */
void ag_chunk_feed_return(struct ag_chunk_feed *feed, size_t index);
/* The first damage so far, code AG_DECODE_OK: none. The rest of that chunk is left out. A consumer
 * that decodes a whole chunk notes damage inside it. */
void ag_chunk_feed_note_damage(struct ag_chunk_feed *feed, const struct ag_decode_error *error);
struct ag_feed_damage {
    struct ag_decode_error first;
    uint64_t chunks, events, bytes; /* of damaged chunks; what their headers say */
};
struct ag_feed_damage ag_chunk_feed_damage(struct ag_chunk_feed *feed);

#endif
