/* decode_chunk.c: reads, checks and decompresses one chunk of a trace, and returns its events and
 * records. A chunk is a header and a body, which is mostly compressed.
 *
 * A chunk does not depend on other chunks, so several decoders can work on one file. The header of
 * a chunk is only accepted if its lengths are at most AG_CHUNK_MAX_BYTES. So a decoder never holds
 * more than the bytes of two chunks, its tables and the rows of one record. The bytes are read with
 * pread and not mapped, because SIGBUS kills a reader whose mapped file shrinks. The copy that
 * pread makes takes only 1.5 % of the time of reading (22 ms of 1.5 s for 183 M events in 76
 * MiB). */
#include "decode_chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record_body.h"

struct ag_chunk_decoder *ag_chunk_decoder_new(void) {
    struct ag_chunk_decoder *decoder = calloc(1, sizeof(*decoder));
    if (decoder == NULL) {
        return NULL;
    }
    decoder->decompressor = ZSTD_createDCtx();
    if (decoder->decompressor == NULL) {
        return ag_chunk_decoder_free(decoder);
    }
    return decoder;
}

struct ag_chunk_decoder *ag_chunk_decoder_free(struct ag_chunk_decoder *decoder) {
    if (decoder != NULL) {
        ZSTD_freeDCtx(decoder->decompressor);
        free(decoder->stored);
        free(decoder->body);
        free(decoder->rows);
        free(decoder->events.tuples);
        free(decoder);
    }
    return NULL;
}

struct ag_chunk_decoder *ag_chunk_decoder_split(struct ag_chunk_decoder *decoder) {
    struct ag_chunk_decoder *started = malloc(sizeof(*started));
    if (started == NULL) {
        return NULL;
    }
    *started = *decoder;
    started->decompressor = NULL;
    started->stored = NULL;
    started->stored_capacity = 0;
    decoder->body = NULL;
    decoder->body_capacity = 0;
    decoder->at = decoder->end = NULL;
    decoder->rows = NULL;
    decoder->events.tuples = NULL;
    decoder->events.tuples_capacity = 0;
    return started;
}

void ag_chunk_decoder_pass_over(struct ag_chunk_decoder *decoder, uint64_t kinds) {
    decoder->passed_over = kinds;
}

static bool buffer_reserve(uint8_t **buffer, size_t *capacity, size_t n_bytes) {
    if (*capacity >= n_bytes) {
        return true;
    }
    free(*buffer); /* its content is that of an earlier chunk, and is not needed */
    *buffer = malloc(n_bytes);
    *capacity = *buffer == NULL ? 0 : n_bytes;
    return *buffer != NULL;
}

/* Whether the header that was read from the file (FOUND) is equal to the entry in the list of
 * chunks. */
static bool entry_is(const struct ag_chunk_entry *entry, const struct ag_chunk_entry *found) {
    return entry->kind == found->kind && entry->coding == found->coding &&
           entry->stream == found->stream && entry->thread_id == found->thread_id &&
           entry->sequences == found->sequences && entry->events == found->events &&
           entry->used_bytes == found->used_bytes && entry->stored_bytes == found->stored_bytes &&
           entry->first_sequence == found->first_sequence &&
           entry->first_time_ns == found->first_time_ns;
}

/* Reads and checks the header and stored bytes into decoder->stored. */
static enum ag_decode_code read_stored(struct ag_chunk_decoder *decoder,
                                       const struct ag_trace_file *file,
                                       const struct ag_chunk_entry *entry) {
    const size_t n_bytes = AG_CHUNK_HEADER_BYTES + (size_t)entry->stored_bytes;
    if (!buffer_reserve(&decoder->stored, &decoder->stored_capacity, n_bytes)) {
        return AG_DECODE_NO_MEMORY;
    }
    const int64_t n_read = ag_read_at(file->fd, decoder->stored, n_bytes, entry->offset);
    if (file->progress != NULL) {
        file->progress->notice(file->progress->context, AG_PROGRESS_ADVANCE, entry->stored_bytes);
    }
    if (n_read < 0) {
        return AG_DECODE_IO;
    }
    if ((size_t)n_read != n_bytes) {
        return AG_DECODE_CUT;
    }
    struct ag_chunk_header header;
    const enum ag_decode_code code = ag_chunk_header_get(decoder->stored, &header);
    if (code != AG_DECODE_OK) {
        return code;
    }
    if (!entry_is(entry, &header.entry)) {
        return AG_DECODE_BAD_CHUNK;
    }
    if (ag_hash_bytes(decoder->stored + AG_CHUNK_HEADER_BYTES, entry->stored_bytes) !=
        header.stored_hash) {
        return AG_DECODE_CHECKSUM;
    }
    return AG_DECODE_OK;
}

/* Decompresses the chunk's body into decoder->body, and adds the padding. */
static enum ag_decode_code unpack_body(struct ag_chunk_decoder *decoder,
                                       const struct ag_chunk_entry *entry) {
    const uint8_t *const stored = decoder->stored + AG_CHUNK_HEADER_BYTES;
    if (!buffer_reserve(&decoder->body, &decoder->body_capacity,
                        (size_t)entry->used_bytes + AG_BODY_PADDING)) {
        return AG_DECODE_NO_MEMORY;
    }
    if (entry->coding == AG_CODING_RAW) {
        memcpy(decoder->body, stored, entry->used_bytes);
    } else {
        const size_t n_bytes = ZSTD_decompressDCtx(decoder->decompressor, decoder->body,
                                                   entry->used_bytes, stored, entry->stored_bytes);
        if (ZSTD_isError(n_bytes) || n_bytes != entry->used_bytes) {
            return AG_DECODE_BAD_CHUNK;
        }
    }
    memset(decoder->body + entry->used_bytes, 0, AG_BODY_PADDING);
    return AG_DECODE_OK;
}

int ag_chunk_decoder_start(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                           const struct ag_chunk_entry *entry, struct ag_decode_error *ret_error) {
    decoder->entry = *entry;
    decoder->at = decoder->end = NULL;
    ag_events_start(&decoder->events, entry->first_time_ns);
    if (!ag_chunk_entry_is_valid(entry)) {
        return ag_decode_fail(ret_error, AG_DECODE_BAD_CHUNK,
                              entry->offset); /* the caller passed an invalid entry */
    }
    enum ag_decode_code code = read_stored(decoder, file, entry);
    if (code == AG_DECODE_OK && entry->kind >= AG_CHUNK_KIND_EVENTS &&
        entry->kind <= AG_CHUNK_KIND_INDEX) {
        code = unpack_body(decoder, entry);
        decoder->at = decoder->body;
        decoder->end = decoder->body == NULL ? NULL : decoder->body + entry->used_bytes;
    }
    if (code != AG_DECODE_OK) {
        decoder->at = decoder->end = NULL;
        return ag_decode_fail(ret_error, code, entry->offset);
    }
    return 0;
}

int ag_chunk_decoder_check(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                           const struct ag_chunk_entry *entry, struct ag_decode_error *ret_error) {
    decoder->at = decoder->end = NULL;
    const enum ag_decode_code code =
        ag_chunk_entry_is_valid(entry) ? read_stored(decoder, file, entry) : AG_DECODE_BAD_CHUNK;
    return code == AG_DECODE_OK ? 0 : ag_decode_fail(ret_error, code, entry->offset);
}

static int fail_inside(const struct ag_chunk_decoder *decoder, enum ag_decode_code code,
                       uint32_t kind, struct ag_decode_error *ret_error) {
    const int r = ag_decode_fail(ret_error, code, decoder->entry.offset);

    ret_error->body_offset = decoder->at == NULL ? 0 : (uint64_t)(decoder->at - decoder->body);
    ret_error->record = kind;
    return r;
}

/* ---- records ---- */

/* Decodes the record at decoder->at. Returns 1: *ret_record is filled; 0: the record was skipped,
 * because its kind is unknown or is passed over; negative errno with *ret_code and *ret_kind. */
static int record_decode(struct ag_chunk_decoder *decoder, struct ag_record *ret_record,
                         enum ag_decode_code *ret_code, uint32_t *ret_kind) {
    const uint8_t *at = decoder->at;
    uint64_t kind, body_bytes;

    *ret_kind = 0;
    *ret_code = AG_DECODE_BAD_RECORD;
    at = ag_varint_get(at, decoder->end, &kind);
    if (at == NULL) {
        return -EBADMSG;
    }
    *ret_kind = kind <= UINT32_MAX ? (uint32_t)kind : 0;
    at = ag_varint_get(at, decoder->end, &body_bytes);
    if (at == NULL || kind > UINT32_MAX) {
        return -EBADMSG;
    }
    if (body_bytes > (uint64_t)(decoder->end - at)) {
        *ret_code = AG_DECODE_CUT;
        return -EBADMSG;
    }
    const uint8_t *const end = at + body_bytes;
    const bool is_passed_over = kind < 64 && (decoder->passed_over >> kind & 1) != 0;
    struct ag_record_layout layout;
    if (is_passed_over || !ag_record_layout((uint32_t)kind, &layout)) {
        decoder->at = end;
        return 0;
    }
    *ret_record = (struct ag_record){.kind = (enum ag_record_kind)kind,
                                     .time_ns = decoder->events.time_ns,
                                     .stream = decoder->entry.stream};
    if (layout.row_bytes != 0 && decoder->rows == NULL) {
        decoder->rows = malloc(AG_BATCH_ROWS * AG_ROW_MAX_BYTES);
        if (decoder->rows == NULL) {
            *ret_code = AG_DECODE_NO_MEMORY;
            return -ENOMEM;
        }
    }
    const bool is_good = layout.row_bytes == 0 ? ag_record_body_get(at, end, &layout, ret_record)
                                               : ag_rows_body_get(at, end, &layout, decoder->rows,
                                                                  AG_BATCH_ROWS, ret_record);
    if (!is_good) {
        return -EBADMSG;
    }
    decoder->at = end;
    return 1;
}

int ag_rows_next(const struct ag_record *record, enum ag_record_kind kind, size_t *cursor,
                 void *ret_row, size_t row_bytes) {
    if (record->kind != kind) {
        return -EINVAL;
    }
    if (*cursor >= record->u.rows.count) {
        return 0;
    }
    memcpy(ret_row, record->u.rows.data.data + *cursor * row_bytes, row_bytes);
    (*cursor)++;
    return 1;
}

/* ---- the chunk ---- */

/* At the end of a chunk of events: checks that the number of decoded events is that of the chunk's
 * header. */
static int check_count(const struct ag_chunk_decoder *decoder, struct ag_decode_error *ret_error) {
    if (decoder->entry.kind == AG_CHUNK_KIND_EVENTS && decoder->at != NULL &&
        ag_events_counted(&decoder->events) != decoder->entry.events) {
        return fail_inside(decoder, AG_DECODE_BAD_CHUNK, /* kind= */ 0, ret_error);
    }
    return 0;
}

bool ag_chunk_decoder_is_at_end(const struct ag_chunk_decoder *decoder) {
    return decoder->entry.kind == AG_CHUNK_KIND_EVENTS && decoder->at == decoder->end &&
           ag_events_counted(&decoder->events) == decoder->entry.events;
}

/* Whether the record is one of the rare events (move, type, promotion or collection of a block, or
 * a reset), which are encoded as records because most programs have none; then *ret_event is
 * filled. */
static bool is_of_block(const struct ag_record *record, struct ag_event *ret_event) {
    /* the address is the first field in the record of each event of a block */
    const uint64_t address = record->u.move.address;
    switch (record->kind) {
    case AG_RECORD_MOVE:
        *ret_event = (struct ag_event){.address = address, .size = record->u.move.to};
        break;
    case AG_RECORD_BLOCK_TYPE:
        *ret_event = (struct ag_event){.address = address,
                                       .size = record->u.block_type.size,
                                       .stack = record->u.block_type.stack};
        break;
    case AG_RECORD_PROMOTE:
    case AG_RECORD_COLLECT:
        *ret_event = (struct ag_event){.address = address};
        break;
    case AG_RECORD_RESET:
        *ret_event = (struct ag_event){.address = 0};
        break;
    default:
        return false;
    }
    ret_event->kind = (uint8_t)record->kind;
    ret_event->via = (uint8_t)AG_EVENT_SPACE(ret_event->address);
    return true;
}

int ag_chunk_decoder_next(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                          size_t capacity, struct ag_record *ret_record,
                          struct ag_decode_error *ret_error) {
    const bool has_events = decoder->entry.kind == AG_CHUNK_KIND_EVENTS;

    ret_record->kind = 0;
    capacity = capacity > INT32_MAX ? INT32_MAX : capacity;
    for (;;) {
        if (has_events) {
            size_t count = 0;
            const enum ag_events_stop stop =
                ag_events_decode(decoder, ret_events, capacity, &count);
            if (count > 0) { /* the decoded events are valid, even if damage follows */
                /* the next call decodes the record: go back to the byte that announces it */
                decoder->at -= stop == AG_EVENTS_RECORD;
                return (int)count;
            }
            switch (stop) {
            case AG_EVENTS_FULL:
                return 0;
            case AG_EVENTS_END:
                return check_count(decoder, ret_error);
            case AG_EVENTS_RECORD:
                break;
            case AG_EVENTS_DAMAGED:
                return fail_inside(decoder, AG_DECODE_BAD_RECORD, /* kind= */ 0, ret_error);
            case AG_EVENTS_NO_MEMORY:
                return fail_inside(decoder, AG_DECODE_NO_MEMORY, /* kind= */ 0, ret_error);
            }
        } else if (decoder->at == decoder->end) {
            return 0;
        }
        enum ag_decode_code code;
        uint32_t kind;
        const int r = record_decode(decoder, ret_record, &code, &kind);
        if (r < 0) {
            return fail_inside(decoder, code, kind, ret_error);
        }
        if (r > 0) {
            if (has_events && is_of_block(ret_record, &ret_events[0])) {
                ret_record->kind = 0;
                return 1;
            }
            if (ret_record->kind == AG_RECORD_FREE_STACK) {
                decoder->events.free_stack = ret_record->u.free_stack.stack;
            }
            return 0;
        }
    }
}
