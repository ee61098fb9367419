/* nested_malloc.c: an allocator in a library of its own, whose functions call each other by their
 * public names: calloc calls malloc, realloc calls malloc and free, posix_memalign calls memalign.
 * Blocks are cut from an arena by one atomic addition and never reused. The library also has a
 * function that is no allocator and allocates: nested_copy. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int nested_signal;                   /* if not 0: a signal that calloc raises before it returns */
char *nested_copy(const char *text); /* the caller frees the copy */

enum { HEAD = 16 };
static char arena[256 << 20];
static _Atomic size_t used;

static void *cut(size_t alignment, size_t size) {
    const size_t bytes = size + HEAD + alignment;
    const size_t at = atomic_fetch_add(&used, bytes);
    if (bytes < size || at + bytes > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    const uintptr_t start = (uintptr_t)arena + at + HEAD;
    char *block = arena + at + HEAD + (alignment - start % alignment) % alignment;
    memcpy(block - HEAD, &size, sizeof size);
    return block;
}

void *malloc(size_t size) {
    return cut(HEAD, size);
}

void free(void *block) {
    (void)block;
}

void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size); /* fresh memory of the arena is zero */
    if (nested_signal != 0) {
        raise(nested_signal);
    }
    return block;
}

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (block && moved) {
        size_t before;
        memcpy(&before, (char *)block - HEAD, sizeof before);
        memcpy(moved, block, before < size ? before : size);
        free(block);
    }
    return moved;
}

void *memalign(size_t alignment, size_t size) {
    return cut(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **ret_block, size_t alignment, size_t size) {
    *ret_block = memalign(alignment, size);
    return *ret_block ? 0 : ENOMEM;
}

char *nested_copy(const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}
