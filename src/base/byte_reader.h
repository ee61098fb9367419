/* byte_reader.h: reads numbers from untrusted bytes.
 *
 * A reader never leaves [at, end). An overrun sets is_bad and reads zeros, so a parser needs one
 * check at its end. Every loop over a reader terminates, because a reader stays at its end. */
#ifndef AG_BYTE_READER_H
#define AG_BYTE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ag_byte_reader {
    const uint8_t *at, *end; /* at <= end */
    bool is_bad;
};

/* A little-endian number of at most 8 bytes. */
static inline uint64_t ag_byte_reader_take(struct ag_byte_reader *reader, size_t bytes) {
    uint64_t value = 0;
    if ((size_t)(reader->end - reader->at) < bytes) {
        reader->is_bad = true;
        reader->at = reader->end;
        return 0;
    }
    memcpy(&value, reader->at, bytes);
    reader->at += bytes;
    return value;
}

/* Bits beyond the 64th are dropped. */
static inline uint64_t ag_byte_reader_leb(struct ag_byte_reader *reader, bool is_signed) {
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = ag_byte_reader_take(reader, 1);
        if (shift < 64) {
            value |= (byte & 0x7f) << shift;
            shift += 7;
        }
    } while (byte & 0x80);
    if (is_signed && shift < 64 && (byte & 0x40)) {
        value |= ~UINT64_C(0) << shift;
    }
    return value;
}
static inline uint64_t ag_byte_reader_uleb(struct ag_byte_reader *reader) {
    return ag_byte_reader_leb(reader, /* is_signed= */ false);
}
static inline int64_t ag_byte_reader_sleb(struct ag_byte_reader *reader) {
    return (int64_t)ag_byte_reader_leb(reader, /* is_signed= */ true);
}

/* Returns the address of the skipped bytes; the end if there are fewer. */
static inline const uint8_t *ag_byte_reader_skip(struct ag_byte_reader *reader, uint64_t bytes) {
    const uint8_t *start = reader->at;
    if ((uint64_t)(reader->end - reader->at) < bytes) {
        reader->is_bad = true;
        reader->at = reader->end;
        return reader->end;
    }
    reader->at += bytes;
    return start;
}

#endif
