/* micro_embedded.c: measures, for bench/parts/sampling.py, an inlined allogram_alloc whose block is
 * not recorded: without a recording, and while a tracker (callbacks on sampled blocks) runs.
 *
 * Prints two numbers: CPU time of a call in ns, minus that of the empty loop, each the best of 15
 * rounds. The tracker's interval is so long that no block becomes a sample. */
#include <allogram/allogram.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { CALLS = 2000000, ROUNDS = 15 };
#define KEPT __attribute__((noinline, noclone))

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

KEPT static double empty_loop(allogram_heap heap) {
    const double begin = cpu_ns();
    for (uint64_t i = 0; i < CALLS; i++) {
        __asm__ volatile("" : : "r"(i << 4), "r"(heap) : "memory");
    }
    return (cpu_ns() - begin) / CALLS;
}

KEPT static double calls(allogram_heap heap) {
    const double begin = cpu_ns();
    for (uint64_t i = 0; i < CALLS; i++) {
        allogram_alloc(heap, i << 4, 16, 0);
        __asm__ volatile("" : : "r"(i << 4), "r"(heap) : "memory");
    }
    return (cpu_ns() - begin) / CALLS;
}

static double best(allogram_heap heap) {
    double found = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        const double empty = empty_loop(heap), ns = calls(heap) - empty;
        found = ns < found ? ns : found;
    }
    return found;
}

static void *hear_nothing(void *context, const struct allogram_sample *sample) {
    (void)context, (void)sample;
    return NULL;
}

int main(void) {
    const struct allogram_heap_options options = {.size = sizeof(options), .name = "bench"};
    const allogram_heap heap = allogram_heap_new(&options);
    const double without = best(heap);
    const struct allogram_tracker_options tracker = {
        .size = sizeof(tracker), .interval_bytes = UINT64_C(1) << 40, .on_alloc = hear_nothing};
    if (allogram_tracker_start(&tracker) < 1) {
        fprintf(stderr, "micro_embedded: no tracker starts: not linked with the library\n");
        return 1;
    }
    printf("%.2f %.2f\n", without, best(heap));
    return allogram_tracker_stop();
}
