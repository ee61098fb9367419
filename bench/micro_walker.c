/* micro_walker.c: measures the time of a capture (the agent determines the current stack and its
 * number), for developers who change src/unwind/. The stacks have up to 128 frames, of which the
 * innermost ones, or some in the middle, change from capture to capture.
 *
 *     micro_walker [captures per round, default 100000 [leaf|middle|many [depth]]]
 *
 * Prints ns per capture: the CPU time of a loop that calls a function which captures, minus that of
 * the same loop with a function that returns at once; the lower quartile of 32 rounds. The results
 * are counted, so that a capture which fails cannot appear fast. The depth includes main and the
 * frames of libc that call it. If the depth is less than the frames that the program itself needs
 * (about 9, with `middle` 14, with `many` 26), the stack has these frames.
 *
 *     leaf     the innermost frame is one of eight call sites, in turns
 *     middle   as leaf; in addition, four frames further out take one of 16 paths, in turns: 16
 *              stacks, since each path always ends in the same call site
 *     many     as leaf; in addition, sixteen frames further out take one of 2^16 paths: many
 *              distinct stacks */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/populate.h"
#include "loaded_images.h"
#include "unwind/arch/x86_64/capture_entry.h"
#include "unwind/stack_walker_fast.h"

enum { ROUNDS = 32, DEPTH_KEPT = 256 };

static struct ag_unwind_space *space;
static struct ag_walker *walker;
static uint64_t n_captured;

uint32_t capture_here(void);
uint32_t capture_nothing(void);
uint32_t captured(const uintptr_t *sp, uintptr_t rbp);
uint32_t not_captured(const uintptr_t *sp, uintptr_t rbp);
AG_CAPTURE_ENTRY_0(capture_here, captured);
AG_CAPTURE_ENTRY_0(capture_nothing, not_captured);

__attribute__((used, visibility("hidden"))) uint32_t captured(const uintptr_t *sp, uintptr_t rbp) {
    const uint32_t node = ag_walker_capture_fast(walker, space, sp, rbp);
    n_captured += node != 0;
    return node;
}
__attribute__((used, visibility("hidden"))) uint32_t not_captured(const uintptr_t *sp,
                                                                  uintptr_t rbp) {
    (void)sp, (void)rbp;
    return 0;
}

/* ---- the stacks ---------------------------------------------------------- */
static uint32_t (*volatile target)(void);

#define LEAF(n)                              \
    AG_NOINLINE static void leaf_##n(void) { \
        target();                            \
        __asm__ volatile("" ::: "memory");   \
    }
LEAF(0)
LEAF(1)
LEAF(2)
LEAF(3)
LEAF(4)
LEAF(5)
LEAF(6)
LEAF(7)

AG_NOINLINE static void call_leaf(uint64_t i) {
    switch (i & 7) {
    case 0:
        leaf_0();
        break;
    case 1:
        leaf_1();
        break;
    case 2:
        leaf_2();
        break;
    case 3:
        leaf_3();
        break;
    case 4:
        leaf_4();
        break;
    case 5:
        leaf_5();
        break;
    case 6:
        leaf_6();
        break;
    default:
        leaf_7();
        break;
    }
    __asm__ volatile("" ::: "memory");
}

AG_NOINLINE static void path(int n_frames, uint64_t bits, uint64_t i) {
    volatile char local[40];
    local[0] = (char)n_frames;
    if (n_frames == 0) {
        call_leaf(i);
    } else if (bits & 1) {
        path(n_frames - 1, bits >> 1, i);
    } else {
        path(n_frames - 1, bits >> 1, i);
        local[1] = 2;
    }
    __asm__ volatile("" ::"r"(local) : "memory"); // no tail call
}

struct stacks {
    const char *name;
    int n_changing; /* frames that take one of two paths each */
};
static double run_loop(const struct stacks *stacks, uint64_t n) {
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (uint64_t i = 0; i < n; i++) {
        if (stacks->n_changing == 0) {
            call_leaf(i);
        } else {
            const uint64_t turn =
                stacks->n_changing <= 4 ? i : i * UINT64_C(0x9e3779b97f4a7c15) >> 40;
            path(stacks->n_changing, turn, i);
        }
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
           (double)n;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct stacks *stacks, uint64_t n) {
    double rounds[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        target = capture_nothing;
        const double without = run_loop(stacks, n);
        target = capture_here;
        const uint64_t before = n_captured;
        const double with = run_loop(stacks, n);
        if (n_captured - before != n) {
            fprintf(stderr, "micro_walker: captured %lu of %lu\n", n_captured - before, n);
            exit(1);
        }
        if (round >= 0) {
            rounds[round] = with - without;
        }
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], compare);
    printf("%8.1f", rounds[ROUNDS / 4]);
    fflush(stdout);
}

AG_NOINLINE static void descend(int n_frames, const struct stacks *stacks, uint64_t n) {
    volatile char local[72];
    local[0] = (char)n_frames;
    if (n_frames <= 0) {
        measure(stacks, n);
    } else {
        descend(n_frames - 1, stacks, n);
    }
    __asm__ volatile("" ::"r"(local) : "memory"); // no tail call
}

/* Creates a new tree of stacks for each measurement, without the nodes of earlier measurements. */
static bool start(void) {
    const int protection = PROT_READ | PROT_WRITE,
              shared = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    const int private = MAP_PRIVATE | MAP_ANONYMOUS;
    void *tree = mmap(NULL, AG_TREE_BYTES, protection, shared, -1, 0);
    void *of_space = mmap(NULL, ag_unwind_space_bytes(), protection, private, -1, 0);
    void *of_walker = mmap(NULL, ag_walker_bytes(DEPTH_KEPT), protection, private, -1, 0);
    if (tree == MAP_FAILED || of_space == MAP_FAILED || of_walker == MAP_FAILED) {
        return false;
    }
    space = ag_unwind_space_init(of_space, tree, AG_TREE_SIZES - 1, NULL, DEPTH_KEPT, ag_populate,
                                 loaded_image_find, NULL);
    walker = ag_walker_init(of_walker, DEPTH_KEPT);
    return space != NULL;
}

static void end(void) {
    munmap(space->tree.sites, AG_TREE_BYTES);
    munmap(space, ag_unwind_space_bytes());
    munmap(walker, ag_walker_bytes(DEPTH_KEPT));
}

int main(int argc, char **argv) {
    const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    static const struct stacks all[] = {{"leaf", 0}, {"middle", 4}, {"many", 16}};
    static const int depths[] = {4, 16, 32, 64, 128};
    printf("depth   ");
    for (size_t d = 0; d < AG_ARRAY_SIZE(depths); d++) {
        printf("%8d", depths[d]);
    }
    for (size_t s = 0; s < AG_ARRAY_SIZE(all); s++) {
        if (argc > 2 && strcmp(argv[2], all[s].name) != 0) {
            continue;
        }
        printf("\n%-8s", all[s].name);
        for (size_t d = 0; d < AG_ARRAY_SIZE(depths); d++) {
            if (argc > 3 && atoi(argv[3]) != depths[d]) {
                continue;
            }
            if (!start()) {
                return 1;
            }
            /* other frames of the stack: _start, two of libc, main, measure, run_loop, call_leaf,
             * leaf */
            const int n_frames = 8 + (all[s].n_changing > 0 ? all[s].n_changing + 1 : 0);
            descend(depths[d] - n_frames, &all[s], n);
            end();
        }
    }
    printf("\n");
    return 0;
}
