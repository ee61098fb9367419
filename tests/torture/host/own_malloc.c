/* own_malloc.c: an allocator that is part of a torture program. In some variants of the programs it
 * is compiled together with its callers. The allocator is lock-free, so signal handlers may call
 * it. A freed block goes to the list of its size class; the head of a list is a tag and an offset
 * in the arena. If the list of a class is empty, a new block comes from the arena, which only
 * grows.
 *
 * The functions change few registers and need no aligned stack. gcc sees this, and the compiled
 * callers rely on it. So a profiler that replaces the functions must not change other registers. */
#define _GNU_SOURCE
#include "own_malloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sites.h"

const int handler_safe_malloc = 1;

enum { CLASSES = 40, ARENA_BYTES = 1 << 30, UNIT = 16 };

/* The header before each block. */
struct own_header {
    uint64_t size;        /* as requested */
    uint32_t class, lead; /* lead: bytes from the start of the piece to the block */
};

static char *arena;
static _Atomic uint64_t arena_used;
/* the heads: a tag of 24 bits, then an offset of 40 bits in units of 16 bytes */
static _Atomic uint64_t freed[CLASSES];

static __attribute__((constructor(101))) void make_arena(void) {
    if (arena == NULL) {
        arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
}

/* The number of bytes of a piece (a header and a block) of each size class: 32, 48, 64, 96, 128 ...
 */
static size_t class_bytes(unsigned class) {
    return (size_t)(class & 1 ? 48 : 32) << class / 2;
}

static unsigned class_for(size_t n) {
    unsigned class = 0;
    while (class < CLASSES && class_bytes(class) < n) {
        class ++;
    }
    return class;
}

SITE_ATTRIBUTES static char *piece_take(unsigned class) {
    uint64_t head = atomic_load(&freed[class]);
    while ((head & 0xffffffffff) != 0) {
        char *piece = arena + (head & 0xffffffffff) * UNIT;
        const uint64_t next = *(volatile uint64_t *)piece; /* invalid if the head has changed */
        if (atomic_compare_exchange_weak(&freed[class], &head,
                                         ((head >> 40) + 1) << 40 | (next & 0xffffffffff))) {
            return piece;
        }
    }
    const uint64_t n = class_bytes(class);
    const uint64_t offset = atomic_fetch_add(&arena_used, n) + 64;
    return offset + n > ARENA_BYTES ? NULL : arena + offset;
}

SITE_ATTRIBUTES static void piece_give(unsigned class, char *piece) {
    uint64_t head = atomic_load(&freed[class]);
    do {
        *(volatile uint64_t *)piece = head & 0xffffffffff;
    } while (!atomic_compare_exchange_weak(
        &freed[class], &head, ((head >> 40) + 1) << 40 | (uint64_t)(piece - arena) / UNIT));
}

SITE_ATTRIBUTES static void *block_of(size_t n, size_t alignment) {
    const size_t lead = sizeof(struct own_header) + (alignment > UNIT ? alignment : 0);
    const unsigned class = n > ARENA_BYTES ? CLASSES : class_for(n + lead);
    if (arena == NULL) {
        make_arena();
    }
    char *piece = class < CLASSES ? piece_take(class) : NULL;
    if (piece == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)(((uintptr_t)piece + lead) & ~(uintptr_t)(alignment - 1));
    struct own_header *header = (struct own_header *)block - 1;
    *header = (struct own_header){n, class, (uint32_t)(block - piece)};
    return block;
}

SITE_ATTRIBUTES void *malloc(size_t n) {
    return block_of(n, UNIT);
}

SITE_ATTRIBUTES void free(void *block) {
    if (block != NULL) {
        const struct own_header *header = (struct own_header *)block - 1;
        piece_give(header->class, (char *)block - header->lead);
    }
}

SITE_ATTRIBUTES void *calloc(size_t n, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(n, each, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = block_of(bytes, UNIT);
    for (size_t i = 0; block != NULL && i < bytes; i++) {
        ((volatile char *)block)[i] = 0;
    }
    return block;
}

SITE_ATTRIBUTES void *realloc(void *block, size_t n) {
    char *moved = block_of(n, UNIT);
    if (block != NULL && moved != NULL) {
        const struct own_header *header = (struct own_header *)block - 1;
        for (size_t i = 0; i < n && i < header->size; i++) {
            ((volatile char *)moved)[i] = ((char *)block)[i];
        }
        piece_give(header->class, (char *)block - header->lead);
    }
    return moved;
}

SITE_ATTRIBUTES void *reallocarray(void *block, size_t n, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(n, each, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

SITE_ATTRIBUTES void *memalign(size_t alignment, size_t n) {
    return block_of(n, alignment);
}

SITE_ATTRIBUTES void *aligned_alloc(size_t alignment, size_t n) {
    return block_of(n, alignment);
}

SITE_ATTRIBUTES int posix_memalign(void **ret_block, size_t alignment, size_t n) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    void *block = block_of(n, alignment);
    if (block == NULL) {
        return ENOMEM;
    }
    *ret_block = block;
    return 0;
}

SITE_ATTRIBUTES void *valloc(size_t n) {
    return block_of(n, 4096);
}

SITE_ATTRIBUTES void *pvalloc(size_t n) {
    return block_of((n + 4095) & ~(size_t)4095, 4096);
}

SITE_ATTRIBUTES size_t malloc_usable_size(void *block) {
    return block == NULL ? 0 : ((struct own_header *)block - 1)->size;
}
