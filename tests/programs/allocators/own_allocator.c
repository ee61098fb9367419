/* own_allocator.c: a program whose allocator is in the same source file as its callers, so that the
 * compiler knows which registers each function of the allocator changes and which stack alignment
 * the function needs (-fipa-ra, -fipa-stack-alignment, link-time optimization).
 *
 * The callers keep values of every kind across calls of the allocator: integers in more registers
 * than the ABI preserves, doubles, vectors, long doubles. tests/conformance/own_allocators.py
 * builds this file in many ways and compares the program's output without and with the recorder.
 * Each build defines VECTOR_BYTES (16 or 32), and INLINING, an attribute of the allocator's
 * functions: noinline, always_inline, or unused if the compiler may choose.
 *
 *     own_allocator [ROUNDS [SECONDS]]
 *
 * With SECONDS, the program sleeps that long before the work, so that a recorder can attach. It
 * prints a checksum, and how many blocks and bytes the work allocated and how many blocks it
 * freed. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "../say.h"

#define ALLOCATOR __attribute__((INLINING, used))

enum { CLASSES = 24, HEAD = 16, ARENA = 96 << 20 };
static _Alignas(64) char arena[ARENA];
static size_t used;
static void *lists[CLASSES];
static size_t n_allocated, n_freed, allocated_bytes;

struct head {
    uint32_t class, offset;
    size_t bytes;
};

static inline unsigned class_of(size_t bytes) {
    unsigned class = 0;
    for (size_t room = 16; room < bytes; room *= 2) {
        class ++;
    }
    return class;
}

ALLOCATOR void *malloc(size_t bytes) {
    const unsigned class = class_of(bytes);
    char *block;
    if (class >= CLASSES) {
        return NULL;
    }
    if (lists[class]) {
        block = lists[class];
        lists[class] = *(void **)block;
    } else {
        const size_t room = HEAD + ((size_t)16 << class);
        if (room > ARENA - used) {
            return NULL;
        }
        block = arena + used + HEAD;
        used += room;
    }
    struct head *head = (struct head *)(block - HEAD);
    head->class = class;
    head->offset = 0;
    head->bytes = bytes;
    n_allocated++;
    allocated_bytes += bytes;
    return block;
}

ALLOCATOR void free(void *block) {
    if (block) {
        struct head *head = (struct head *)((char *)block - HEAD);
        void **start = (void **)((char *)block - head->offset);
        const unsigned class = head->class;
        *start = lists[class];
        lists[class] = start;
        n_freed++;
    }
}

ALLOCATOR void *calloc(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        return NULL;
    }
    unsigned char *block = malloc(total);
    for (size_t i = 0; block && i < total; i++) {
        block[i] = 0;
        __asm__ volatile("" : : : "memory");
    }
    return block;
}

ALLOCATOR void *realloc(void *block, size_t bytes) {
    if (!block) {
        return malloc(bytes);
    }
    unsigned char *moved = malloc(bytes);
    if (moved) {
        const size_t before = ((struct head *)((char *)block - HEAD))->bytes;
        for (size_t i = 0; i < before && i < bytes; i++) {
            moved[i] = ((unsigned char *)block)[i];
            __asm__ volatile("" : : : "memory");
        }
        free(block);
    }
    return moved;
}

/* The block lies within a larger block. A header before the block contains the block's offset from
 * the start of the larger block. */
ALLOCATOR void *aligned_alloc(size_t alignment, size_t bytes) {
    char *outer = malloc(bytes + alignment + HEAD);
    if (!outer) {
        return NULL;
    }
    allocated_bytes -= alignment + HEAD;
    const uint32_t class = ((struct head *)(outer - HEAD))->class;
    char *block = (char *)(((uintptr_t)outer + HEAD + alignment - 1) & ~(uintptr_t)(alignment - 1));
    struct head *head = (struct head *)(block - HEAD);
    head->class = class;
    head->offset = (uint32_t)(block - outer);
    head->bytes = bytes;
    return block;
}

ALLOCATOR int posix_memalign(void **ret_block, size_t alignment, size_t bytes) {
    void *block = aligned_alloc(alignment, bytes);
    if (!block) {
        return ENOMEM;
    }
    *ret_block = block;
    return 0;
}

/* ---- callers ---- */

#define CALLER __attribute__((noinline)) static
typedef double pair __attribute__((vector_size(16)));
typedef int64_t four __attribute__((vector_size(32)));

static uint64_t seed = 88172645463325252u;
static inline uint64_t next_random(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

CALLER uint64_t integers(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    uint64_t g = a ^ b, h = b + c, i = c ^ d, j = d + e, k = e ^ f, l = f + a, m = a * 3, n = b * 5;
    char *block = malloc(a % 900 + 1);
    block[0] = (char)m;
    char *other = calloc(1, b % 300 + 1);
    other[0] = (char)n;
    other = realloc(other, c % 500 + 1);
    const uint64_t kept = (uint64_t)(unsigned char)block[0] * 7 + (unsigned char)other[0];
    free(block);
    a += g;
    free(other);
    return a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f + 17 * g + 19 * h + 23 * i + 29 * j +
           31 * k + 37 * l + 41 * m + 43 * n + kept;
}

CALLER double doubles(double x, double y, double z) {
    double a = x * y, b = y * z, c = z * x, d = a + b, e = b - c, f = c * 0.5, g = x - 1, h = y + 2;
    void *block = malloc((size_t)(x * 100) + 8);
    a += b * 0.25;
    void *other = aligned_alloc(64, (size_t)(y * 50) + 8);
    c += d * 0.125;
    free(block);
    e += f * 0.75;
    free(other);
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + x + y + z;
}

CALLER pair pairs(pair a, pair b) {
    pair c = a * b, d = a + b, e = a - b, f = c * d;
    void *block = malloc(64);
    f += e;
    void *same;
    if (posix_memalign(&same, 32, 96) == 0) {
        free(same);
    }
    free(block);
    return a + b + c + d + e + f;
}

typedef double wide __attribute__((vector_size(VECTOR_BYTES)));
CALLER double wides(const wide *values) {
    wide a = values[0], b = values[1], c = a * b, d = a + b;
    void *block = malloc(40);
    c += d;
    free(block);
    a = a + b + c + d;
    double sum = 0;
    for (unsigned i = 0; i < sizeof(wide) / sizeof(double); i++) {
        sum += a[i];
    }
    return sum;
}

CALLER long double longs(long double x, long double y) {
    long double a = x * y, b = x + y;
    void *block = malloc(24);
    a += b;
    free(block);
    return a * 2 + b * 3 + x + y;
}

CALLER uint64_t sum_over(const uint64_t *values, size_t n) {
    uint64_t sum = 0, crossed = 1;
    for (size_t i = 0; i < n; i++) {
        void *block = malloc(values[i] % 64);
        sum += values[i] * crossed;
        free(block);
        crossed += sum >> 7;
    }
    return sum ^ crossed;
}

/* Uses aligned instructions on its stack, so it fails when its caller's stack is not aligned. */
CALLER double aligned(unsigned n) {
    volatile _Alignas(16) double local[4] = {n, n + 1.0, n + 2.0, n + 3.0};
    void *block = malloc(n % 100);
    const double sum = local[0] + local[1] * 2 + local[2] * 3 + local[3] * 4;
    free(block);
    return sum;
}

CALLER uint64_t recursive(unsigned depth, uint64_t value) {
    uint64_t *block = malloc(sizeof(*block) * (depth + 1));
    block[depth] = value;
    const uint64_t deeper = depth == 0 ? value : recursive(depth - 1, value * 3 + depth);
    const uint64_t result = block[depth] + deeper;
    free(block);
    return result;
}

int main(int argc, char **argv) {
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 2000;
    if (argc > 2) {
        say("ready\n");
        sleep((unsigned)atoi(argv[2]));
    }
    const size_t before_allocated = n_allocated, before_freed = n_freed,
                 before_bytes = allocated_bytes;
    uint64_t sum = 0;
    double real = 0;
    long double longer = 0;
    pair both = {0, 0};
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t values[8];
        for (unsigned n = 0; n < 8; n++) {
            values[n] = next_random();
        }
        sum += integers(values[0], values[1], values[2], values[3], values[4], values[5]);
        sum ^= sum_over(values, 8);
        sum += recursive(i % 12, values[6]);
        real +=
            doubles((double)(values[0] % 10), (double)(values[1] % 10), (double)(values[2] % 10));
        real += aligned(i);
        wide two[2];
        for (unsigned n = 0; n < sizeof(wide) / sizeof(double); n++) {
            two[0][n] = (double)(values[n] % 100);
            two[1][n] = (double)(values[n + 1] % 100);
        }
        real += wides(two);
        both += pairs((pair){(double)(values[5] % 50), 1}, (pair){2, (double)(values[6] % 50)});
        longer += longs((long double)(values[7] % 1000), (long double)i);
    }
    say("%llx %.17g %.17g %.17g %.17Lg\n", (unsigned long long)sum, real, both[0], both[1], longer);
    tell_truth("allocated_blocks", n_allocated - before_allocated);
    tell_truth("freed_blocks", n_freed - before_freed);
    tell_truth("allocated_bytes", allocated_bytes - before_bytes);
    return 0;
}
