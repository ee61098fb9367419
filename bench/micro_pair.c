/* micro_pair.c: measures, for bench/parts/sampling.py, the time that the preloaded agent adds to a
 * pair of malloc and free, within one process.
 *
 *     [LD_PRELOAD=agent | allogram run --mode=sample --] micro_pair [ROUNDS [loop|ring]]
 *
 * Two processes of the same program differ by more than the measured value (by the addresses of
 * their pages, by other load). So one process alternates: 16,384 pairs by malloc and free, to which
 * the dynamic linker has bound the agent's functions, then as many pairs by libc's own functions,
 * both called through a pointer. Only the quarter of the rounds in which libc was fastest counts:
 * the rounds with the least other load. The program prints the median time of libc's pair in these
 * rounds, the median of the difference, the quartiles of the difference, and the object whose
 * malloc it called. Times are nanoseconds of the thread's CPU time per pair.
 *
 *     loop   a block is freed at once; its size is one of eight from 24 to 80 bytes, in turns
 *     ring   4096 blocks live; the oldest is freed for each new one: addresses are scattered */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT __attribute__((noinline, noclone))
enum { PAIRS = 16384, RING = 4096, ROUNDS_MAX = 100000 };

extern void *__libc_malloc(size_t bytes);
extern void __libc_free(void *block);

typedef void *malloc_fn(size_t bytes);
typedef void free_fn(void *block);

static struct round { double base, added; } measured[ROUNDS_MAX];

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

KEPT static double loop(malloc_fn *take, free_fn *give) {
    const double begin = cpu_ns();
    for (size_t i = 0; i < PAIRS; i++) {
        void *block = take(24 + (i & 7) * 8);
        __asm__ volatile("" : "+r"(block) : : "memory");
        give(block);
    }
    return (cpu_ns() - begin) / PAIRS;
}

KEPT static double ring(malloc_fn *take, free_fn *give) {
    static void *blocks[RING];
    for (size_t i = 0; i < RING; i++) {
        blocks[i] = take(24 + (i * 5 & 7) * 8);
    }
    const double begin = cpu_ns();
    for (size_t i = 0; i < PAIRS; i++) {
        give(blocks[i * 77 % RING]);
        blocks[i * 77 % RING] = take(24 + (i & 7) * 8);
    }
    const double ns = (cpu_ns() - begin) / PAIRS;
    for (size_t i = 0; i < RING; i++) {
        give(blocks[i]);
    }
    return ns;
}

static int by_base(const void *a, const void *b) {
    const double x = ((const struct round *)a)->base, y = ((const struct round *)b)->base;
    return (x > y) - (x < y);
}

static int by_added(const void *a, const void *b) {
    const double x = ((const struct round *)a)->added, y = ((const struct round *)b)->added;
    return (x > y) - (x < y);
}

int main(int n_arguments, char **arguments) {
    const int rounds = n_arguments > 1 ? atoi(arguments[1]) : 200;
    const int is_ring = n_arguments > 2 && strcmp(arguments[2], "ring") == 0;
    if (rounds < 4 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: micro_pair [ROUNDS [loop|ring]]\n");
        return 2;
    }
    double (*const measure)(malloc_fn *, free_fn *) = is_ring ? ring : loop;
    for (int i = -2; i < rounds; i++) { /* the first two warm up */
        const double asked = measure(malloc, free);
        const double base = measure(__libc_malloc, __libc_free);
        if (i >= 0) {
            measured[i] = (struct round){.base = base, .added = asked - base};
        }
    }
    const size_t n = (size_t)rounds / 4;
    qsort(measured, (size_t)rounds, sizeof(measured[0]), by_base);
    const double base = measured[n / 2].base;
    qsort(measured, n, sizeof(measured[0]), by_added);
    Dl_info where = {0};
    dladdr(dlsym(RTLD_DEFAULT, "malloc"), &where);
    printf("%.2f %.2f %.2f %.2f %s\n", base, measured[n / 2].added, measured[n / 4].added,
           measured[3 * n / 4].added, where.dli_fname);
    return 0;
}
