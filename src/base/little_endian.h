/* little_endian.h: converts integers to bytes and back, low byte first, on any machine. For a
 * little-endian machine the compiler makes one move instruction of each function. */
#ifndef AG_LITTLE_ENDIAN_H
#define AG_LITTLE_ENDIAN_H

#include <stdint.h>

#include "base/compiler.h"

AG_FAST void ag_put_16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

AG_FAST void ag_put_32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
}

AG_FAST void ag_put_64(uint8_t *at, uint64_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
    at[4] = (uint8_t)(value >> 32);
    at[5] = (uint8_t)(value >> 40);
    at[6] = (uint8_t)(value >> 48);
    at[7] = (uint8_t)(value >> 56);
}

AG_FAST uint16_t ag_get_16(const uint8_t *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

AG_FAST uint32_t ag_get_32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

AG_FAST uint64_t ag_get_64(const uint8_t *at) {
    return (uint64_t)ag_get_32(at) | (uint64_t)ag_get_32(at + 4) << 32;
}

#endif
