/* julia_mixed.c: a C library that a Julia program calls: it allocates with malloc, and calls back.
 */
#include <stdlib.h>

void *mixed_take(size_t bytes);
void mixed_give(void *block);
void mixed_back(void (*function)(int), int n);

static __attribute__((noinline)) void *take_inside(size_t bytes) {
    void *volatile block = malloc(bytes);
    return block;
}

void *mixed_take(size_t bytes) {
    void *volatile block = take_inside(bytes);
    return block;
}

void mixed_give(void *block) {
    free(block);
}

void mixed_back(void (*function)(int), int n) {
    for (volatile int i = 0; i < n; i++) {
        function(i);
    }
}
