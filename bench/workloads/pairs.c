/* pairs.c: measures the time of a pair of malloc and free at a given depth of the stack, for
 * bench/parts/pairs.py.
 *
 * pairs MODE DEPTH MILLIONS THREADS: in the MODE `leaf` only the innermost frame changes, between
 * eight call sites; in `middle` the four frames that call it change, too. Prints one line of
 * words: nanoseconds of CPU time per pair in the slowest thread, the number of pairs of all
 * threads, and the object whose malloc it called. Each thread is timed by its own CPU clock. */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT __attribute__((noinline, noclone))
enum { MIDDLE_FRAMES = 4, THREADS_MAX = 64 };

static long n_pairs;
static int is_middle, depth;
static double ns_of_thread[THREADS_MAX];

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The pointer is hidden from the compiler, which would remove the pair. */
#define LEAF(n)                                          \
    KEPT static void leaf_##n(void) {                    \
        void *block = malloc(24 + n * 8);                \
        __asm__ volatile("" : "+r"(block) : : "memory"); \
        free(block);                                     \
        __asm__ volatile("");                            \
    }
/* clang-format off */
LEAF(0) LEAF(1) LEAF(2) LEAF(3) LEAF(4) LEAF(5) LEAF(6) LEAF(7)
    /* clang-format on */

    static void any_leaf(long i) {
    /* clang-format off */
    switch (i & 7) {
    case 0: leaf_0(); break;
    case 1: leaf_1(); break;
    case 2: leaf_2(); break;
    case 3: leaf_3(); break;
    case 4: leaf_4(); break;
    case 5: leaf_5(); break;
    case 6: leaf_6(); break;
    default: leaf_7(); break;
    }
    /* clang-format on */
}

KEPT static void middle(int frames, long i) {
    volatile char frame[40];
    frame[0] = (char)frames;
    frame[1] = frame[0];
    if (frames == 0) {
        any_leaf(i);
    } else if (i & 1) {
        middle(frames - 1, i >> 1);
    } else {
        middle(frames - 1, i >> 1);
        frame[1] = 2;
    }
    frame[2] = frame[1];
}

KEPT static double loop(void) {
    double begin = cpu_ns();
    for (long i = 0; i < n_pairs; i++) {
        if (is_middle) {
            middle(MIDDLE_FRAMES, i);
        } else {
            any_leaf(i);
        }
    }
    return (cpu_ns() - begin) / (double)n_pairs;
}

KEPT static double below(int frames) {
    volatile char frame[64];
    frame[0] = (char)frames;
    double ns = frames <= 0 ? loop() : below(frames - 1);
    frame[1] = frame[0];
    return ns;
}

static void *run(void *number) {
    int own = 4 + (is_middle ? MIDDLE_FRAMES : 0); /* other frames of the stack */
    ns_of_thread[(intptr_t)number] = below(depth > own ? depth - own : 0);
    return NULL;
}

int main(int n_arguments, char **arguments) {
    if (n_arguments != 5) {
        fprintf(stderr, "usage: pairs leaf|middle DEPTH MILLIONS THREADS\n");
        return 2;
    }
    is_middle = strcmp(arguments[1], "middle") == 0;
    depth = atoi(arguments[2]);
    n_pairs = atol(arguments[3]) * 1000000;
    int n_threads = atoi(arguments[4]);
    pthread_t threads[THREADS_MAX];
    for (int i = 1; i < n_threads && i < THREADS_MAX; i++) {
        pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
    }
    run(NULL);
    double slowest = ns_of_thread[0];
    for (int i = 1; i < n_threads && i < THREADS_MAX; i++) {
        pthread_join(threads[i], NULL);
        slowest = ns_of_thread[i] > slowest ? ns_of_thread[i] : slowest;
    }
    Dl_info where = {0};
    dladdr(dlsym(RTLD_DEFAULT, "malloc"), &where);
    printf("%.2f %ld %s\n", slowest, n_pairs * n_threads, where.dli_fname);
    return 0;
}
