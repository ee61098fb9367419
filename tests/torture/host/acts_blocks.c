/* acts_blocks.c: acts (steps of torture programs, see nodes.h) that need neither threads nor
 * processes: random allocations and frees, functions that compute the size themselves, values that
 * live across calls, deep stacks, extreme sizes, longjmp. The numbers in the comment before an act
 * are its arguments (seed, n ...).
 *
 * block_make and block_free (sites.h) allocate and free, and count both; allogram's trace is
 * compared with these counts. */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "sites.h"

enum { SLOTS = 64 };

static size_t some_size(struct dice *dice) {
    const unsigned scale = (unsigned)dice_below(dice, 100);
    const size_t most = scale < 70 ? 256 : scale < 95 ? 4096 : scale < 99 ? 70000 : 300000;
    return BLOCK_LEAST_BYTES + dice_below(dice, most);
}

/* churn(seed, n): n random allocations, reallocations and frees of 64 blocks. */
uint64_t act_churn(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    char *blocks[SLOTS] = {0};
    size_t sizes[SLOTS] = {0};
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        const unsigned slot = (unsigned)dice_below(&dice, SLOTS);
        const size_t n = some_size(&dice);
        const unsigned site = (unsigned)dice_below(&dice, N_GENERAL_SITES);
        if (blocks[slot] == NULL) {
            blocks[slot] = block_make(site, n);
            sizes[slot] = n;
            if (blocks[slot] == NULL) {
                complain("an allocation was refused");
                return 0;
            }
            memset(blocks[slot] + 16, (int)n, n - 17);
        } else if (dice_below(&dice, 3) == 0) {
            const size_t kept = n < sizes[slot] ? n : sizes[slot];
            const char expected = (char)sizes[slot];
            blocks[slot] = block_resize(blocks[slot], n);
            for (size_t k = 16; k < kept - 1; k += 61) {
                if (blocks[slot][k] != expected) {
                    complain("realloc did not keep the contents");
                }
            }
            memset(blocks[slot] + 16, (int)n, n - 17);
            sizes[slot] = n;
        } else {
            result = mix(result, (uint64_t)(unsigned char)blocks[slot][sizes[slot] - 1]);
            block_free(blocks[slot]);
            blocks[slot] = NULL;
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        block_free(blocks[i]);
    }
    return result;
}

/* odds(seed, n): allocates n blocks by functions that compute the size or alignment themselves
 * (strdup, pvalloc ...). Some of the blocks are reallocated, and all are freed. In some steps
 * another block, which is not counted, is reallocated to size 0. */
uint64_t act_odds(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    void *kept[8] = {0};
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        void **slot = &kept[dice_below(&dice, 8)];
        const unsigned site = (unsigned)dice_below(&dice, N_ODD_SITES);
        block_free(*slot);
        *slot = block_make_odd(site, dice_below(&dice, 900));
        if (*slot == NULL) {
            complain("an allocation was refused");
            return 0;
        }
        result = mix(result, ((uint64_t *)*slot)[1]);
        if (dice_below(&dice, 4) == 0) {
            *slot = block_resize(*slot, 32 + dice_below(&dice, 5000));
        }
        if (dice_below(&dice, 6) == 0) { /* the result of realloc to size 0 depends on malloc */
            void *gone = malloc(1 + dice_below(&dice, 300));
            OPAQUE(gone);
            gone = realloc(gone, 0);
            OPAQUE(gone);
            free(gone);
            free(NULL);
        }
    }
    for (int i = 0; i < 8; i++) {
        block_free(kept[i]);
    }
    return result;
}

typedef double four_doubles __attribute__((vector_size(32)));
typedef int eight_ints __attribute__((vector_size(32)));

/* numbers(seed, n): values in every kind of register live across calls of sites. The calls are
 * direct, so the compiler may know which registers a site changes, and keep values in the other
 * registers. */
uint64_t act_numbers(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    double a = 1.5, b = 0.25, c = 3, d = -7, e = 11, f = 0.125;
    float g = 2.5f, h = 0.5f;
    four_doubles vector = {1, 2, 3, 4};
    eight_ints ints = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t r1 = 1, r2 = 2, r3 = 3, r4 = 4, r5 = 5, r6 = 6, r7 = 7;
    void *kept[8] = {0};
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        const size_t n = BLOCK_LEAST_BYTES + dice_below(&dice, 500);
        void *one = site_0_malloc(n);
        a = a * 1.0625 + b;
        b = b * 0.5 + c * 0.125;
        vector = vector * (four_doubles){0.5, 0.25, 0.75, 0.5} + a;
        void *two = site_10_calloc(n + 1);
        c = c * 0.75 + d * e;
        d = -d * 0.5;
        e = e * 0.5 + f;
        ints = ints * 3 + (int)n;
        r1 += r2 ^ n, r2 = r2 * 5 + r3, r3 ^= r4 << 3;
        block_free(one);
        f = f * 0.5 + g;
        g = g * 0.5f + h, h = h * 0.25f + 1;
        r4 += r5, r5 = r5 * 7 + r6, r6 ^= r7 >> 2, r7 += r1;
        block_free(kept[i % 8]);
        kept[i % 8] = two;
    }
    for (int i = 0; i < 8; i++) {
        block_free(kept[i]);
    }
    const double sum = a + b + c + d + e + f + (double)g + (double)h + vector[0] + vector[1] +
                       vector[2] + vector[3];
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    for (int i = 0; i < 8; i++) {
        bits = mix(bits, (uint64_t)ints[i]);
    }
    return mix(bits, r1 ^ r2 ^ r3 ^ r4 ^ r5 ^ r6 ^ r7);
}

static __attribute__((noinline, noclone)) uint64_t descend(struct dice *dice, int64_t left) {
    const size_t n = 16 + dice_below(dice, 200);
    volatile char *frame = alloca(n);
    frame[0] = (char)left, frame[n - 1] = (char)n;
    if (left == 0) {
        void *block = block_make((unsigned)dice_below(dice, 10), 100);
        block_free(block);
        return 1;
    }
    uint64_t result = 0;
    if (dice_below(dice, 8) == 0) {
        void *block = block_make((unsigned)dice_below(dice, 10), 64 + n);
        result = descend(dice, left - 1);
        block_free(block);
    } else {
        result = descend(dice, left - 1);
    }
    if (frame[0] != (char)left || frame[n - 1] != (char)n) {
        complain("a stack frame was overwritten");
    }
    return mix(result, n);
}

/* deep(seed, depth, n): n recursions of at most `depth` calls, with frames of random sizes. */
uint64_t act_deep(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[2]; i++) {
        result =
            mix(result, descend(&dice, (int64_t)dice_below(&dice, 1 + (uint64_t)node->numbers[1])));
    }
    return result;
}

/* edges(seed): tests size 0, sizes that are too large, alignment, and errno. These allocations are
 * not counted. */
uint64_t act_edges(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    uint64_t result = 0;
    errno = 4711;
    void *nothing = malloc(0);
    OPAQUE(nothing);
    nothing = realloc(nothing, 40);
    OPAQUE(nothing);
    free(nothing);
    free(NULL);
    nothing = calloc(0, 7);
    OPAQUE(nothing);
    free(nothing);
    if (errno != 4711) {
        complain("errno changed in a call that succeeded");
    }
    size_t much = PTRDIFF_MAX;
    OPAQUE(much);
    errno = 0;
    void *refused = malloc(much);
    OPAQUE(refused);
    result = mix(result, (uint64_t)(refused == NULL) << 8 | (uint64_t)errno);
    errno = 0;
    refused = calloc(much, 3);
    OPAQUE(refused);
    result = mix(result, (uint64_t)(refused == NULL) << 8 | (uint64_t)errno);
    errno = 0;
    refused = reallocarray(NULL, much, 5);
    OPAQUE(refused);
    result = mix(result, (uint64_t)(refused == NULL) << 8 | (uint64_t)errno);
    void *out = &much;
    result = mix(result, (uint64_t)posix_memalign(&out, 3, 100) << 1 | (out == &much));
    for (int i = 0; i < 10; i++) {
        const size_t alignment = (size_t)16 << dice_below(&dice, 9);
        void *block = aligned_alloc(alignment, alignment * 2);
        OPAQUE(block);
        if ((uintptr_t)block % alignment != 0) {
            complain("a block is not aligned");
        }
        free(block);
        const size_t n = dice_below(&dice, 5000);
        char *zero = calloc(n, 1);
        OPAQUE(zero);
        for (size_t k = 0; k < n; k++) {
            if (zero[k] != 0) {
                complain("a block of calloc is not zero");
                break;
            }
        }
        if (malloc_usable_size(zero) < n) {
            complain("a block is smaller than requested");
        }
        free(zero);
    }
    return result;
}

static __attribute__((noinline, noclone, noreturn)) void throw_up(jmp_buf *place, struct dice *dice,
                                                                  int depth) {
    volatile char frame[64];
    frame[depth % 64] = 1;
    if (depth == 0) {
        block_free(block_make((unsigned)dice_below(dice, 10), 200));
        longjmp(*place, 1);
    }
    throw_up(place, dice, depth - 1);
}

/* jump(seed, n): n times, calls longjmp in a deep call that has allocated. */
uint64_t act_jump(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    volatile uint64_t result = 0;
    for (volatile int64_t i = 0; i < node->numbers[1]; i++) {
        jmp_buf place;
        void *volatile block = block_make((unsigned)dice_below(&dice, 10), 80);
        if (setjmp(place) == 0) {
            throw_up(&place, &dice, (int)dice_below(&dice, 40));
        }
        block_free(block);
        result = mix(result, (uint64_t)i);
    }
    return result;
}
