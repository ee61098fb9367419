/* changing_plugin.c: built twice, with frames of different size at the same addresses: code that is
 * not what it was when it is loaded the second time. */
#include <stdlib.h>

void changing_plugin(void (*back)(int), int n);

static __attribute__((noinline)) void inner(void (*back)(int), int n) {
    volatile char frame[INNER_BYTES];
    frame[0] = (char)n;
    void *block = malloc((size_t)n);
    __asm__ volatile("" ::"r"(frame), "r"(block) : "memory");
    free(block);
    back(n);
    __asm__ volatile("" ::"r"(frame) : "memory");
}

void changing_plugin(void (*back)(int), int n) {
    volatile char frame[OUTER_BYTES];
    inner(back, n);
    __asm__ volatile("" ::"r"(frame) : "memory");
    if (n > 1) {
        changing_plugin(back, n / 2); // through the PLT: bound lazily
        __asm__ volatile("" ::"r"(frame) : "memory");
    }
}
