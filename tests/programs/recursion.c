/* recursion.c: 5000 frames deep, a block of 24 bytes on each way down, freed on the way up; five
 * times. With the default depth of 256 the stacks are cut, and counted as cut: a frame at depth d
 * (1 is the outermost dive) has d + a few frames of main and the C runtime below it.
 *
 * @allocated_blocks 25000
 * @allocated_bytes  25000 * 24
 * @freed_blocks     25000
 * @peak_bytes       5000 * 24
 * @peak_blocks      5000
 * @temporary_blocks 5
 * @site             dive 25000 25000 * 24
 */
#include "say.h"

__attribute__((noinline, noclone)) static void dive(int depth) {
    void *block = malloc(24);
    OPAQUE(block);
    if (depth > 1) {
        dive(depth - 1);
    }
    free(block);
}

int main(void) {
    for (int i = 0; i < 5; i++) {
        dive(5000);
    }
    say("deep\n");
    return 0;
}
