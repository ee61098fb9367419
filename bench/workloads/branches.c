/* branches.c: a benchmark program for the page of `allogram view`: a thousand functions with long
 * names, and 2^LEAF_BITS distinct stacks of 21 to 39 frames that form a tree, as in a compiler. The
 * stacks allocate during the whole run, the r-th most frequent one in proportion to 1/r (Zipf). So
 * the history in the page (what each group of stacks did in each slice of time) is almost as long
 * as it may be: 0.87 of 1 million entries with 6.5 million blocks.
 *
 * A stack is a path from the root of a tree to one of its leaves. The first LEAF_BITS steps of the
 * path are branches by the bits of the leaf's number, so leaves with a common beginning have common
 * callers. The steps after them belong to this leaf alone. Each step calls one of the functions,
 * which depends on the path so far; the last step calls one of a few.
 *
 * branches BLOCKS: allocates BLOCKS blocks; from 8 * LEAVES blocks on, each stack has a block.
 * Prints sums that depend on all results, then, on standard error, its own count of allocations and
 * its resident memory. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "resident.h"

enum {
    LEAF_BITS = 18,
    LEAVES = 1 << LEAF_BITS,
    OWN_STEPS_MOST = 19, /* steps after the last branch */
    HELD = 1 << 15,      /* blocks in use */
    FUNCTIONS = 1024,
    ALLOCATING = 8, /* functions that are the last step of a path */
};

struct path {
    uint32_t leaf;     /* its highest bits are the first branches */
    unsigned n_steps;  /* of the path so far */
    uint32_t hash;     /* of the path so far */
    size_t size_bytes; /* of the block to allocate */
    void *block;       /* the result */
};
typedef void step_function(struct path *path);
static step_function *const functions[FUNCTIONS];

static uint64_t n_allocated, sum;

static uint64_t state = 88172645463325252;
static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * UINT64_C(2685821657736338717);
}

/* Returns the function of the path's next step; NULL: the path is at its end. */
__attribute__((noinline)) static step_function *next_step(struct path *path) {
    if (path->n_steps >= LEAF_BITS + path->leaf % OWN_STEPS_MOST) {
        return NULL;
    }
    const uint32_t branch =
        path->n_steps < LEAF_BITS ? path->leaf >> (LEAF_BITS - 1 - path->n_steps) & 1 : 0;
    path->n_steps++;
    path->hash = (path->hash ^ path->hash >> 15 ^ branch) * UINT32_C(0x2c1b3c6d) + 1;
    const bool is_last = path->n_steps == LEAF_BITS + path->leaf % OWN_STEPS_MOST;
    return functions[path->hash >> 16 & (is_last ? ALLOCATING - 1 : FUNCTIONS - 1)];
}

/* Returns a leaf. Its rank by frequency is random between 1 and LEAVES, with a uniform logarithm.
 * Leaves of similar ranks are in different parts of the tree. */
static uint32_t frequent_leaf(void) {
    const uint64_t random = next_random();
    const unsigned octave = (random >> 32) % LEAF_BITS;
    const uint32_t rank =
        (UINT32_C(1) << octave) + ((uint32_t)random & ((UINT32_C(1) << octave) - 1));
    return rank * UINT32_C(92837111) % LEAVES;
}

__attribute__((noinline)) static void *new_expression(size_t size_bytes) {
    void *block = malloc(size_bytes);
    if (block == NULL) {
        abort();
    }
    n_allocated++;
    return block;
}

/* The comments keep the compiler from merging the functions, and from tail calls. */
#define STEP(n)                                                                    \
    __attribute__((noinline, noclone)) static void visit_expression_of_module_##n( \
        struct path *path) {                                                       \
        step_function *next = next_step(path);                                     \
        if (next != NULL) {                                                        \
            next(path);                                                            \
        } else {                                                                   \
            path->block = new_expression(path->size_bytes);                        \
        }                                                                          \
        __asm__ volatile("/* " #n " */");                                          \
    }
#define NAME(n) visit_expression_of_module_##n,
#define FOUR(each, n) each(n##0) each(n##1) each(n##2) each(n##3)
#define SIXTEEN(each, n) FOUR(each, n##0) FOUR(each, n##1) FOUR(each, n##2) FOUR(each, n##3)
#define SIXTY_FOUR(each, n) \
    SIXTEEN(each, n##0) SIXTEEN(each, n##1) SIXTEEN(each, n##2) SIXTEEN(each, n##3)
#define QUARTER(each, n) \
    SIXTY_FOUR(each, n##0) SIXTY_FOUR(each, n##1) SIXTY_FOUR(each, n##2) SIXTY_FOUR(each, n##3)
#define ALL(each) QUARTER(each, a) QUARTER(each, b) QUARTER(each, c) QUARTER(each, d)

ALL(STEP)
static step_function *const functions[FUNCTIONS] = {ALL(NAME)};

/* Allocates a block in the stack of LEAF, in place of the block that is held in a random slot. */
static void allocate(void **held, uint32_t leaf) {
    const uint64_t random = next_random();
    struct path path = {.leaf = leaf, .hash = 1, .size_bytes = 16 + (leaf * 40503u >> 4) % 2000};
    void **slot = &held[random % HELD];
    functions[0](&path);
    sum += path.hash;
    if (random >> 60 == 0) {
        free(path.block); /* a temporary block */
        return;
    }
    free(*slot);
    *slot = path.block;
}

int main(int n_arguments, char **arguments) {
    const uint64_t n_blocks = n_arguments > 1 ? strtoull(arguments[1], NULL, 10) : LEAVES;
    void **held = calloc(HELD, sizeof *held);
    if (held == NULL) {
        abort();
    }
    n_allocated++;
    for (uint64_t i = 0; i < n_blocks; i++) { /* each leaf has a turn, between frequent leaves */
        allocate(held, i % 8 == 0 ? (uint32_t)(i / 8) * UINT32_C(40507) % LEAVES : frequent_leaf());
    }
    printf("%" PRIx64 "\n", sum);
    fprintf(stderr, "allocations %" PRIu64 "\n", n_allocated);
    for (size_t i = 0; i < HELD / 2; i++) { /* the other half is never freed */
        free(held[i]);
    }
    free(held);
    say_resident();
    return 0;
}
