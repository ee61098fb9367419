/* arena_allocator.c: an allocator that has, besides malloc, functions whose first argument is an
 * arena, as mozjemalloc has. Its functions call each other by their public names, and those that
 * allocate use the internal function take. free frees blocks of malloc and blocks of any arena. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { ARENAS = 4, HEAD = 16, ARENA_BYTES = 32 << 20 };
static _Alignas(16) char memory[ARENAS][ARENA_BYTES];
static _Atomic size_t used[ARENAS];

typedef size_t arena_id;
void *moz_arena_malloc(arena_id arena, size_t bytes);
void *moz_arena_calloc(arena_id arena, size_t count, size_t bytes);
void *moz_arena_realloc(arena_id arena, void *block, size_t bytes);
void moz_arena_free(arena_id arena, void *block);
void *moz_arena_memalign(arena_id arena, size_t alignment, size_t bytes);
void *mallocx(size_t bytes, int flags);
void dallocx(void *block, int flags);

static void *take(arena_id arena, size_t alignment, size_t bytes) {
    const size_t room = (HEAD + bytes + alignment + 15) & ~(size_t)15;
    const size_t at = atomic_fetch_add(&used[arena], room);
    if (room < bytes || at + room > ARENA_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = memory[arena] + at + HEAD;
    block += (alignment - (uintptr_t)block % alignment) % alignment;
    ((size_t *)(void *)block)[-1] = bytes;
    return block;
}

void *moz_arena_malloc(arena_id arena, size_t bytes) {
    return take(arena, 16, bytes);
}

void *moz_arena_calloc(arena_id arena, size_t count, size_t bytes) {
    return moz_arena_malloc(arena, count * bytes); /* the arena never uses memory again, and
                                                    * fresh memory is zero */
}

void *moz_arena_realloc(arena_id arena, void *block, size_t bytes) {
    char *moved = moz_arena_malloc(arena, bytes);
    const size_t before = block ? ((size_t *)block)[-1] : 0;
    for (size_t i = 0; moved && i < before && i < bytes; i++) {
        moved[i] = ((char *)block)[i];
    }
    if (moved && block) {
        moz_arena_free(arena, block);
    }
    return moved;
}

void moz_arena_free(arena_id arena, void *block) {
    if (block) {
        ((size_t *)block)[-1] = arena;
    }
}

void *moz_arena_memalign(arena_id arena, size_t alignment, size_t bytes) {
    return take(arena, alignment < 16 ? 16 : alignment, bytes);
}

void *mallocx(size_t bytes, int flags) {
    return flags ? moz_arena_memalign(2, 64, bytes) : malloc(bytes);
}

void dallocx(void *block, int flags) {
    moz_arena_free((size_t)flags, block);
}

void *malloc(size_t bytes) {
    return moz_arena_malloc(0, bytes);
}

void free(void *block) {
    moz_arena_free(0, block);
}

void *calloc(size_t count, size_t bytes) {
    size_t total;
    return __builtin_mul_overflow(count, bytes, &total) ? NULL : moz_arena_calloc(0, count, bytes);
}

void *realloc(void *block, size_t bytes) {
    return moz_arena_realloc(0, block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return moz_arena_memalign(0, alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    return moz_arena_memalign(0, alignment, bytes);
}

int posix_memalign(void **ret_block, size_t alignment, size_t bytes) {
    void *block = moz_arena_memalign(0, alignment, bytes);
    if (!block) {
        return ENOMEM;
    }
    *ret_block = block;
    return 0;
}
