/* grown_arrays.c: 100 rounds of reallocarray: a block of 10 bytes grows to 100 and to 200 bytes.
 * Between the two, a call whose product overflows (the low 64 bits are 0) must fail and leave the
 * block as it is.
 *
 * @allocated_blocks 300
 * @allocated_bytes  31000
 * @freed_blocks     300
 * @peak_bytes       200
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "../say.h"

int main(void) {
    int n_right = 0;
    for (int i = 0; i < 100; i++) {
        char *block = malloc(10);
        OPAQUE(block);
        memset(block, 7, 10);
        block = reallocarray(block, 10, 10);
        OPAQUE(block);
        errno = 0;
        size_t half = SIZE_MAX / 2 + 1;
        OPAQUE(half);
        char *refused = reallocarray(block, half, 2);
        n_right += refused == NULL && errno == ENOMEM && block[9] == 7;
        block = reallocarray(block, 20, 10);
        OPAQUE(block);
        n_right += block[9] == 7;
        free(block);
    }
    say("%d right\n", n_right);
    return 0;
}
