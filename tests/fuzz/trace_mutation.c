/* trace_mutation.c: changes traces to bytes that no writer produces, in most cases with valid
 * checksums, for fuzz_trace.c and mutate_traces.c. See trace_mutation.h. */
#include "trace_mutation.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/little_endian.h"
#include "format/encode.h"
#include "format/trace_layout.h"

enum { TRACE_MAX_BYTES = 1 << 20 };

/* ---- unpacking ---- */

static bool append(struct ag_trace_bytes *bytes, const void *more, size_t n_more) {
    if (bytes->capacity - bytes->n_bytes < n_more) {
        const size_t capacity = 2 * (bytes->n_bytes + n_more);
        uint8_t *data = realloc(bytes->data, capacity);
        if (data == NULL) {
            return false;
        }
        bytes->data = data;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->n_bytes, more, n_more);
    bytes->n_bytes += n_more;
    return true;
}

/* Appends the chunk, uncompressed, to `unpacked`. Unless the chunk belongs to the index, also
 * appends an entry for it to `chunks`.
 */
static bool unpack_chunk(const struct ag_chunk_header *header, const uint8_t *stored,
                         struct ag_trace_bytes *unpacked, struct ag_blob *chunks) {
    struct ag_chunk_header raw = *header;
    raw.entry.offset = unpacked->n_bytes;
    raw.entry.coding = AG_CODING_RAW;
    raw.entry.stored_bytes = raw.entry.used_bytes;

    uint8_t *body = malloc(raw.entry.used_bytes);
    if (body == NULL) {
        return false;
    }
    bool is_good = true;
    if (header->entry.coding == AG_CODING_ZSTD) {
        is_good = ZSTD_decompress(body, raw.entry.used_bytes, stored, header->entry.stored_bytes) ==
                  raw.entry.used_bytes;
    } else {
        memcpy(body, stored, raw.entry.used_bytes);
    }
    raw.stored_hash = ag_hash_bytes(body, raw.entry.used_bytes);
    uint8_t bytes[AG_CHUNK_HEADER_BYTES];
    ag_chunk_header_put(bytes, &raw);
    is_good = is_good && append(unpacked, bytes, sizeof(bytes)) &&
              append(unpacked, body, raw.entry.used_bytes);
    free(body);
    return is_good && (raw.entry.kind == AG_CHUNK_KIND_INDEX ||
                       ag_record_append_chunks(chunks, &raw.entry, 1) == 0);
}

static bool append_index(struct ag_trace_bytes *unpacked, const struct ag_blob *chunks) {
    const struct ag_chunk_header header = {.entry = {.kind = AG_CHUNK_KIND_INDEX,
                                                     .used_bytes = (uint32_t)chunks->length,
                                                     .stored_bytes = (uint32_t)chunks->length},
                                           .stored_hash =
                                               ag_hash_bytes(chunks->data, chunks->length)};
    uint8_t bytes[AG_CHUNK_HEADER_BYTES], footer[AG_TRACE_FOOTER_BYTES];
    ag_chunk_header_put(bytes, &header);
    ag_footer_put(footer, unpacked->n_bytes);
    return append(unpacked, bytes, sizeof(bytes)) &&
           append(unpacked, chunks->data, chunks->length) &&
           append(unpacked, footer, sizeof(footer));
}

bool ag_trace_unpack(const struct ag_trace_bytes *trace, struct ag_trace_bytes *ret_unpacked) {
    struct ag_trace_bytes unpacked = {0};
    struct ag_blob chunks = {0};
    struct ag_file_header file_header;
    size_t at = AG_TRACE_HEADER_BYTES;
    bool is_good = ag_file_header_get(trace->data, trace->n_bytes, &file_header) == AG_DECODE_OK &&
                   append(&unpacked, trace->data, AG_TRACE_HEADER_BYTES);

    while (is_good && trace->n_bytes - at >= AG_CHUNK_HEADER_BYTES) {
        struct ag_chunk_header header;
        if (ag_chunk_header_get(trace->data + at, &header) != AG_DECODE_OK ||
            header.entry.kind == AG_CHUNK_KIND_INDEX ||
            header.entry.stored_bytes > trace->n_bytes - at - AG_CHUNK_HEADER_BYTES) {
            break;
        }
        at += AG_CHUNK_HEADER_BYTES;
        is_good = unpack_chunk(&header, trace->data + at, &unpacked, &chunks);
        at += header.entry.stored_bytes;
    }
    is_good = is_good && chunks.length != 0 && append_index(&unpacked, &chunks);
    ag_blob_done(&chunks);
    if (!is_good) {
        free(unpacked.data);
        return false;
    }
    *ret_unpacked = unpacked;
    return true;
}

/* ---- checksums ---- */

void ag_trace_fix_hashes(uint8_t *bytes, size_t n_bytes) {
    size_t at = AG_TRACE_HEADER_BYTES;

    if (n_bytes < AG_TRACE_HEADER_BYTES) {
        return;
    }
    ag_put_64(bytes + 56, ag_hash_bytes(bytes, 56));
    while (n_bytes - at >= AG_CHUNK_HEADER_BYTES && memcmp(bytes + at, "AGCK", 4) == 0) {
        uint8_t *const header = bytes + at;
        const size_t left = n_bytes - at - AG_CHUNK_HEADER_BYTES;
        const size_t stored_bytes = ag_get_32(header + 44) < left ? ag_get_32(header + 44) : left;
        ag_put_64(header + 48, ag_hash_bytes(header + AG_CHUNK_HEADER_BYTES, stored_bytes));
        ag_put_64(header + 56, ag_hash_bytes(header, 56));
        at += AG_CHUNK_HEADER_BYTES + stored_bytes;
    }
    if (n_bytes >= AG_TRACE_HEADER_BYTES + AG_TRACE_FOOTER_BYTES) {
        uint8_t *const footer = bytes + n_bytes - AG_TRACE_FOOTER_BYTES;
        if (memcmp(footer, "AGINDEX1", 8) == 0) {
            ag_put_64(footer + 24, ag_hash_bytes(footer, 24));
        }
    }
}

/* ---- changes ---- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t limit) {
    return limit == 0 ? 0 : (size_t)(next_random(state) % limit);
}

/* Replaces n_old bytes at `at` by n_new bytes of `from` (by zeros if `from` is NULL). */
static void replace(struct ag_trace_bytes *trace, size_t at, size_t n_old, const uint8_t *from,
                    size_t n_new) {
    const size_t n_bytes = trace->n_bytes - n_old + n_new;
    if (n_bytes > TRACE_MAX_BYTES) {
        return;
    }
    uint8_t *data = calloc(1, n_bytes + 1);
    if (data == NULL) {
        return;
    }
    memcpy(data, trace->data, at);
    if (from != NULL) {
        memcpy(data + at, from, n_new);
    }
    memcpy(data + at + n_new, trace->data + at + n_old, trace->n_bytes - at - n_old);
    free(trace->data);
    *trace = (struct ag_trace_bytes){.data = data, .n_bytes = n_bytes, .capacity = n_bytes + 1};
}

/* Sets a random field of a chunk header to a number near a limit of some range. */
static void change_header_field(struct ag_trace_bytes *trace, uint64_t *state) {
    static const struct {
        uint8_t offset, n_bytes;
    } fields[] = {{4, 1},  {5, 1},  {6, 2},  {8, 4},  {16, 8},
                  {24, 4}, {28, 4}, {32, 8}, {40, 4}, {44, 4}};
    static const uint64_t numbers[] = {
        0,         1,          2,         3,         63,    64,      127,
        128,       4095,       4096,      65535,     65536, 1 << 24, (1 << 24) + 1,
        INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    size_t at = AG_TRACE_HEADER_BYTES;
    size_t skip = below(state, 12);

    while (at + AG_CHUNK_HEADER_BYTES <= trace->n_bytes &&
           memcmp(trace->data + at, "AGCK", 4) == 0) {
        const size_t next = at + AG_CHUNK_HEADER_BYTES + ag_get_32(trace->data + at + 44);
        if (skip-- == 0 || next + AG_CHUNK_HEADER_BYTES > trace->n_bytes) {
            const size_t field = below(state, sizeof(fields) / sizeof(fields[0]));
            uint8_t number[8];
            ag_put_64(number, numbers[below(state, sizeof(numbers) / sizeof(numbers[0]))]);
            memcpy(trace->data + at + fields[field].offset, number, fields[field].n_bytes);
            return;
        }
        at = next;
    }
}

static void change_bytes(struct ag_trace_bytes *trace, uint64_t *state) {
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 7, 6, 5};
    const size_t at = below(state, trace->n_bytes);
    const size_t n_run = 1 + below(state, below(state, 4) == 0 ? 12 : 2);

    for (size_t i = at; i < trace->n_bytes && i < at + n_run; i++) {
        trace->data[i] =
            below(state, 2) == 0 ? edges[below(state, sizeof(edges))] : (uint8_t)next_random(state);
    }
}

static void change_once(struct ag_trace_bytes *trace, const struct ag_trace_bytes *donor,
                        uint64_t *state) {
    const size_t at = below(state, trace->n_bytes);
    const size_t left = trace->n_bytes - at;
    const size_t from = below(state, donor->n_bytes);

    switch (below(state, 12)) {
    case 0:
    case 1:
    case 2:
        if (left != 0) {
            trace->data[at] ^= (uint8_t)(1 << below(state, 8));
        }
        break;
    case 3:
    case 4:
    case 5:
        change_bytes(trace, state);
        break;
    case 6:
    case 7:
        change_header_field(trace, state);
        break;
    case 8: /* remove a piece */
        replace(trace, at, below(state, left < 80 ? left : 80), NULL, 0);
        break;
    case 9: /* insert a piece of the donor, or replace a piece by it */
        replace(trace, at, below(state, 2) * below(state, left < 200 ? left : 200),
                donor->data + from,
                below(state, donor->n_bytes - from < 200 ? donor->n_bytes - from : 200));
        break;
    case 10: /* replace the rest by the rest of the donor */
        replace(trace, at, left, donor->data + from, donor->n_bytes - from);
        break;
    case 11: /* cut off the trace here, in a quarter of the calls */
        replace(trace, at, below(state, 4) == 0 ? left : 0, NULL, 0);
        break;
    }
}

void ag_trace_mutate(struct ag_trace_bytes *trace, const struct ag_trace_bytes *donor,
                     uint64_t *random_state) {
    for (size_t n = 1 + below(random_state, 4); n != 0; n--) {
        change_once(trace, donor, random_state);
    }
    if (below(random_state, 8) != 0) {
        ag_trace_fix_hashes(trace->data, trace->n_bytes);
    }
}
