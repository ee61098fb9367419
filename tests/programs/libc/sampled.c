/* sampled.c: allocates in ways that a sampler could get wrong, and prints what it allocated.
 *
 * sampled MODE. Each of the first four modes allocates from functions of its own and frees half of
 * the blocks: `periodic` (152 and 1048 bytes in turn), `powers` (1, 2, 4 ... 32768 in turn),
 * `heavy` (many small and few very large blocks: size = 64 / u^(1/1.5) with a random u), `huge`
 * (one of 50 MB, after a pause 2000 of 100 bytes from the same function). Other modes: `odd`
 * (realloc, calloc, aligned, size 0, usable size), `threads` (one allocates, another frees),
 * `handler` (allocates in a signal handler), `fork` (a child frees blocks of its parent and
 * allocates), `stopped` (a child, which is not recorded with --follow=none, uses and frees the
 * sampled blocks of its parent), `busy` (three seconds of CPU time). Prints for each function:
 * blocks, bytes, freed blocks, freed bytes. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
enum { ROUNDS = 40000, KEPT_BLOCKS = 1 << 17, TURNS = 16 };

static void *kept[KEPT_BLOCKS];
static size_t n_kept;
struct truth {
    const char *name;
    uint64_t blocks, bytes, freed_blocks, freed_bytes;
};

/* Every second block is freed at once, the others stay. */
#define SITE(site)                                       \
    static struct truth site##_truth = {.name = #site};  \
    KEPT static void site(size_t bytes) {                \
        void *block = malloc(bytes);                     \
        __asm__ volatile("" : "+r"(block) : : "memory"); \
        site##_truth.bytes += bytes;                     \
        if (site##_truth.blocks++ % 2) {                 \
            free(block);                                 \
            site##_truth.freed_blocks++;                 \
            site##_truth.freed_bytes += bytes;           \
        } else {                                         \
            kept[n_kept++ % KEPT_BLOCKS] = block;        \
        }                                                \
    }
SITE(small)
SITE(large)
SITE(power)
SITE(heavy)
SITE(mixed)

static void say(const struct truth *truth) {
    printf("%s %llu %llu %llu %llu\n", truth->name, (unsigned long long)truth->blocks,
           (unsigned long long)truth->bytes, (unsigned long long)truth->freed_blocks,
           (unsigned long long)truth->freed_bytes);
}

/* A pseudo-random number in [0, 1) that is the same in every run. */
static double even(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

/* 64 / (1 - u)^(2/3), without libm: the cube root by bisection. */
static size_t heavy_size(double u) {
    const double squared = 1 / ((1 - u) * (1 - u));
    double low = 1, high = 1e6;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (middle * middle * middle < squared) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (size_t)(64 * low);
}

static void periodic(void) {
    for (int i = 0; i < ROUNDS; i++) {
        small(152);
        large(1048);
    }
    say(&small_truth);
    say(&large_truth);
}

static void powers(void) {
    for (int i = 0; i < ROUNDS / TURNS; i++) {
        for (int turn = 0; turn < TURNS; turn++) {
            power((size_t)1 << turn);
        }
    }
    say(&power_truth);
}

static void tail(void) {
    uint64_t state = 1;
    for (int i = 0; i < ROUNDS; i++) {
        heavy(heavy_size(even(&state)));
    }
    say(&heavy_truth);
}

/* In the pause the writer (allogram's process that writes the trace) adds a time stamp, which lies
 * between the large block and the small ones. */
static void huge(void) {
    mixed(50000000);
    (void)usleep(50000);
    for (int i = 0; i < 2000; i++) {
        mixed(100);
    }
    say(&mixed_truth);
}

/* ---- calls with unusual arguments ---- */

static int n_wrong;

static void expect(int is_right, const char *what) {
    if (!is_right) {
        printf("wrong: %s\n", what);
        n_wrong++;
    }
}

KEPT static void odd_sizes(void) {
    volatile size_t impossible = SIZE_MAX - 100, half = SIZE_MAX / 2; /* hidden from the compiler */
    for (int i = 0; i < 3000; i++) {
        unsigned char *block = calloc(7, 13);
        for (int k = 0; k < 91; k++) {
            expect(block[k] == 0, "calloc returns zeros");
            block[k] = (unsigned char)k;
        }
        expect(malloc_usable_size(block) >= 91, "the usable size is large enough");
        block = realloc(block, 5000);
        for (int k = 0; k < 91; k++) {
            expect(block[k] == k, "realloc keeps the contents of a block");
        }
        expect(realloc(block, half) == NULL, "realloc to an impossible size fails");
        block = realloc(block, 10);
        expect(block[9] == 9, "realloc shrinks");
        free(block);
        void *aligned = NULL;
        expect(posix_memalign(&aligned, 4096, 100) == 0 && (uintptr_t)aligned % 4096 == 0,
               "posix_memalign returns an aligned block");
        free(aligned);
        aligned = memalign(256, 300);
        expect((uintptr_t)aligned % 256 == 0 && malloc_usable_size(aligned) >= 300,
               "memalign returns an aligned block");
        free(aligned);
        free(malloc(0));
        expect(malloc(impossible) == NULL, "malloc of an impossible size fails");
        expect(calloc(half, 3) == NULL, "a calloc whose size overflows fails");
        free(NULL);
    }
}

/* ---- threads ---- */

static void *handed[ROUNDS];

KEPT static void *allocate_for_another(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        handed[i] = malloc(200);
    }
    return NULL;
}

KEPT static void *free_for_another(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        free(handed[i]);
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate_for_another, NULL) || pthread_join(thread, NULL) ||
        pthread_create(&thread, NULL, free_for_another, NULL) || pthread_join(thread, NULL)) {
        abort();
    }
    printf("allocate_for_another %d %d %d %d\n", ROUNDS, ROUNDS * 200, ROUNDS, ROUNDS * 200);
}

/* ---- handlers and children ---- */

static volatile sig_atomic_t n_alarms;
static void *volatile of_handler; /* allocated by one alarm, freed by the next */
static volatile sig_atomic_t is_in_malloc;

static void on_alarm(int signal) {
    (void)signal;
    n_alarms++;
    if (!is_in_malloc) { /* a handler must not call malloc while it has interrupted malloc */
        free(of_handler);
        of_handler = malloc(3000);
    }
}

static void handler(void) {
    const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (n_alarms < 300) {
        is_in_malloc = 1;
        small(152);
        is_in_malloc = 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    say(&small_truth);
}

static void with_child(void) {
    for (int i = 0; i < ROUNDS; i++) {
        small(152);
    }
    const pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < n_kept; i++) {
            free(kept[i]);
        }
        for (int i = 0; i < ROUNDS; i++) {
            large(1048);
        }
        printf("child\n");
        say(&large_truth);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    say(&small_truth);
}

/* ---- sampled blocks are used after the recorder has stopped ---- */

enum { KINDS = 4, STOPPED_BLOCKS = 8000 };

static unsigned char *of_kind(int kind, size_t bytes) {
    void *block = NULL;
    switch (kind) {
    case 0:
        block = malloc(bytes);
        break;
    case 1:
        block = calloc(1, bytes);
        break;
    case 2:
        block = realloc(malloc(8), bytes);
        break;
    default:
        expect(posix_memalign(&block, 256, bytes) == 0, "posix_memalign succeeds");
        break;
    }
    memset(block, (int)(bytes & 0xff), bytes);
    return block;
}

static void use_and_free(unsigned char *block, size_t bytes, int kind) {
    const unsigned char filled = bytes & 0xff;
    expect(block[0] == filled && block[bytes - 1] == filled, "a block keeps its contents");
    expect(malloc_usable_size(block) >= bytes && malloc_usable_size(block) < bytes + 512,
           "the usable size is near the requested size");
    expect(kind != 3 || (uintptr_t)block % 256 == 0, "the block is aligned");
    if (bytes % 3 == 0) {
        block = realloc(block, bytes * 2);
        expect(block[bytes - 1] == filled, "realloc keeps the contents of a block");
    }
    free(block);
}

static void stopped(void) {
    static unsigned char *blocks[STOPPED_BLOCKS];
    for (int i = 0; i < STOPPED_BLOCKS; i++) {
        blocks[i] = of_kind(i % KINDS, 1 + (size_t)i % 700);
    }
    const pid_t child = fork();
    for (int i = 0; i < STOPPED_BLOCKS; i++) {
        use_and_free(blocks[i], 1 + (size_t)i % 700, i % KINDS);
        blocks[i] = of_kind(i % KINDS, 100);
    }
    for (int i = 0; i < STOPPED_BLOCKS; i++) {
        use_and_free(blocks[i], 100, i % KINDS);
    }
    int status = 0;
    if (child != 0) {
        expect(waitpid(child, &status, 0) == child && status == 0, "the child ends with status 0");
    }
}

/* ---- a run that is long enough for a sampler that adapts to a budget ---- */

KEPT static void brief(size_t bytes) {
    void *block = malloc(bytes);
    __asm__ volatile("" : "+r"(block) : : "memory");
    free(block);
}
KEPT static void brief_small(void) {
    brief(152);
    __asm__ volatile("");
}
KEPT static void brief_large(void) {
    brief(1048);
    __asm__ volatile("");
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Runs for three seconds of CPU time. */
static void busy(void) {
    unsigned long long rounds = 0;
    while (cpu_seconds() < 3) {
        for (int i = 0; i < 10000; i++, rounds++) {
            brief_small();
            brief_large();
        }
    }
    printf("brief_small %llu %llu %llu %llu\nbrief_large %llu %llu %llu %llu\n", rounds,
           rounds * 152, rounds, rounds * 152, rounds, rounds * 1048, rounds, rounds * 1048);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"periodic", periodic}, {"powers", powers},   {"heavy", tail},
                 {"odd", odd_sizes},     {"threads", threads}, {"handler", handler},
                 {"fork", with_child},   {"stopped", stopped}, {"busy", busy},
                 {"huge", huge}};
    for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            fflush(stdout);
            return n_wrong ? 1 : 0;
        }
    }
    fprintf(stderr, "usage: sampled MODE\n");
    return 2;
}
