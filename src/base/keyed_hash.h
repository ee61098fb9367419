/* keyed_hash.h: the hash of every table whose keys come from outside: a trace, the memory that a
 * profiled program shares with allogram, an ELF file, another process.
 *
 * With a fixed hash, an attacker who makes the input can choose keys that all fall into one slot; a
 * few kilobytes of input then take minutes. So each process draws a random key when it starts.
 * Nothing that a user sees may depend on the order of slots, because this order differs from run to
 * run.
 *
 * Numbers are hashed by two multiplications by random odd numbers; between them, the upper half is
 * XORed into the lower half. This takes about 8 cycles. The hash is a bijection: equal hashes mean
 * equal numbers. A table may use any bits of the hash. Arrays of bytes are hashed by SipHash-1-3
 * (Aumasson, Bernstein 2012), about 1.5 cycles a byte. */
#ifndef AG_KEYED_HASH_H
#define AG_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_hash_key {
    uint64_t mask, first, second; /* all odd */
    /* odd; its products with addresses at distances of 16 bytes are spread evenly (see
     * keyed_hash.c) */
    uint64_t even;
};
/* Random. A constructor sets the key before main; it does not change afterward. */
extern struct ag_hash_key ag_hash_key AG_HIDDEN;

AG_FAST uint64_t ag_keyed_hash(uint64_t number) {
    uint64_t hash = (number ^ ag_hash_key.mask) * ag_hash_key.first;
    hash ^= hash >> 32;
    return hash * ag_hash_key.second;
}

/* A cheaper hash for addresses, a single multiplication: only its high bits may be used. This hash
 * protects against keys that an attacker chooses (multiply-shift, Dietzfelbinger 1997: two keys
 * collide in one of n slots with probability at most 2/n). Some multipliers are bad for addresses
 * at equal distances, which all programs have. So the key `even` is a random multiplier that is
 * tested for such addresses. */
AG_FAST uint64_t ag_keyed_product(uint64_t address) {
    return address * ag_hash_key.even;
}

/* The hash of two numbers; different pairs may have the same hash. */
AG_FAST uint64_t ag_keyed_hash_pair(uint64_t a, uint64_t b) {
    return ag_keyed_hash(a ^ ag_keyed_hash(b));
}

uint64_t ag_keyed_hash_bytes(const void *bytes, size_t n_bytes);

#endif
