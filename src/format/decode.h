/* decode.h: decodes the bytes of a trace to records. Input is untrusted: every length is checked,
 * nothing is asserted.
 *
 * Threads: a decoder belongs to one thread; several threads may decode different chunks at once.
 * Memory: a decoder owns its tables. A record's strings point into the decoded chunk, until the
 * next ag_chunk_decoder_start. Its rows (nodes, sums) are valid until the next
 * ag_chunk_decoder_next. */
#ifndef AG_DECODE_H
#define AG_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/records.h"

enum {
    AG_TRACE_VERSION = 1,
    /* limit of a decoded chunk, of which a reader holds one per thread */
    AG_CHUNK_MAX_BYTES = 16 << 20,
};

enum ag_decode_code { /* pinned numbers, never reused */
                      AG_DECODE_OK = 0,
                      AG_DECODE_EMPTY = 10,       /* the file has no bytes */
                      AG_DECODE_NOT_A_TRACE = 11, /* no magic number */
                      AG_DECODE_NEWER = 12,       /* a version this reader does not know */
                      AG_DECODE_LIVE = 13, /* a live segment, not a sealed trace: seal it first */
                      AG_DECODE_NOT_REGULAR =
                          14, /* a pipe, a device, a socket: only regular files are opened */
                      AG_DECODE_CUT = 20, /* the file, a chunk or a record ends in its middle */
                      AG_DECODE_CHECKSUM = 21,
                      /* an inconsistent header, or one beyond its limits */
                      AG_DECODE_BAD_CHUNK = 22,
                      AG_DECODE_BAD_RECORD = 23,
                      /* whole chunks, but no index: the recording was killed or still runs */
                      AG_DECODE_UNSEALED = 24,
                      AG_DECODE_NO_MEMORY = 30,
                      AG_DECODE_IO = 31, /* see errno */
};
struct ag_decode_error {
    enum ag_decode_code code;
    uint64_t offset;      /* in the file, bytes; inside a chunk: of the chunk's header */
    uint64_t body_offset; /* inside a chunk: bytes into its decoded body */
    uint32_t record;      /* kind of the record, 0 when outside of one */
};
const char *ag_decode_code_text(enum ag_decode_code code); /* "cut short", for messages */

/* ---- an open trace file ---- */
struct ag_trace_file; /* the file, open read-only, with its list of chunks and its damage */

/* Opens PATH, which must be a regular file. 0, or negative errno with *ret_error (code says why). A
 * file without a footer is read from chunk to chunk: its readable part is opened, and
 * ag_trace_file_damage returns the first damaged place. The caller closes it. The file is read with
 * pread, never mapped: a file that shrinks meanwhile gives an error, not a SIGBUS. */
int ag_trace_file_open(const char *path, struct ag_trace_file **ret_file,
                       struct ag_decode_error *ret_error);
struct ag_trace_file *ag_trace_file_close(struct ag_trace_file *file); /* returns NULL */
uint64_t ag_trace_file_bytes(const struct ag_trace_file *file);
uint32_t ag_trace_file_version(const struct ag_trace_file *file);
/* Whether the file has a valid index: the recording was finished. */
bool ag_trace_file_has_index(const struct ag_trace_file *file);
/* NULL: undamaged as far as the headers show. */
const struct ag_decode_error *ag_trace_file_damage(const struct ag_trace_file *file);
/* All chunks in file order; those of kind INDEX come last. */
size_t ag_trace_file_chunks(const struct ag_trace_file *file,
                            const struct ag_chunk_entry **ret_entries);

/* ---- decoding a chunk ---- */
struct ag_chunk_decoder; /* tables and a decompression buffer, reused from chunk to chunk */
struct ag_chunk_decoder *ag_chunk_decoder_new(void); /* NULL: no memory */
struct ag_chunk_decoder *ag_chunk_decoder_free(struct ag_chunk_decoder *decoder);
/* Skips records of these kinds (bit k: kind k, which is below 64) from now on, like those of
 * unknown kinds, without looking at their bytes. At first none. */
void ag_chunk_decoder_pass_over(struct ag_chunk_decoder *decoder, uint64_t kinds);
/* Reads, checks, decompresses and starts a chunk. 0, or negative errno with *ret_error. */
int ag_chunk_decoder_start(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                           const struct ag_chunk_entry *entry, struct ag_decode_error *ret_error);
/* Moves the started chunk to a new, small decoder that cannot start another one; then DECODER can
 * start the next chunk. For readers that decode many chunks side by side. NULL: no memory. */
struct ag_chunk_decoder *ag_chunk_decoder_split(struct ag_chunk_decoder *decoder);
/* Decodes up to `capacity` events (at least 1) of an EVENTS chunk, or one record of another kind:
 * then *ret_record is filled (kind != 0) and the next call continues after it. Returns the number
 * of events; 0 with a record; 0 with kind 0 at the chunk's end; negative errno at damage, after
 * everything before it has been returned. The records MOVE, PROMOTE, COLLECT, BLOCK_TYPE and RESET
 * among events are returned as events. RECORDS and INDEX chunks yield only records. Records and
 * chunks of unknown kinds are skipped. */
int ag_chunk_decoder_next(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                          size_t capacity, struct ag_record *ret_record,
                          struct ag_decode_error *ret_error);

/* Whether all events of a chunk of events were returned, and as many as its header says. */
bool ag_chunk_decoder_is_at_end(const struct ag_chunk_decoder *decoder);

/* For each batch NAME of record_fields.def, int ag_NAME_next(record, &cursor, ret_row) copies the
 * next row; *cursor starts at 0. 1: a row; 0: the end; -EINVAL: the record is of another kind. */
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
