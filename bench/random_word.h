/* random_word.h: pseudorandom numbers (xorshift64), which are the same in each run of a program. */
#ifndef RANDOM_WORD_H
#define RANDOM_WORD_H

#include <stdint.h>

static inline uint64_t random_word(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#endif
