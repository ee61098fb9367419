/* changing_plugin.c: a plugin of corner_cases.cc that is built twice, with different sizes of
 * frames. If one build is unloaded and the other is loaded at the same addresses, the unwinder must
 * not use cached unwind rules of the first build. */
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
        changing_plugin(back, n / 2); // through the PLT, with lazy binding
        __asm__ volatile("" ::"r"(frame) : "memory");
    }
}
