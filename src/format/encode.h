/* encode.h: encodes records to the bytes of a trace. Used by the writer, the process that copies
 * the events of the profiled process into a trace, and by `allogram observe`.
 *
 * An ag_event_encoder encodes the events of one stream (one thread) to the body of a chunk, a part
 * of the trace that is compressed separately. ag_record_* append records to a growing ag_blob.
 * ag_trace_writer_* write chunks, index and footer to a file.
 *
 * Threads: each object belongs to one thread. Errors: negative errno. Each chunk is written once,
 * by one pwrite. */
#ifndef AG_ENCODE_H
#define AG_ENCODE_H

#include "schema/records.h"

struct ag_blob { /* a growing byte array; zero-initialize; freed by ag_blob_done */
    uint8_t *data;
    size_t length, capacity;
    /* 0, or the first failure (-ENOMEM); later calls do not change it, so check it once at the
     * end */
    int error;
};
void ag_blob_done(struct ag_blob *blob);
/* Makes room for n_bytes more. Returns false if there is no memory; then blob->error is set. */
bool ag_blob_reserve(struct ag_blob *blob, size_t n_bytes);

/* Appends kind, length and body of one record that is not an event. For a batch (a record with
 * rows), u.rows must have 1 to AG_BATCH_ROWS rows. */
int ag_record_append(struct ag_blob *blob, const struct ag_record *record);
/* For each batch NAME of record_fields.def there is a function int ag_record_append_NAME(blob,
 * rows, count). It splits long batches into records of AG_BATCH_ROWS rows. */
int ag_record_append_rows(struct ag_blob *blob, enum ag_record_kind kind, const void *rows,
                          size_t count);
#define AG_EVENT(number, NAME, name)
#define AG_RECORD(number, NAME, name, type, source)
#define AG_BATCH(number, NAME, name, type, source)                                           \
    static inline int ag_record_append_##name(struct ag_blob *blob, const struct type *rows, \
                                              size_t count) {                                \
        return ag_record_append_rows(blob, AG_RECORD_##NAME, rows, count);                   \
    }
#define AG_FIELD(NAME, type, TYPE, field)
#define AG_END(NAME)
#include "schema/record_fields.def"

/* ---- the body of an event chunk ---- */
struct ag_event_encoder;
struct ag_event_encoder *ag_event_encoder_new(void);
struct ag_event_encoder *ag_event_encoder_free(struct ag_event_encoder *encoder);
/* Starts a new chunk body; first_time_ns is the field of the chunk's header. */
void ag_event_encoder_start(struct ag_event_encoder *encoder, uint64_t first_time_ns);
/* Appends events, which costs a few ns per event. Any sizes, stacks and addresses are allowed. If a
 * stamp (the time of the events that follow) is earlier than the previous stamp, the time of the
 * previous stamp is written. Returns 0; -EMSGSIZE: the body might exceed AG_CHUNK_MAX_BYTES;
 * -EINVAL: one of the events has a kind that is not that of an event; -ENOMEM. After an error the
 * body must not be used. */
int ag_event_encoder_add(struct ag_event_encoder *encoder, const struct ag_event *events,
                         size_t count);
/* Appends a record that is not an event to the body. */
int ag_event_encoder_add_record(struct ag_event_encoder *encoder, const struct ag_record *record);
const struct ag_blob *ag_event_encoder_body(const struct ag_event_encoder *encoder);
/* The number of events of the body, without stamps and without everything that is encoded as a
 * record, such as a MOVE. */
uint32_t ag_event_encoder_events(const struct ag_event_encoder *encoder);

/* ---- the file ---- */
struct ag_trace_writer;
struct ag_trace_header {
    uint64_t session;
    uint32_t pid, slot; /* slot: number of the process in the session: generation of its slot in the
                         * live segment * n_slots + index of the slot (segment.h); or
                         * AG_NUMBER_FIRST (writer/trace_file.h) */
    uint64_t start_realtime_ns;
};
/* Reads the header of a trace from the start of fd. Returns 0 or a negative errno. */
int ag_trace_header_read(int fd, struct ag_trace_header *ret_header);
/* Writes only the header, at the start of fd. */
int ag_trace_header_write(int fd, const struct ag_trace_header *header);
/* Begins a trace in fd, an empty file that was opened with O_RDWR: writes the file header. On
 * success the trace writer owns fd. */
int ag_trace_writer_new(int fd, const struct ag_trace_header *header,
                        struct ag_trace_writer **ret_writer);
/* Continues a trace whose writer was killed: checks the bytes of the chunks, and removes the first
 * chunk that is incomplete, damaged or part of the index, and everything after it. New chunks are
 * written in its place. fd is opened as for ag_trace_writer_new. -EBADMSG: the file header is
 * missing, incomplete or damaged; -ENOTSUP: the header is of a newer version. */
int ag_trace_writer_resume(int fd, struct ag_trace_writer **ret_writer);
/* Continues in another file, FD, to which the caller has copied all bytes of the current file.
 * Closes the current file; the trace writer owns FD. */
void ag_trace_writer_move(struct ag_trace_writer *writer, int fd);
struct ag_trace_writer *ag_trace_writer_free(struct ag_trace_writer *writer);
/* The events of a chunk of the file come from `sequences` chunks of the live segment.
 * first_sequence: the number of the first of these chunks of the live segment (see
 * ag_trace_writer_last_sequence). */
struct ag_chunk_info {
    uint8_t kind; /* enum ag_chunk_kind */
    uint32_t stream, thread_id, sequences;
    uint32_t events; /* the result of ag_event_encoder_events */
    uint64_t first_sequence, first_time_ns;
};
/* Compresses and writes one chunk of at most AG_CHUNK_MAX_BYTES. If the write fails (-ENOSPC,
 * -EFBIG, -EDQUOT ...), the file is truncated to its last whole chunk, and every later call returns
 * the same error. The process must ignore SIGXFSZ. */
int ag_trace_writer_chunk(struct ag_trace_writer *writer, const struct ag_chunk_info *info,
                          const void *body, size_t bytes);
/* Writes a blob of whole records, in as many chunks as needed. Errors are as for
 * ag_trace_writer_chunk; -EINVAL: a record is incomplete, or too large for a chunk. */
int ag_trace_writer_records(struct ag_trace_writer *writer, const struct ag_chunk_info *info,
                            const struct ag_blob *records);
/* Writes the index (the list of chunks, and `aggregates`, a blob of index records, or NULL) and the
 * footer. */
int ag_trace_writer_finish(struct ag_trace_writer *writer, const struct ag_blob *aggregates);
/* Bytes of the file header and the whole chunks that were written so far. */
uint64_t ag_trace_writer_bytes(const struct ag_trace_writer *writer);
/* Returns the number of the last chunk of the live segment from which the file has events of the
 * stream; -1: none. The number is `sequence` in struct ag_chunk_control (segment.h). These are the
 * chunks into which the program's threads write their events, not the chunks of the file. Used
 * after ag_trace_writer_resume. */
int64_t ag_trace_writer_last_sequence(const struct ag_trace_writer *writer, uint32_t stream);

#endif
