/* decode.h: decodes the bytes of a trace to events and records. A trace consists of chunks, which
 * are compressed separately. The bytes are untrusted: every length is checked, and no assertion
 * depends on the bytes.
 *
 * Threads: a decoder belongs to one thread; several threads may decode different chunks at once.
 * Memory: a decoder owns its tables. A record's strings point into the decoded chunk and are valid
 * until the next ag_chunk_decoder_start. A record's rows (nodes, sums) are valid until the next
 * ag_chunk_decoder_next. */
#ifndef AG_DECODE_H
#define AG_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/progress.h"
#include "schema/records.h"

enum {
    AG_TRACE_VERSION = 1,
    /* largest size of the decoded body of a chunk: the memory that a decoder needs for it at
     * most */
    AG_CHUNK_MAX_BYTES = 16 << 20,
};

enum ag_decode_code { /* the numbers never change and are never reused */
                      AG_DECODE_OK = 0,
                      AG_DECODE_EMPTY = 10,       /* the file has no bytes */
                      AG_DECODE_NOT_A_TRACE = 11, /* no magic number */
                      /* a newer version of the format, which this reader does not know */
                      AG_DECODE_NEWER = 12,
                      /* a live segment (shared memory of a recording), not a trace; `allogram
                       * check` makes the traces */
                      AG_DECODE_LIVE = 13,
                      AG_DECODE_NOT_REGULAR =
                          14, /* a pipe, a device, a socket: only regular files are opened */
                      AG_DECODE_CUT = 20, /* the file, a chunk or a record ends in its middle */
                      AG_DECODE_CHECKSUM = 21,
                      /* a chunk header that is inconsistent or exceeds the limits */
                      AG_DECODE_BAD_CHUNK = 22,
                      AG_DECODE_BAD_RECORD = 23,
                      /* whole chunks, but no index: the recording was killed or still runs */
                      AG_DECODE_UNSEALED = 24,
                      AG_DECODE_NO_MEMORY = 30,
                      AG_DECODE_IO = 31, /* reading failed; errno has the cause */
};
struct ag_decode_error {
    enum ag_decode_code code;
    /* offset of the damage in the file or, for damage inside a chunk, of the chunk's header */
    uint64_t offset;
    uint64_t body_offset; /* for damage inside a chunk: bytes from the start of its decoded body */
    /* kind of the damaged record; 0: the damage is not in a record, or in the kind itself */
    uint32_t record;
};
const char *ag_decode_code_text(enum ag_decode_code code); /* "cut short", for messages */

/* ---- an open trace file ---- */
struct ag_trace_file; /* the file, open read-only, with its list of chunks and its damage */

/* Opens PATH, which must be a regular file. Returns 0, or a negative errno with the reason in
 * *ret_error. If the file has no valid index, its chunks are listed by reading one chunk header
 * after the other, up to the first damage. Then ag_trace_file_damage returns the first damaged
 * place or, if all chunks are whole, why there is no valid index. The caller closes *ret_file. The
 * file is read with pread, never mapped: a file that shrinks meanwhile gives an error, not a
 * SIGBUS. */
int ag_trace_file_open(const char *path, struct ag_trace_file **ret_file,
                       struct ag_decode_error *ret_error);
struct ag_trace_file *ag_trace_file_close(struct ag_trace_file *file); /* returns NULL */
uint64_t ag_trace_file_bytes(const struct ag_trace_file *file);
uint32_t ag_trace_file_version(const struct ag_trace_file *file);
/* The descriptor that the file is read from. It belongs to FILE. */
int ag_trace_file_descriptor(const struct ag_trace_file *file);
/* Whether the file has a valid index: the recording was finished. */
bool ag_trace_file_has_index(const struct ag_trace_file *file);
/* See ag_trace_file_open. NULL: the index and the headers of the chunks show no damage. */
const struct ag_decode_error *ag_trace_file_damage(const struct ag_trace_file *file);
/* Reports the passes over FILE, and each chunk that is read, to PROGRESS, which must be valid until
 * the file is closed. NULL, the default: nothing is reported. */
void ag_trace_file_set_progress(struct ag_trace_file *file, const struct ag_progress *progress);
/* Call these functions before and after a pass over FILE that reads BYTES stored (compressed)
 * bytes. */
void ag_trace_file_begin_pass(const struct ag_trace_file *file, uint64_t bytes);
void ag_trace_file_end_pass(const struct ag_trace_file *file);
/* All chunks in file order; those of kind INDEX come last. */
size_t ag_trace_file_chunks(const struct ag_trace_file *file,
                            const struct ag_chunk_entry **ret_entries);

/* ---- decoding a chunk ---- */
struct ag_chunk_decoder; /* tables and a decompression buffer, reused from chunk to chunk */
struct ag_chunk_decoder *ag_chunk_decoder_new(void); /* NULL: no memory */
struct ag_chunk_decoder *ag_chunk_decoder_free(struct ag_chunk_decoder *decoder);
/* From now on the decoder skips records of these kinds (bit k: kind k, k < 64) without a check of
 * their bytes, as it skips records of unknown kinds. A new decoder skips no known kind. */
void ag_chunk_decoder_pass_over(struct ag_chunk_decoder *decoder, uint64_t kinds);
/* Reads, checks and decompresses a chunk, and starts to decode it. Returns 0, or a negative errno
 * with *ret_error. */
int ag_chunk_decoder_start(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                           const struct ag_chunk_entry *entry, struct ag_decode_error *ret_error);
/* Reads a chunk and checks its header and the checksum of its stored bytes, without decompressing
 * it. Returns 0, or a negative errno with *ret_error. No chunk is started afterwards. */
int ag_chunk_decoder_check(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                           const struct ag_chunk_entry *entry, struct ag_decode_error *ret_error);
/* Moves the started chunk to a new decoder without a decompressor, which cannot start another
 * chunk. Then DECODER can start the next chunk. For readers that decode many chunks at the same
 * time. NULL: no memory. */
struct ag_chunk_decoder *ag_chunk_decoder_split(struct ag_chunk_decoder *decoder);
/* Decodes up to `capacity` events (capacity >= 1) of an EVENTS chunk, or one record that is not an
 * event. For a record, fills *ret_record (kind != 0); the next call continues after the record.
 * Returns the number of events; 0 with a record; 0 with kind 0 at the end of the chunk. At damage
 * it returns a negative errno, after earlier calls have returned everything before the damage. The
 * records MOVE, PROMOTE, COLLECT, BLOCK_TYPE and RESET among events are returned as events. RECORDS
 * and INDEX chunks yield only records. Records and chunks of unknown kinds are skipped. */
int ag_chunk_decoder_next(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                          size_t capacity, struct ag_record *ret_record,
                          struct ag_decode_error *ret_error);

/* Whether all events of an EVENTS chunk were returned, and their number is that of the chunk's
 * header. */
bool ag_chunk_decoder_is_at_end(const struct ag_chunk_decoder *decoder);

/* For each batch NAME (a record with rows) of record_fields.def, int ag_NAME_next(record, &cursor,
 * ret_row) copies the next row; *cursor starts at 0. Returns 1: a row was copied; 0: there are no
 * more rows; -EINVAL: the record is of another kind. */
int ag_rows_next(const struct ag_record *record, enum ag_record_kind kind, size_t *cursor,
                 void *ret_row, size_t row_bytes);
#define AG_EVENT(number, NAME, name)
#define AG_RECORD(number, NAME, name, type, source)
#define AG_BATCH(number, NAME, name, type, source)                                        \
    static inline int ag_##name##_next(const struct ag_record *record, size_t *cursor,    \
                                       struct type *ret_row) {                            \
        return ag_rows_next(record, AG_RECORD_##NAME, cursor, ret_row, sizeof(*ret_row)); \
    }
#define AG_FIELD(NAME, type, TYPE, field)
#define AG_END(NAME)
#include "schema/record_fields.def"

#endif
