/* varint.h: encodes numbers with a variable length (LEB128: 7 bits in each byte, low bits first),
 * and signed numbers by the zigzag mapping. */
#ifndef AG_VARINT_H
#define AG_VARINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum { AG_VARINT_MAX_BYTES = 10 };

/* Writes at most AG_VARINT_MAX_BYTES at `at`, returns the address after them. */
AG_FAST uint8_t *ag_varint_put(uint8_t *at, uint64_t value) {
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* Reads a number from [at, end). Returns the address after the number, or NULL if the number is
 * truncated or does not fit into 64 bits. */
AG_FAST const uint8_t *ag_varint_get(const uint8_t *at, const uint8_t *end, uint64_t *ret_value) {
    uint64_t value = 0;

    for (unsigned shift = 0; at < end; shift += 7) {
        const uint64_t byte = *at++;
        if (shift == 63 && byte > 1) {
            return NULL;
        }
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return at;
        }
    }
    return NULL;
}

/* Maps small negative numbers to small numbers: 0 -1 1 -2 -> 0 1 2 3. */
AG_FAST uint64_t ag_zigzag(uint64_t difference) {
    return (difference << 1) ^ (0 - (difference >> 63));
}
AG_FAST uint64_t ag_unzigzag(uint64_t value) {
    return (value >> 1) ^ (0 - (value & 1));
}

#endif
