/* byte_reader.h: reads numbers from untrusted bytes.
 *
 * A reader never reads outside of [at, end). A read beyond the end moves `at` to the end and sets
 * is_bad; it returns zero (of a LEB128 number, the bits before the end). So a parser needs only one
 * check, of is_bad after the last read, and a loop that reads until the end terminates. */
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

/* Reads a little-endian number of at most 8 bytes. */
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

/* Reads a number in LEB128 encoding; bits beyond the 64th are dropped. */
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

/* Skips bytes and returns their address; if fewer bytes are left, returns the end. */
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
