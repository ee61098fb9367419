/* stepped_allocator.c: an allocator without locks, for stepped.c. Its functions call each other by
 * their public names. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Callers do not write to blocks of WRITTEN_MOST bytes and more, so malloc takes only 32 bytes of
 * the arena for such a block. */
enum { WRITTEN_MOST = 16384 };

static _Alignas(64) char arena[1 << 30];
static _Atomic size_t used;

__attribute__((noinline)) void *malloc(size_t bytes) {
    const size_t needed = bytes < WRITTEN_MOST ? (bytes + 31) & ~(size_t)15 : 32;
    char *header = arena + atomic_fetch_add(&used, needed);
    memcpy(header, &bytes, sizeof(bytes));
    return header + 16;
}

static _Atomic size_t n_freed; /* so that free has something to do */

__attribute__((noinline)) void free(void *block) {
    n_freed += block != NULL;
}

__attribute__((noinline)) void *calloc(size_t count, size_t bytes) {
    return malloc(count * bytes); /* the arena is zero, and no block is used again */
}

__attribute__((noinline)) void *realloc(void *block, size_t bytes) {
    void *moved = malloc(bytes);
    if (block) {
        size_t before;
        memcpy(&before, (char *)block - 16, sizeof(before));
        memcpy(moved, block, before < bytes ? before : bytes);
        free(block);
    }
    return moved;
}

__attribute__((noinline)) int posix_memalign(void **ret_block, size_t alignment, size_t bytes) {
    (void)alignment; /* every block is aligned to 16 bytes, which is enough for the callers here */
    *ret_block = malloc(bytes);
    return 0;
}

/* operator new and delete */
void *_Znwm(size_t bytes);
void _ZdlPv(void *block);

__attribute__((noinline)) void *_Znwm(size_t bytes) {
    return malloc(bytes);
}

__attribute__((noinline)) void _ZdlPv(void *block) {
    free(block);
}
