/* plugin_blue.c: a plugin of plugins.c: allocates blocks of 50 bytes. Its code is at about the same
 * address as that of plugin_red.c, and its stack frame has another size. */
#include <stdlib.h>

__attribute__((noinline, noclone)) static void *blue_block(void) {
    volatile char frame[200];
    frame[0] = 1;
    void *block = malloc(50);
    __asm__ volatile("" : "+r"(block) : : "memory");
    frame[1] = frame[0];
    return block;
}

void *plugin_make(void);
void *plugin_make(void) {
    void *block = blue_block();
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}
