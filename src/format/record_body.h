/* record_body.h: encodes and decodes the body of a record: the bytes after its kind and length. A
 * body has the same bytes in the trace and in the live segment (the memory that the profiled
 * program shares with the writer of the trace).
 *
 * The body of a record consists of its fields in the order of record_fields.def: a number is a
 * varint; a text is a varint of its length, then its bytes. The body of a batch is a table: number
 * of rows, number of columns, then the rows. Each field of a row is the zigzag-encoded difference
 * from the same field of the previous row.
 *
 * The recorder calls these functions inside the profiled program, so they must not call functions
 * of the C library other than memcpy and memset, for which the recorder has its own
 * (base/plain_memory.c). The records to be written are trusted; the bytes to be read are not.
 *
 * Versions: if the body ends early, an older version wrote it, and the missing fields are zero. If
 * bytes follow the last known field, a newer version wrote them, and they are skipped, like unknown
 * columns of a batch. An incomplete field, a number that does not fit, and a text longer than the
 * record are damage. */
#ifndef AG_RECORD_BODY_H
#define AG_RECORD_BODY_H

#include "base/varint.h"
#include "record_layout.h"

/* ---- writing ---- */

/* Upper limit of the bytes that ag_record_body_put writes. For a batch, u.rows contains the
 * rows. */
AG_FAST size_t ag_record_body_most(const struct ag_record_layout *layout,
                                   const struct ag_record *record) {
    if (layout->row_bytes != 0) {
        return (2 + (size_t)record->u.rows.count * layout->n_fields) * AG_VARINT_MAX_BYTES;
    }
    size_t bytes = (size_t)layout->n_fields * AG_VARINT_MAX_BYTES;
    for (uint32_t i = 0; i < layout->n_fields; i++) {
        const struct ag_field *field = &layout->fields[i];
        bytes += ag_field_is_number(field) ? 0 : ag_field_bytes(field, &record->u).length;
    }
    return bytes;
}

AG_FAST uint8_t *ag_rows_body_put(uint8_t *at, const struct ag_record_layout *layout,
                                  const struct ag_record *record) {
    const uint8_t *row = (const uint8_t *)record->u.rows.data.data;
    at = ag_varint_put(at, record->u.rows.count);
    at = ag_varint_put(at, layout->n_fields);
    for (uint32_t i = 0; i < record->u.rows.count; i++, row += layout->row_bytes) {
        for (uint32_t f = 0; f < layout->n_fields; f++) {
            const struct ag_field *field = &layout->fields[f];
            const uint64_t before = i == 0 ? 0 : ag_field_number(field, row - layout->row_bytes);
            at = ag_varint_put(at, ag_zigzag(ag_field_number(field, row) - before));
        }
    }
    return at;
}

/* Writes the body at AT. Returns the address after its last byte. */
AG_FAST uint8_t *ag_record_body_put(uint8_t *at, const struct ag_record_layout *layout,
                                    const struct ag_record *record) {
    if (layout->row_bytes != 0) {
        return ag_rows_body_put(at, layout, record);
    }
    for (uint32_t i = 0; i < layout->n_fields; i++) {
        const struct ag_field *field = &layout->fields[i];
        if (ag_field_is_number(field)) {
            at = ag_varint_put(at, ag_field_number(field, &record->u));
            continue;
        }
        const struct ag_bytes bytes = ag_field_bytes(field, &record->u);
        at = ag_varint_put(at, bytes.length);
        /* if the length is 0, data may be NULL, which memcpy does not allow */
        if (bytes.length != 0) {
            memcpy(at, bytes.data, bytes.length);
        }
        at += bytes.length;
    }
    return at;
}

/* ---- reading ---- */

/* Fills ret_record->u, whose strings point into the body. Returns false at damage. */
static inline bool ag_record_body_get(const uint8_t *at, const uint8_t *end,
                                      const struct ag_record_layout *layout,
                                      struct ag_record *ret_record) {
    for (uint32_t i = 0; i < layout->n_fields && at < end; i++) {
        const struct ag_field *field = &layout->fields[i];
        uint64_t value;
        at = ag_varint_get(at, end, &value);
        if (at == NULL) {
            return false;
        }
        if (ag_field_is_number(field)) {
            if (!ag_field_set_number(field, &ret_record->u, value)) {
                return false;
            }
            continue;
        }
        if (value > (uint64_t)(end - at)) {
            return false;
        }
        const struct ag_bytes bytes = {.data = (const char *)at, .length = (uint32_t)value};
        memcpy((uint8_t *)&ret_record->u + field->offset, &bytes, sizeof(bytes));
        at += value;
    }
    return true;
}

/* Decodes all rows at once into ROWS, so that a later iteration over the rows cannot fail. ROWS has
 * room for `capacity` rows. Returns false at damage, or if the body has more rows. */
static inline bool ag_rows_body_get(const uint8_t *at, const uint8_t *end,
                                    const struct ag_record_layout *layout, void *rows,
                                    size_t capacity, struct ag_record *ret_record) {
    uint64_t n_rows, n_columns, value;
    uint8_t *row = rows;
    at = ag_varint_get(at, end, &n_rows);
    at = at == NULL ? NULL : ag_varint_get(at, end, &n_columns);
    if (at == NULL || n_rows > capacity || n_columns == 0 || n_columns > (uint64_t)(end - at)) {
        return false;
    }
    memset(rows, 0, n_rows * layout->row_bytes);
    for (uint64_t i = 0; i < n_rows; i++, row += layout->row_bytes) {
        for (uint64_t column = 0; column < n_columns; column++) {
            at = ag_varint_get(at, end, &value);
            if (at == NULL) {
                return false;
            }
            if (column >= layout->n_fields) {
                continue;
            }
            const struct ag_field *field = &layout->fields[column];
            const uint64_t before = i == 0 ? 0 : ag_field_number(field, row - layout->row_bytes);
            if (!ag_field_set_number(field, row, before + ag_unzigzag(value))) {
                return false;
            }
        }
    }
    ret_record->u.rows.count = (uint32_t)n_rows;
    ret_record->u.rows.data = (struct ag_bytes){.data = (const char *)rows,
                                                .length = (uint32_t)(n_rows * layout->row_bytes)};
    return true;
}

#endif
