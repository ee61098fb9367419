/* signal_safe_malloc.c: an allocator that a signal handler may call even if the handler interrupted
 * the allocator: blocks are cut from an arena by one atomic addition and never reused. A handler
 * may not call glibc's own malloc, so test programs whose handlers allocate use this allocator, in
 * a library that is loaded before libc. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 16 };
static char arena[512 << 20];
static _Atomic size_t used;

void *malloc(size_t size) {
    size_t bytes = (size + HEAD + 15) & ~(size_t)15;
    size_t at = atomic_fetch_add(&used, bytes);
    if (bytes < size || at + bytes > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(arena + at, &size, sizeof size);
    return arena + at + HEAD;
}

void free(void *address) {
    (void)address;
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size); /* fresh memory of the arena is zero */
}

void *realloc(void *address, size_t size) {
    void *moved = malloc(size);
    if (address != NULL && moved != NULL) {
        size_t before;
        memcpy(&before, (char *)address - HEAD, sizeof before);
        memcpy(moved, address, before < size ? before : size);
    }
    return moved;
}
