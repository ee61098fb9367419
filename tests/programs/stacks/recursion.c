/* recursion.c: recurses 5000 frames deep, five times; each frame allocates a block of 24 bytes on
 * the way down and frees it on the way up. By default allogram cuts stacks to 256 frames, and
 * counts the cut stacks. The stack at depth d (1: the outermost call of dive) has d frames of dive
 * and a few frames of main and of the C runtime.
 *
 * @allocated_blocks 25000
 * @allocated_bytes  25000 * 24
 * @freed_blocks     25000
 * @peak_bytes       5000 * 24
 * @peak_blocks      5000
 * @temporary_blocks 5
 * @site             dive 25000 25000 * 24
 */
#include "../say.h"

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
