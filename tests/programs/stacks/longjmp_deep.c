/* longjmp_deep.c: leaves up to 60 frames at once by longjmp, 2000 times. Each frame has allocated
 * one block of 16 bytes; the blocks form a chain, which the function that called setjmp frees,
 * newest first. The depth of round r is r % 60 + 1.
 *
 * @allocated_blocks 33 * 1830 + 20 * 21 / 2
 * @allocated_bytes  16 * (33 * 1830 + 20 * 21 / 2)
 * @freed_blocks     33 * 1830 + 20 * 21 / 2
 * @in_use_blocks    0
 * @peak_bytes       60 * 16
 * @peak_blocks      60
 * @temporary_blocks 2000
 */
#include <setjmp.h>

#include "../say.h"

static jmp_buf caught;
static void **chain;

__attribute__((noinline, noclone)) static void dive(int depth) {
    void **block = malloc(16);
    *block = chain;
    chain = block;
    if (depth > 1) {
        dive(depth - 1);
    }
    longjmp(caught, 1); /* from the deepest frame only: no frame returns */
}

int main(void) {
    for (volatile int round = 0; round < 2000; round++) {
        if (setjmp(caught) == 0) {
            dive(round % 60 + 1);
        }
        while (chain != NULL) {
            void **block = chain;
            chain = *block;
            free(block);
        }
    }
    say("2000 jumps\n");
    return 0;
}
