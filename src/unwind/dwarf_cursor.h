/* dwarf_cursor.h: reads DWARF's numbers from untrusted bytes.
 *
 * A cursor never leaves [at, end). An overrun makes it bad and reads zeros, so a parser needs one
 * check at its end; every loop over a cursor terminates, because at the end it stays there. */
#ifndef AG_DWARF_CURSOR_H
#define AG_DWARF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ag_dwarf_cursor {
    const uint8_t *at, *end; /* at <= end */
    bool bad;
};

/* A little-endian number of at most 8 bytes. */
static inline uint64_t ag_dwarf_read_bytes(struct ag_dwarf_cursor *cursor, size_t bytes) {
    uint64_t value = 0;
    if ((size_t)(cursor->end - cursor->at) < bytes) {
        cursor->bad = true;
        cursor->at = cursor->end;
        return 0;
    }
    memcpy(&value, cursor->at, bytes);
    cursor->at += bytes;
    return value;
}

/* Bits beyond the 64th are dropped. */
static inline uint64_t ag_dwarf_read_leb(struct ag_dwarf_cursor *cursor, bool is_signed) {
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = ag_dwarf_read_bytes(cursor, 1);
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
static inline uint64_t ag_dwarf_read_uleb(struct ag_dwarf_cursor *cursor) {
    return ag_dwarf_read_leb(cursor, /* is_signed= */ false);
}
static inline int64_t ag_dwarf_read_sleb(struct ag_dwarf_cursor *cursor) {
    return (int64_t)ag_dwarf_read_leb(cursor, /* is_signed= */ true);
}

/* Returns the address of the skipped bytes; the end if there are fewer. */
static inline const uint8_t *ag_dwarf_skip(struct ag_dwarf_cursor *cursor, uint64_t bytes) {
    const uint8_t *start = cursor->at;
    if ((uint64_t)(cursor->end - cursor->at) < bytes) {
        cursor->bad = true;
        cursor->at = cursor->end;
        return cursor->end;
    }
    cursor->at += bytes;
    return start;
}

#endif
