/* grown_arrays.c: reallocarray, 100 rounds: a block of 10 bytes grows to 100 and to 200; between, a
 * product that does not fit (and is 0 when it is cut to 64 bits) is refused and leaves the block
 * alone.
 *
 * @allocated_blocks 300
 * @allocated_bytes  31000
 * @freed_blocks     300
 * @peak_bytes       200
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "say.h"

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
