/* random_paths.c: allocates one block at the end of each of many random call paths, and frees it.
 * Its arguments are N, the number of paths, and DEPTH.
 *
 * A path has DEPTH frames: DEPTH - 1 of left or right, then leaf_left or leaf_right. Each path has
 * a number of 64 bits; bit 0 decides the outermost frame, bit 1 the next one, and after bit 63
 * follows bit 0 again. The size of a block is a hash of the number. If DEPTH is at least 64, the
 * stack of a block determines its size. Nearly every path shares about log2 N of its outermost
 * frames with another path, and no further frame, so N paths make N * (DEPTH - log2 N) stack
 * nodes. */
#include <stdint.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Keeps the call before it from becoming a tail call, and the compiler from merging functions of
 * different names. */
#define AND_RETURN(name) __asm__ volatile("# " name ::: "memory")

static void *block;

static uint64_t next_random(void) {
    static uint64_t state = 0x1234567;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static size_t size_of(uint64_t path) {
    return 16 + (path * UINT64_C(0x9e3779b97f4a7c15) >> 40) % 1000;
}

NOINLINE static void leaf_left(size_t size) {
    block = malloc(size);
    AND_RETURN("leaf_left");
}

NOINLINE static void leaf_right(size_t size) {
    block = calloc(1, size);
    AND_RETURN("leaf_right");
}

static void left(unsigned depth, uint64_t path, size_t size);
static void right(unsigned depth, uint64_t path, size_t size);

/* depth: frames that are still to come */
static inline __attribute__((always_inline)) void step(unsigned depth, uint64_t path, size_t size) {
    if (depth == 1) {
        (path & 1 ? leaf_right : leaf_left)(size);
    } else {
        (path & 1 ? right : left)(depth - 1, path >> 1 | path << 63, size);
    }
}

NOINLINE static void left(unsigned depth, uint64_t path, size_t size) {
    step(depth, path, size);
    AND_RETURN("left");
}

NOINLINE static void right(unsigned depth, uint64_t path, size_t size) {
    step(depth, path, size);
    AND_RETURN("right");
}

int main(int argc, char **argv) {
    const unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000,
                   depth = argc > 2 ? (unsigned)atoi(argv[2]) : 60;
    for (unsigned i = 0; i < n; i++) {
        const uint64_t path = next_random();
        step(depth, path, size_of(path));
        free(block);
    }
    return 0;
}
