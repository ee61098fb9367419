/* keyed_hash.c: draws the process' random hash key, and hashes bytes (see keyed_hash.h). */
#include "keyed_hash.h"

#include <stdbool.h>
#include <string.h>

#include "raw_syscall.h"

/* These constants are used only if the kernel gives no random numbers, for example early in the
 * boot. */
struct ag_hash_key ag_hash_key = {.mask = UINT64_C(0x243f6a8885a308d3),
                                  .first = UINT64_C(0x9e3779b97f4a7c15),
                                  .second = UINT64_C(0xbf58476d1ce4e5b9),
                                  .even = UINT64_C(0xf9cb566b37541d63)}; /* spreads_evenly */

enum {
    NOT_BLOCKING = 1, /* GRND_NONBLOCK */
    STRIDE = 16,      /* alignment of allocators */
    QUOTIENT_MOST = 8,
    TRIES_MOST = 4096, /* about one in 60 candidates spreads evenly */
};

/* Whether the products of 0, STRIDE, 2 STRIDE ... with the multiplier are spread evenly over all
 * 64-bit numbers. The products form clusters if the continued fraction of STRIDE * multiplier /
 * 2^64 has a large quotient. */
static bool spreads_evenly(uint64_t multiplier) {
    uint64_t before = 0, rest = multiplier * STRIDE; /* before: 0 stands for 2^64 */
    uint64_t denominator_before = 0, denominator = 1;
    while (rest != 0 && denominator < UINT64_C(1) << 32) {
        const uint64_t quotient = before == 0 ? (UINT64_MAX - rest + 1) / rest + 1 : before / rest;
        if (quotient > QUOTIENT_MOST) {
            return false;
        }
        const uint64_t next = before - quotient * rest;
        before = rest;
        rest = next;
        const uint64_t larger = quotient * denominator + denominator_before;
        denominator_before = denominator;
        denominator = larger;
    }
    return true;
}

__attribute__((constructor)) static void draw_key(void) {
    struct ag_hash_key key;
    if (ag_syscall3(SYS_getrandom, (long)&key, sizeof(key), NOT_BLOCKING) == sizeof(key)) {
        ag_hash_key = (struct ag_hash_key){.mask = key.mask | 1,
                                           .first = key.first | 1,
                                           .second = key.second | 1,
                                           .even = ag_hash_key.even};
        uint64_t candidate = ag_keyed_hash(key.even) | 1;
        for (int i = 0; i < TRIES_MOST; i++) {
            if (spreads_evenly(candidate)) {
                ag_hash_key.even = candidate;
                break;
            }
            candidate = ag_keyed_hash(candidate) | 1;
        }
    }
}

#define ROTATE(x, bits) ((x) << (bits) | (x) >> (64 - (bits)))

static void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[1] = ROTATE(v[1], 13) ^ v[0];
    v[0] = ROTATE(v[0], 32);
    v[2] += v[3];
    v[3] = ROTATE(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = ROTATE(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = ROTATE(v[1], 17) ^ v[2];
    v[2] = ROTATE(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t ag_keyed_hash_bytes(const void *bytes, size_t n_bytes) {
    const uint64_t k0 = ag_hash_key.mask, k1 = ag_hash_key.first ^ ag_hash_key.second;
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    const uint8_t *at = bytes;
    const size_t n_words = n_bytes / 8;
    for (size_t i = 0; i < n_words; i++, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        sip_word(v, word);
    }
    uint64_t last = (uint64_t)n_bytes << 56;
    for (size_t i = 0; i < n_bytes % 8; i++) {
        last |= (uint64_t)at[i] << (8 * i);
    }
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
