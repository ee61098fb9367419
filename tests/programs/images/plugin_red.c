/* plugin_red.c: a plugin of plugins.c: allocates blocks of 40 bytes. */
#include <stdlib.h>

__attribute__((noinline, noclone)) static void *red_block(void) {
    void *block = malloc(40);
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

void *plugin_make(void);
void *plugin_make(void) {
    void *block = red_block();
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}
