/* encode_records.c: encodes records, for the writer.
 *
 * A record is kind, length and fields, all varints and strings, in the order of record_fields.def.
 * A batch is a record whose body is a table: number of rows, number of columns, then row by row the
 * zigzag difference of each field from the same field of the previous row. Long batches are split
 * into records of AG_BATCH_ROWS rows, so that none outgrows a chunk. */
#include "encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "record_layout.h"
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

static void put_varint(struct ag_blob *blob, uint64_t value) {
    if (ag_blob_reserve(blob, AG_VARINT_MAX_BYTES)) {
        blob->length = (size_t)(ag_varint_put(blob->data + blob->length, value) - blob->data);
    }
}

static void put_bytes(struct ag_blob *blob, const void *bytes, size_t n_bytes) {
    if (n_bytes != 0 && ag_blob_reserve(blob, n_bytes)) {
        memcpy(blob->data + blob->length, bytes, n_bytes);
        blob->length += n_bytes;
    }
}

/* Kind and length precede a body whose length is known only at its end: moves the body up a few
 * bytes. */
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

int ag_record_append(struct ag_blob *blob, const struct ag_record *record) {
    struct ag_record_layout layout;
    if (!ag_record_layout(record->kind, &layout) || layout.row_bytes != 0) {
        return -EINVAL;
    }
    const size_t start = blob->length;

    for (uint32_t i = 0; i < layout.n_fields; i++) {
        const struct ag_field *field = &layout.fields[i];
        if (ag_field_is_number(field)) {
            put_varint(blob, ag_field_number(field, record));
        } else {
            struct ag_bytes text;
            memcpy(&text, (const uint8_t *)record + field->offset, sizeof(text));
            put_varint(blob, text.length);
            put_bytes(blob, text.data, text.length);
        }
    }
    return close_record(blob, start, record->kind);
}

/* `rows` is an array of the structs that record_fields.def names for the kind. */
static int append_batch(struct ag_blob *blob, enum ag_record_kind kind, const void *rows,
                        size_t count) {
    struct ag_record_layout layout;
    if (!ag_record_layout(kind, &layout) || layout.row_bytes == 0) {
        return -EINVAL;
    }
    const uint8_t *row = rows;

    for (size_t done = 0; done < count;) {
        const size_t start = blob->length;
        const size_t n_rows = count - done < AG_BATCH_ROWS ? count - done : AG_BATCH_ROWS;
        put_varint(blob, n_rows);
        put_varint(blob, layout.n_fields);
        for (size_t i = 0; i < n_rows; i++, row += layout.row_bytes) {
            for (uint32_t f = 0; f < layout.n_fields; f++) {
                const struct ag_field *field = &layout.fields[f];
                const uint64_t before = i == 0 ? 0 : ag_field_number(field, row - layout.row_bytes);
                put_varint(blob, ag_zigzag(ag_field_number(field, row) - before));
            }
        }
        const int r = close_record(blob, start, kind);
        if (r < 0) {
            return r;
        }
        done += n_rows;
    }
    return blob->error;
}

int ag_record_append_nodes(struct ag_blob *blob, const struct ag_node *nodes, size_t count) {
    return append_batch(blob, AG_RECORD_NODES, nodes, count);
}

int ag_record_append_calls(struct ag_blob *blob, const struct ag_call_path *paths, size_t count) {
    return append_batch(blob, AG_RECORD_CALLS, paths, count);
}

int ag_record_append_cpu_samples(struct ag_blob *blob, const struct ag_cpu_sample *samples,
                                 size_t count) {
    return append_batch(blob, AG_RECORD_CPU_SAMPLES, samples, count);
}

int ag_record_append_stack_sums(struct ag_blob *blob, const struct ag_stack_sum *sums,
                                size_t count) {
    return append_batch(blob, AG_RECORD_STACK_SUMS, sums, count);
}

int ag_record_append_timeline(struct ag_blob *blob, const struct ag_timeline_point *points,
                              size_t count) {
    return append_batch(blob, AG_RECORD_TIMELINE, points, count);
}

int ag_record_append_thread_sums(struct ag_blob *blob, const struct ag_thread_sum *sums,
                                 size_t count) {
    return append_batch(blob, AG_RECORD_THREAD_SUMS, sums, count);
}

int ag_record_append_thread_pairs(struct ag_blob *blob, const struct ag_thread_pair *pairs,
                                  size_t count) {
    return append_batch(blob, AG_RECORD_THREAD_PAIRS, pairs, count);
}

int ag_record_append_heap_sums(struct ag_blob *blob, const struct ag_heap_sum *sums, size_t count) {
    return append_batch(blob, AG_RECORD_HEAP_SUMS, sums, count);
}

int ag_record_append_chunks(struct ag_blob *blob, const struct ag_chunk_entry *entries,
                            size_t count) {
    return append_batch(blob, AG_RECORD_CHUNKS, entries, count);
}
