/* million_blocks.c: allocates a million blocks of 16 + i % 64 bytes, frees every second one, then
 * allocates 100000 of 1000 bytes and frees these. The peak is before the last frees: 47.5 MB - 23.5
 * MB + 100 MB is more than 47.5 MB. At the end the blocks with odd i are in use. The array of
 * pointers (1 block of 1100000 * 8 bytes) is in use, too; only the lines with @ count it.
 *
 * The sum over a million of 16 + i % 64 is 1000000 * 16 + 15625 * (64 * 63 / 2) = 47500000 bytes;
 * that of the even i is 500000 * 16 + 15625 * 992 = 23500000, that of the odd i 24000000.
 *
 * @allocated_blocks 1100000 + 1
 * @allocated_bytes  47500000 + 100000 * 1000 + 1100000 * 8
 * @freed_blocks     600000
 * @freed_bytes      23500000 + 100000 * 1000
 * @in_use_blocks    500000 + 1
 * @in_use_bytes     24000000 + 1100000 * 8
 * @peak_bytes       24000000 + 100000 * 1000 + 1100000 * 8
 * @peak_blocks      600000 + 1
 * @temporary_blocks 1
 */
#include "../say.h"

enum { N = 1000000, M = 100000 };

int main(void) {
    void **blocks = malloc(sizeof *blocks * (N + M));
    for (int i = 0; i < N; i++) {
        blocks[i] = malloc(16 + (size_t)i % 64);
    }
    for (int i = 0; i < N; i += 2) {
        free(blocks[i]);
    }
    for (int i = N; i < N + M; i++) {
        blocks[i] = malloc(1000);
    }
    for (int i = N + M - 1; i >= N; i--) {
        free(blocks[i]);
    }
    say("a million\n");
    return 0;
}
