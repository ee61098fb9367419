/* sampled_heap.c: the same allocations as in sampled.c, but of blocks in a heap of the program,
 * which reports them with allogram.h.
 *
 * sampled_heap MODE: `reported` (152 and 1048 bytes in turn, each from a function of its own, half
 * of the blocks freed), `tracked` (as `reported`; during the second third of the rounds a tracker
 * is active, which calls functions of the program for sampled blocks), `speed` (prints ns per
 * call). Prints per function: blocks, bytes, freed blocks, freed bytes. */
#include <allogram/allogram.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT __attribute__((noinline, noclone))
enum { ROUNDS = 30000, SMALL = 152, LARGE = 1048 };

static allogram_heap heap;
static uint64_t next_address = 0x10000;

static KEPT uint64_t small(void) {
    allogram_alloc(heap, next_address, SMALL, 0);
    return next_address++;
}

static KEPT uint64_t large(void) {
    allogram_alloc(heap, next_address, LARGE, 0);
    return next_address++;
}

static void *track(void *context, const struct allogram_sample *sample) {
    (void)context;
    return (void *)(uintptr_t)sample->address;
}

static void rounds(int is_tracked) {
    const struct allogram_tracker_options options = {
        .size = sizeof(options), .interval_bytes = 4096, .on_alloc = track};
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t one = small(), other = large();
        if (i % 2 == 0) {
            allogram_free(heap, one);
            allogram_free(heap, other);
        }
        if (is_tracked && i == ROUNDS / 3) {
            (void)allogram_tracker_start(&options);
        }
        if (is_tracked && i == 2 * ROUNDS / 3) {
            (void)allogram_tracker_stop();
        }
    }
    printf("small %d %d %d %d\n", ROUNDS, ROUNDS * SMALL, ROUNDS / 2, ROUNDS / 2 * SMALL);
    printf("large %d %d %d %d\n", ROUNDS, ROUNDS * LARGE, ROUNDS / 2, ROUNDS / 2 * LARGE);
}

/* The CPU time of a turn of the loop, with or without a call: the best of 15 rounds of two million
 * turns. The difference is the time of a call. */
static double best_ns(int is_reported) {
    enum { CALLS = 2000000 };
    double best = 1e9;
    for (int round = 0; round < 15; round++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (int i = 0; i < CALLS; i++) {
            __asm__ volatile("" ::: "memory");
            if (is_reported) {
                allogram_alloc(heap, next_address, 64, 0);
            }
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        const double ns =
            (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
        best = ns / CALLS < best ? ns / CALLS : best;
    }
    return best;
}

int main(int argc, char **argv) {
    const struct allogram_heap_options options = {.size = sizeof(options), .name = "blocks"};
    heap = allogram_heap_new(&options);
    if (argc > 1 && strcmp(argv[1], "speed") == 0) {
        printf("%.2f ns\n", best_ns(1) - best_ns(0));
        return 0;
    }
    rounds(argc > 1 && strcmp(argv[1], "tracked") == 0);
    return 0;
}
