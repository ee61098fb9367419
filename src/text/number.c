/* number.c: writes integers to a stream without printf, see number.h. */
#include "text/number.h"

#include <stddef.h>

void ag_put_number(FILE *out, uint64_t number) {
    char digits[20]; /* 2^64 - 1 has 20 digits */
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    fwrite_unlocked(digits + first, 1, sizeof digits - first, out);
}

void ag_put_hex(FILE *out, uint64_t number) {
    char digits[16];
    size_t first = sizeof digits;
    do {
        digits[--first] = "0123456789abcdef"[number & 15];
        number >>= 4;
    } while (number != 0);
    fwrite_unlocked(digits + first, 1, sizeof digits - first, out);
}
