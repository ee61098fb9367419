/* decode_records.c: decodes records to struct ag_record, by the table of record_fields.def.
 *
 * Versions: fields after the end of the bytes are zero (an older writer); bytes after the last
 * known field are skipped (a newer one), and so are unknown columns of a batch and records of an
 * unknown kind. A field that ends in its middle, a number that does not fit, or a text longer than
 * the record is damage. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "decode_chunk.h"
#include "record_layout.h"

static bool get_fields(const uint8_t *at, const uint8_t *end, const struct ag_record_layout *layout,
                       struct ag_record *ret_record) {
    for (uint32_t i = 0; i < layout->n_fields && at < end; i++) {
        const struct ag_field *field = &layout->fields[i];
        uint64_t value;
        at = ag_varint_get(at, end, &value);
        if (at == NULL) {
            return false;
        }
        if (ag_field_is_number(field)) {
            if (!ag_field_set_number(field, ret_record, value)) {
                return false;
            }
            continue;
        }
        if (value > (uint64_t)(end - at)) {
            return false;
        }
        const struct ag_bytes text = {.data = (const char *)at, .length = (uint32_t)value};
        memcpy((uint8_t *)ret_record + field->offset, &text, sizeof(text));
        at += value;
    }
    return true;
}

static bool get_row(const uint8_t **at, const uint8_t *end, const struct ag_record_layout *layout,
                    uint64_t n_columns, const uint8_t *row_before, uint8_t *row) {
    for (uint64_t column = 0; column < n_columns; column++) {
        uint64_t value;
        *at = ag_varint_get(*at, end, &value);
        if (*at == NULL) {
            return false;
        }
        if (column < layout->n_fields) {
            const struct ag_field *field = &layout->fields[column];
            const uint64_t before = row_before == NULL ? 0 : ag_field_number(field, row_before);
            if (!ag_field_set_number(field, row, before + ag_unzigzag(value))) {
                return false;
            }
        }
    }
    return true;
}

/* Decodes all rows at once into the decoder, so that iterating over them cannot fail. */
static bool get_rows(const uint8_t *at, const uint8_t *end, const struct ag_record_layout *layout,
                     uint8_t *rows, struct ag_record *ret_record) {
    uint64_t n_rows, n_columns;
    at = ag_varint_get(at, end, &n_rows);
    at = at == NULL ? NULL : ag_varint_get(at, end, &n_columns);
    if (at == NULL || n_rows > AG_BATCH_ROWS || n_columns == 0 ||
        n_columns > (uint64_t)(end - at)) {
        return false;
    }
    memset(rows, 0, n_rows * layout->row_bytes);
    for (uint64_t i = 0; i < n_rows; i++) {
        uint8_t *row = rows + i * layout->row_bytes;
        if (!get_row(&at, end, layout, n_columns, i == 0 ? NULL : row - layout->row_bytes, row)) {
            return false;
        }
    }
    ret_record->u.sums.count = (uint32_t)n_rows;
    ret_record->u.sums.data = (struct ag_bytes){.data = (const char *)rows,
                                                .length = (uint32_t)(n_rows * layout->row_bytes)};
    return true;
}

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
    if (is_passed_over || !ag_record_layout((enum ag_record_kind)kind, &layout)) {
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
    const bool is_good = layout.row_bytes == 0
                             ? get_fields(at, end, &layout, ret_record)
                             : get_rows(at, end, &layout, decoder->rows, ret_record);
    if (!is_good) {
        return -EBADMSG;
    }
    decoder->at = end;
    return 1;
}

/* ---- rows ---- */

static int rows_next(const struct ag_record *record, enum ag_record_kind kind, size_t *cursor,
                     void *ret_row, size_t row_bytes) {
    if (record->kind != kind) {
        return -EINVAL;
    }
    if (*cursor >= record->u.sums.count) {
        return 0;
    }
    memcpy(ret_row, record->u.sums.data.data + *cursor * row_bytes, row_bytes);
    (*cursor)++;
    return 1;
}

int ag_nodes_next(const struct ag_record *record, size_t *cursor, struct ag_node *ret_node) {
    return rows_next(record, AG_RECORD_NODES, cursor, ret_node, sizeof(*ret_node));
}

int ag_calls_next(const struct ag_record *record, size_t *cursor, struct ag_call_path *ret_path) {
    return rows_next(record, AG_RECORD_CALLS, cursor, ret_path, sizeof(*ret_path));
}

int ag_cpu_samples_next(const struct ag_record *record, size_t *cursor,
                        struct ag_cpu_sample *ret_sample) {
    return rows_next(record, AG_RECORD_CPU_SAMPLES, cursor, ret_sample, sizeof(*ret_sample));
}

int ag_sums_next_stack(const struct ag_record *record, size_t *cursor,
                       struct ag_stack_sum *ret_sum) {
    return rows_next(record, AG_RECORD_STACK_SUMS, cursor, ret_sum, sizeof(*ret_sum));
}

int ag_sums_next_timeline(const struct ag_record *record, size_t *cursor,
                          struct ag_timeline_point *ret_point) {
    return rows_next(record, AG_RECORD_TIMELINE, cursor, ret_point, sizeof(*ret_point));
}

int ag_sums_next_thread(const struct ag_record *record, size_t *cursor,
                        struct ag_thread_sum *ret_sum) {
    return rows_next(record, AG_RECORD_THREAD_SUMS, cursor, ret_sum, sizeof(*ret_sum));
}

int ag_sums_next_pair(const struct ag_record *record, size_t *cursor,
                      struct ag_thread_pair *ret_pair) {
    return rows_next(record, AG_RECORD_THREAD_PAIRS, cursor, ret_pair, sizeof(*ret_pair));
}

int ag_sums_next_heap(const struct ag_record *record, size_t *cursor, struct ag_heap_sum *ret_sum) {
    return rows_next(record, AG_RECORD_HEAP_SUMS, cursor, ret_sum, sizeof(*ret_sum));
}

int ag_sums_next_chunk(const struct ag_record *record, size_t *cursor,
                       struct ag_chunk_entry *ret_entry) {
    return rows_next(record, AG_RECORD_CHUNKS, cursor, ret_entry, sizeof(*ret_entry));
}
