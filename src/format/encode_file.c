/* encode_file.c: writes chunks, index and footer to a trace file, which is a readable trace after
 * every write.
 *
 * 1. Invariant
 *
 *     | file header | whole chunk | ... | whole chunk | perhaps an incomplete chunk |
 *
 * A chunk is written by one pwrite, header and bytes together, after the last whole chunk. If the
 * writer is killed between two writes, the file contains only whole chunks. If it is killed during
 * a write, there is an incomplete chunk at the end. Readers detect this chunk by lengths and
 * hashes, and ag_trace_writer_resume removes it. The index and the footer are written last; they
 * only make reading faster.
 *
 * 2. Failure
 *
 * A write that fails (disk full, RLIMIT_FSIZE, quota) may leave a part of a chunk. So the file is
 * truncated to its last whole chunk. The error is stored, and each later call returns it. The
 * process must ignore SIGXFSZ.
 *
 * 3. Compression
 *
 * One context compresses all chunks, at level 1. The table has two numbers for each level, bytes
 * per event and CPU nanoseconds per event, and one number without zstd, bytes per event. Measured
 * on four recorded programs, with chunks of 20,000 events and zstd 1.5.4, on a 3.6 GHz EPYC:
 *
 *     level      -5            -1             1             2             3       without zstd
 *     cfrac   0.54  3.0     0.46  3.5     0.41  3.7     0.42  3.6     0.39  4.4   1.27
 *     espresso 1.91 3.6     1.70  6.0     1.55  8.0     1.48 10.0     1.47 15.3   2.40
 *     script  1.42  3.4     1.30  4.7     1.12  5.4     1.11  7.5     1.09 11.2   2.35
 *     jq      0.58  2.9     0.40  3.2     0.36  3.5     0.36  3.5     0.35  4.5   2.35
 *
 * Level 3 takes up to twice the time of level 1 and saves at most 5 % of the bytes; level -5 makes
 * files 23 to 61 % larger.
 *
 * The hash table of level 1 (64 KiB for chunks of 20,000 events) leaves no room in an L1 cache for
 * the bodies that it indexes. With a table of 16 KiB (ZSTD_HASH_LOG), chunks of 80,000 events of
 * espresso take 6.8 ns instead of 8.3 ns per event, and the file is 2 % larger. */
#include "encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/little_endian.h"
#include "base/varint.h"
#include "trace_layout.h"

enum {
    ZSTD_LEVEL = 1, /* see section 3 */
    ZSTD_HASH_LOG = 12,
    STREAMS_FIRST = 64,
};

struct stream_end { /* a slot of a hash table by stream (thread); last_sequence -1: the slot is
                     * empty */
    uint32_t stream;
    int64_t last_sequence;
};

struct ag_trace_writer {
    int fd;
    int error;    /* 0, or the error of the first failed write */
    uint64_t end; /* file offset of the end of the last whole chunk */
    ZSTD_CCtx *compressor;
    uint8_t *buffer; /* one chunk: header and stored bytes */
    size_t buffer_bytes;
    struct ag_chunk_list chunks; /* the whole chunks in the file */
    struct stream_end *streams;
    /* streams_capacity: a power of two, at least 2 * n_streams */
    size_t n_streams, streams_capacity;
};

/* ---- lists of what is in the file ---- */

static struct stream_end *stream_slot(struct stream_end *streams, size_t capacity,
                                      uint32_t stream) {
    size_t at = (stream * UINT32_C(0x9e3779b1)) & (capacity - 1);

    while (streams[at].last_sequence >= 0 && streams[at].stream != stream) {
        at = (at + 1) & (capacity - 1);
    }
    return &streams[at];
}

static int streams_grow(struct ag_trace_writer *writer) {
    const size_t capacity =
        writer->streams_capacity == 0 ? STREAMS_FIRST : writer->streams_capacity * 2;
    struct stream_end *streams = malloc(capacity * sizeof(*streams));
    if (streams == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < capacity; i++) {
        streams[i] = (struct stream_end){.last_sequence = -1};
    }
    for (size_t i = 0; i < writer->streams_capacity; i++) {
        if (writer->streams[i].last_sequence >= 0) {
            *stream_slot(streams, capacity, writer->streams[i].stream) = writer->streams[i];
        }
    }
    free(writer->streams);
    writer->streams = streams;
    writer->streams_capacity = capacity;
    return 0;
}

static int note_sequences(struct ag_trace_writer *writer, const struct ag_chunk_entry *entry) {
    if (entry->kind != AG_CHUNK_KIND_EVENTS || entry->sequences == 0) {
        return 0;
    }
    const uint64_t last = entry->first_sequence + entry->sequences - 1;
    if (last > INT64_MAX) {
        return -EBADMSG;
    }
    if (writer->n_streams * 2 >= writer->streams_capacity) {
        const int r = streams_grow(writer);
        if (r < 0) {
            return r;
        }
    }
    struct stream_end *end = stream_slot(writer->streams, writer->streams_capacity, entry->stream);
    if (end->last_sequence < 0) {
        writer->n_streams++;
        end->stream = entry->stream;
    }
    if ((int64_t)last > end->last_sequence) {
        end->last_sequence = (int64_t)last;
    }
    return 0;
}

int64_t ag_trace_writer_last_sequence(const struct ag_trace_writer *writer, uint32_t stream) {
    if (writer->streams_capacity == 0) {
        return -1;
    }
    return stream_slot(writer->streams, writer->streams_capacity, stream)->last_sequence;
}

uint64_t ag_trace_writer_bytes(const struct ag_trace_writer *writer) {
    return writer->end;
}

/* ---- life ---- */

static int writer_make(int fd, struct ag_trace_writer **ret_writer) {
    struct ag_trace_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        return -ENOMEM;
    }
    writer->fd = -1; /* the caller owns fd until this function succeeds */
    writer->compressor = ZSTD_createCCtx();
    if (writer->compressor == NULL ||
        ZSTD_isError(
            ZSTD_CCtx_setParameter(writer->compressor, ZSTD_c_compressionLevel, ZSTD_LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(writer->compressor, ZSTD_c_hashLog, ZSTD_HASH_LOG))) {
        (void)ag_trace_writer_free(writer); /* returns NULL */
        return -ENOMEM;
    }
    writer->fd = fd;
    *ret_writer = writer;
    return 0;
}

/* Frees the writer of a function that fails with `error`. The descriptor is not closed, because the
 * caller still owns it. */
static int writer_drop(struct ag_trace_writer *writer, int error) {
    writer->fd = -1;
    (void)ag_trace_writer_free(writer); /* returns NULL */
    return error;
}

int ag_trace_header_write(int fd, const struct ag_trace_header *header) {
    uint8_t bytes[AG_TRACE_HEADER_BYTES];
    ag_file_header_put(bytes, header);
    return ag_write_at(fd, bytes, sizeof(bytes), 0);
}

int ag_trace_writer_new(int fd, const struct ag_trace_header *header,
                        struct ag_trace_writer **ret_writer) {
    struct ag_trace_writer *writer;
    int r = writer_make(fd, &writer);
    if (r < 0) {
        return r;
    }
    r = ag_trace_header_write(fd, header);
    if (r < 0) {
        return writer_drop(writer, r);
    }
    writer->end = AG_TRACE_HEADER_BYTES;
    *ret_writer = writer;
    return 0;
}

void ag_trace_writer_move(struct ag_trace_writer *writer, int fd) {
    /* close reports nothing new: each pwrite has reported its own failure */
    (void)close(writer->fd);
    writer->fd = fd;
}

struct ag_trace_writer *ag_trace_writer_free(struct ag_trace_writer *writer) {
    if (writer != NULL) {
        if (writer->fd >= 0) {
            close(writer->fd);
        }
        ZSTD_freeCCtx(writer->compressor);
        free(writer->buffer);
        free(writer->chunks.entries);
        free(writer->streams);
        free(writer);
    }
    return NULL;
}

static int buffer_reserve(struct ag_trace_writer *writer, size_t n_bytes) {
    if (writer->buffer_bytes >= n_bytes) {
        return 0;
    }
    uint8_t *buffer = realloc(writer->buffer, n_bytes);
    if (buffer == NULL) {
        return -ENOMEM;
    }
    writer->buffer = buffer;
    writer->buffer_bytes = n_bytes;
    return 0;
}

/* ---- writing ---- */

static int write_or_cut_back(struct ag_trace_writer *writer, const void *bytes, size_t n_bytes) {
    const int r = ag_write_at(writer->fd, bytes, n_bytes, writer->end);
    if (r == 0) {
        writer->end += n_bytes;
        return 0;
    }
    writer->error = r;
    /* if ftruncate fails, readers ignore the incomplete chunk, and ag_trace_writer_resume removes
     * it */
    (void)!ftruncate(writer->fd, (off_t)writer->end);
    return r;
}

/* A reader refuses a chunk whose compression ratio exceeds AG_RATIO_MOST. If a body compresses
 * better than that, this function appends a frame that zstd skips. Returns the new length, which is
 * far less than BYTES. */
static size_t pad_stored(uint8_t *stored, size_t stored_bytes, size_t bytes) {
    enum { FRAME_HEADER_BYTES = 8 };
    const size_t least = bytes / AG_RATIO_MOST + 1;
    if (stored_bytes >= least) {
        return stored_bytes;
    }
    const size_t missing = least - stored_bytes;
    const size_t n_zeros = missing > FRAME_HEADER_BYTES ? missing - FRAME_HEADER_BYTES : 0;
    uint8_t *frame = stored + stored_bytes;
    ag_put_32(frame, ZSTD_MAGIC_SKIPPABLE_START);
    ag_put_32(frame + 4, (uint32_t)n_zeros);
    memset(frame + FRAME_HEADER_BYTES, 0, n_zeros);
    return stored_bytes + FRAME_HEADER_BYTES + n_zeros;
}

int ag_trace_writer_chunk(struct ag_trace_writer *writer, const struct ag_chunk_info *info,
                          const void *body, size_t bytes) {
    if (writer->error != 0) {
        return writer->error;
    }
    if (bytes == 0 || bytes > AG_CHUNK_MAX_BYTES || info->events > bytes) {
        return -EMSGSIZE;
    }
    const size_t bound = ZSTD_compressBound(bytes);
    int r = buffer_reserve(writer, AG_CHUNK_HEADER_BYTES + bound);
    if (r == 0) {
        /* before the chunk is written, because a written chunk must be listed */
        r = ag_chunk_list_reserve(&writer->chunks);
    }
    if (r < 0) {
        return r;
    }
    uint8_t *const stored = writer->buffer + AG_CHUNK_HEADER_BYTES;
    size_t stored_bytes = ZSTD_compress2(writer->compressor, stored, bound, body, bytes);
    const uint8_t coding =
        ZSTD_isError(stored_bytes) || stored_bytes >= bytes ? AG_CODING_RAW : AG_CODING_ZSTD;
    if (coding == AG_CODING_RAW) {
        memcpy(stored, body, bytes);
        stored_bytes = bytes;
    } else {
        stored_bytes = pad_stored(stored, stored_bytes, bytes);
    }
    const struct ag_chunk_header header = {
        .entry = {.offset = writer->end,
                  .kind = info->kind,
                  .coding = coding,
                  .stream = info->stream,
                  .thread_id = info->thread_id,
                  .sequences = info->sequences,
                  .events = info->events,
                  .used_bytes = (uint32_t)bytes,
                  .stored_bytes = (uint32_t)stored_bytes,
                  .first_sequence = info->first_sequence,
                  .first_time_ns = info->first_time_ns},
        .stored_hash = ag_hash_bytes(stored, stored_bytes),
    };
    r = note_sequences(writer, &header.entry);
    if (r < 0) {
        return r;
    }
    ag_chunk_header_put(writer->buffer, &header);
    r = write_or_cut_back(writer, writer->buffer, AG_CHUNK_HEADER_BYTES + stored_bytes);
    if (r < 0) {
        return r;
    }
    writer->chunks.entries[writer->chunks.n++] = header.entry;
    return 0;
}

/* ---- the index ---- */

/* Returns how many bytes of whole records, from `at` on, fit into one chunk. 0: a record is damaged
 * or too large. */
static size_t whole_records(const uint8_t *at, const uint8_t *end) {
    const uint8_t *const start = at;

    while (at < end) {
        uint64_t kind, body_bytes;
        const uint8_t *next = ag_varint_get(at, end, &kind);
        next = next == NULL ? NULL : ag_varint_get(next, end, &body_bytes);
        if (next == NULL || body_bytes > (uint64_t)(end - next)) {
            return 0;
        }
        next += body_bytes;
        if (next - start > AG_CHUNK_MAX_BYTES) {
            break;
        }
        at = next;
    }
    return (size_t)(at - start);
}

int ag_trace_writer_records(struct ag_trace_writer *writer, const struct ag_chunk_info *info,
                            const struct ag_blob *records) {
    if (records->error != 0) {
        return records->error;
    }
    for (size_t done = 0; done < records->length;) {
        const uint8_t *at = records->data + done;
        const size_t bytes = whole_records(at, records->data + records->length);
        if (bytes == 0) {
            return -EINVAL;
        }
        const int r = ag_trace_writer_chunk(writer, info, at, bytes);
        if (r < 0) {
            return r;
        }
        done += bytes;
    }
    return 0;
}

int ag_trace_writer_finish(struct ag_trace_writer *writer, const struct ag_blob *aggregates) {
    if (writer->error != 0) {
        return writer->error;
    }
    const uint64_t index_offset = writer->end;
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_INDEX};
    struct ag_blob list = {0};

    /* The list of chunks is written first: a reader that only needs the offsets of chunks reads no
     * further. */
    int r = ag_record_append_chunks(&list, writer->chunks.entries, writer->chunks.n);
    if (r == 0) {
        r = ag_trace_writer_records(writer, &info, &list);
    }
    ag_blob_done(&list);
    if (r == 0 && aggregates != NULL) {
        r = ag_trace_writer_records(writer, &info, aggregates);
    }
    if (r < 0) {
        return r;
    }
    uint8_t footer[AG_TRACE_FOOTER_BYTES];
    ag_footer_put(footer, index_offset);
    return write_or_cut_back(writer, footer, sizeof(footer));
}

/* ---- resume ---- */

/* Returns 1 if the chunk's stored bytes are complete and match the hash in its header, 0 if not, or
 * a negative errno. */
static int chunk_is_whole(struct ag_trace_writer *writer, const struct ag_chunk_header *header) {
    const size_t bytes = header->entry.stored_bytes;
    const int r = buffer_reserve(writer, bytes);
    if (r < 0) {
        return r;
    }
    const int64_t n_read =
        ag_read_at(writer->fd, writer->buffer, bytes, header->entry.offset + AG_CHUNK_HEADER_BYTES);
    if (n_read < 0) {
        return (int)n_read;
    }
    return (size_t)n_read == bytes && ag_hash_bytes(writer->buffer, bytes) == header->stored_hash;
}

/* Walks the whole chunks before the index, adds them to the list, and sets writer->end to the end
 * of the last of them. */
static int resume_walk(struct ag_trace_writer *writer, uint64_t file_bytes) {
    struct ag_chunk_walk walk = {.fd = writer->fd, .file_bytes = file_bytes, .offset = writer->end};
    struct ag_chunk_header header;
    int r;

    while ((r = ag_chunk_walk_next(&walk, &header)) > 0) {
        if (header.entry.kind == AG_CHUNK_KIND_INDEX) {
            /* the index does not contain the chunks that will be added: a new index replaces it */
            break;
        }
        r = chunk_is_whole(writer, &header);
        if (r <= 0) {
            break;
        }
        r = ag_chunk_list_reserve(&writer->chunks);
        if (r == 0) {
            r = note_sequences(writer, &header.entry);
        }
        if (r < 0) {
            break;
        }
        writer->chunks.entries[writer->chunks.n++] = header.entry;
        writer->end = walk.offset;
    }
    return r < 0 ? r : 0;
}

/* Reads and checks the file's header. Returns 0 or a negative errno. */
static int read_header(int fd, struct ag_file_header *ret_header) {
    uint8_t bytes[AG_TRACE_HEADER_BYTES];
    const int64_t n_read = ag_read_at(fd, bytes, sizeof(bytes), 0);
    if (n_read < 0) {
        return (int)n_read;
    }
    struct ag_decode_error error;
    const enum ag_decode_code code = ag_file_header_get(bytes, (size_t)n_read, ret_header);
    return code == AG_DECODE_OK ? 0 : ag_decode_fail(&error, code, 0);
}

int ag_trace_header_read(int fd, struct ag_trace_header *ret_header) {
    struct ag_file_header header;
    const int r = read_header(fd, &header);
    if (r == 0) {
        *ret_header = header.trace;
    }
    return r;
}

int ag_trace_writer_resume(int fd, struct ag_trace_writer **ret_writer) {
    struct stat status;
    if (fstat(fd, &status) < 0) {
        return -errno;
    }
    if (!S_ISREG(status.st_mode)) {
        return -EINVAL;
    }
    struct ag_file_header header;
    struct ag_trace_writer *writer;
    int r = read_header(fd, &header);
    r = r < 0 ? r : writer_make(fd, &writer);
    if (r < 0) {
        return r;
    }
    writer->end = header.header_bytes;
    r = resume_walk(writer, (uint64_t)status.st_size);
    if (r == 0 && ftruncate(fd, (off_t)writer->end) < 0) {
        r = -errno;
    }
    if (r < 0) {
        return writer_drop(writer, r);
    }
    *ret_writer = writer;
    return 0;
}
