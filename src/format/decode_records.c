/* decode_records.c: decodes the records of a chunk (record_body.h). Records of unknown kinds are
 * skipped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decode_chunk.h"
#include "record_body.h"

int ag_record_decode(struct ag_chunk_decoder *decoder, struct ag_record *ret_record,
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
