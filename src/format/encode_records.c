/* encode_records.c: appends records to a blob (a growing byte array), for the writer of a trace. A
 * record consists of kind, length and body (record_body.h). The body of some records is a list of
 * rows (equal structs). A long list is split into records of AG_BATCH_ROWS rows, so that each
 * record fits into a chunk (a part of the trace that is compressed separately). */
#include "encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record_body.h"
#include "trace_layout.h"

void ag_blob_done(struct ag_blob *blob) {
    free(blob->data);
    *blob = (struct ag_blob){0};
}

bool ag_blob_reserve(struct ag_blob *blob, size_t n_bytes) {
    if (blob->error != 0) {
        return false;
    }
    if (blob->capacity - blob->length >= n_bytes) {
        return true;
    }
    size_t capacity = blob->capacity < 4096 ? 4096 : blob->capacity;
    while (capacity - blob->length < n_bytes) {
        if (capacity > SIZE_MAX / 2) {
            blob->error = -ENOMEM;
            return false;
        }
        capacity *= 2;
    }
    uint8_t *data = realloc(blob->data, capacity);
    if (data == NULL) {
        blob->error = -ENOMEM;
        return false;
    }
    blob->data = data;
    blob->capacity = capacity;
    return true;
}

/* Inserts kind and length before the body of a record, which begins at START. The length is known
 * only after the body was encoded, so the body is moved by a few bytes. */
static int close_record(struct ag_blob *blob, size_t start, enum ag_record_kind kind) {
    uint8_t head[2 * AG_VARINT_MAX_BYTES];
    const size_t body_bytes = blob->length - start;
    uint8_t *end = ag_varint_put(head, kind);
    end = ag_varint_put(end, body_bytes);
    const size_t head_bytes = (size_t)(end - head);

    if (!ag_blob_reserve(blob, head_bytes)) {
        blob->length = start;
        return blob->error;
    }
    memmove(blob->data + start + head_bytes, blob->data + start, body_bytes);
    memcpy(blob->data + start, head, head_bytes);
    blob->length += head_bytes;
    return 0;
}

static int record_append(struct ag_blob *blob, const struct ag_record_layout *layout,
                         const struct ag_record *record) {
    const size_t start = blob->length;
    if (!ag_blob_reserve(blob, ag_record_body_most(layout, record))) {
        return blob->error;
    }
    blob->length = (size_t)(ag_record_body_put(blob->data + start, layout, record) - blob->data);
    return close_record(blob, start, record->kind);
}

int ag_record_append(struct ag_blob *blob, const struct ag_record *record) {
    struct ag_record_layout layout;
    if (!ag_record_layout(record->kind, &layout) ||
        (layout.row_bytes != 0 && record->u.rows.count - 1 >= AG_BATCH_ROWS)) {
        return -EINVAL;
    }
    return record_append(blob, &layout, record);
}

int ag_record_append_rows(struct ag_blob *blob, enum ag_record_kind kind, const void *rows,
                          size_t count) {
    struct ag_record_layout layout;
    if (!ag_record_layout(kind, &layout) || layout.row_bytes == 0) {
        return -EINVAL;
    }
    for (size_t done = 0; done < count;) {
        const size_t n_rows = count - done < AG_BATCH_ROWS ? count - done : AG_BATCH_ROWS;
        const struct ag_record record = {
            .kind = kind,
            .u.rows = {.count = (uint32_t)n_rows,
                       .data.data = (const char *)rows + done * layout.row_bytes}};
        const int r = record_append(blob, &layout, &record);
        if (r < 0) {
            return r;
        }
        done += n_rows;
    }
    return blob->error;
}
