/* moving_heap.c CASE: each case reports with allogram.h, correctly or incorrectly, what a garbage
 * collector does to blocks. It prints as JSON what its trace must contain; these numbers were
 * computed by hand. The tests run it with a session (a recording) that the program starts itself,
 * and under `allogram run`. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <allogram/allogram.h>

#define APART __attribute__((noinline, noclone))

static allogram_heap heap, other;
static allogram_type pair, text;
static struct {
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, ghost_frees;
    uint64_t moved, promoted, collected;
} truth;
static char types[512]; /* as JSON: name: blocks, bytes, blocks in use */
static char message[512];

static void require(int holds, const char *what) {
    if (!holds) {
        printf("it does not hold that %s\n", what);
        fflush(stdout);
        _Exit(9);
    }
}

static void start(void) {
    (void)allogram_start(NULL, message, sizeof(message)); /* fails under `allogram run`, which has
                                                           * started a session */
}

static void want(const char *type, int blocks, int bytes, int in_use) {
    const size_t at = strlen(types);
    snprintf(types + at, sizeof(types) - at, "%s\"%s\": [%d, %d, %d]", at ? ", " : "", type, blocks,
             bytes, in_use);
}

static void finish(void) {
    (void)allogram_stop();
    printf("{\"trace\": \"%s\", \"allocated_blocks\": %llu, \"allocated_bytes\": %llu, "
           "\"freed_blocks\": %llu, \"freed_bytes\": %llu, \"ghost_frees\": %llu, "
           "\"moved_blocks\": %llu, \"promoted_blocks\": %llu, \"collected_blocks\": %llu, "
           "\"types\": {%s}}\n",
           allogram_trace(), (unsigned long long)truth.allocated_blocks,
           (unsigned long long)truth.allocated_bytes, (unsigned long long)truth.freed_blocks,
           (unsigned long long)truth.freed_bytes, (unsigned long long)truth.ghost_frees,
           (unsigned long long)truth.moved, (unsigned long long)truth.promoted,
           (unsigned long long)truth.collected, types);
    fflush(stdout);
}

static APART void alloc(uint64_t address, size_t bytes, allogram_type type) {
    allogram_alloc(heap, address, bytes, type);
    truth.allocated_blocks++;
    truth.allocated_bytes += bytes;
}

static APART void alloc_again(uint64_t address, size_t bytes) {
    allogram_alloc(heap, address, bytes, text);
    truth.allocated_blocks++;
    truth.allocated_bytes += bytes;
}

static void died(size_t bytes) {
    truth.freed_blocks++;
    truth.freed_bytes += bytes;
}

static void move(uint64_t from, uint64_t to) {
    allogram_move(heap, from, to);
    truth.moved++;
}

/* ---- cases ---- */

static void moves(void) {
    allogram_alloc(heap, 0x9000, 1, text); /* before the program's own session */
    start();
    alloc(0x1000, 10, pair);
    alloc(0x2000, 20, pair);
    alloc(0x3000, 40, pair);
    allogram_gc_begin(heap, 0, 70);
    move(0x1000, 0x4000);
    move(0x4000, 0x5000);
    move(0x2000, 0x1000); /* to the address where the first block was */
    allogram_gc_end(heap, "minor", 70);
    alloc_again(0x2000, 80);     /* at the address where the second block was */
    allogram_free(heap, 0x5000); /* the first block */
    died(10);
    allogram_free(heap, 0x4000); /* no block is at this address after the move */
    truth.ghost_frees++;
    want("pair", 3, 70, 2);
    finish();
}

static void bad_moves(void) {
    start();
    alloc(0x1000, 10, pair);
    alloc(0x2000, 20, pair);
    allogram_move(heap, 0x7000, 0x8000); /* moves a block that is not known */
    allogram_free(heap, 0x8000);
    truth.ghost_frees++;
    allogram_move(heap, 0x1000, 0x1000); /* moves a block to its own address */
    move(0x1000, 0x2000);                /* moves a block onto a living one, which then counts as
                                          * dead */
    died(20);
    allogram_move(other, 0x2000, 0x3000); /* with another heap */
    allogram_move(4711, 0x2000, 0x3000);  /* with a heap that does not exist */
    allogram_free(heap, 0x2000);
    died(10);
    want("pair", 2, 30, 0);
    finish();
}

static void generations(void) {
    start();
    for (uint64_t i = 1; i <= 30; i++) {
        alloc(i * 0x10, i, pair);
    }
    allogram_gc_begin(heap, 0, 0);
    for (uint64_t i = 1; i <= 30; i++) {
        if (i % 3 == 0) {
            allogram_collect(heap, i * 0x10);
            died(i);
            truth.collected++;
        } else if (i % 3 == 1) {
            move(i * 0x10, 0x10000 + i * 0x10);
            allogram_promote(heap, 0x10000 + i * 0x10);
            truth.promoted++;
        }
    }
    allogram_gc_end(heap, "minor", 0);
    allogram_collect(heap, 0x30); /* reported dead twice */
    truth.ghost_frees++;
    want("pair", 30, 465, 20);
    finish();
}

static int n_before;

static void *give_type(void *address) {
    require(allogram_block_type(heap, (uint64_t)(uintptr_t)address, text) == 1,
            "another thread sets the type of the block");
    return NULL;
}

static void late_types(void) {
    pthread_t thread;
    allogram_alloc(heap, 0x9000, 1, 0); /* before the program's session; under `allogram run` the
                                         * block is recorded */
    if (allogram_block_type(heap, 0x9000, pair) == 1) {
        truth.allocated_blocks = truth.allocated_bytes = 1;
        n_before = 1;
    }
    start();
    alloc(0x1000, 1, 0);
    alloc(0x2000, 2, 0);
    alloc(0x3000, 4, 0);
    alloc(0x4000, 8, 0);
    alloc(0x5000, 16, 0);
    alloc(0x6000, 32, pair);
    require(allogram_block_type(heap, 0x1000, 0) == 0,
            "the number 0, which means no type, is refused");
    require(allogram_block_type(heap, 0x1000, 4711) == 0,
            "a type that was never registered is refused");
    require(allogram_block_type(heap, 0x1000, pair) == 1, "a registered type is accepted");
    require(allogram_block_type(heap, 0x2000, text) == 1, "a first type is accepted");
    require(allogram_block_type(heap, 0x2000, pair) == 1, "a second type replaces the first one");
    allogram_move(heap, 0x3000, 0x3100);
    truth.moved++;
    require(allogram_block_type(heap, 0x3000, pair) == 0,
            "the address that a block has left gets no type");
    require(pthread_create(&thread, NULL, give_type, (void *)0x3100) == 0,
            "pthread_create succeeds");
    pthread_join(thread, NULL);
    allogram_free(heap, 0x4000);
    died(8);
    require(allogram_block_type(heap, 0x4000, pair) == 0, "a freed block gets no type");
    allogram_realloc(heap, 0x5000, 0x5000, 64, 0); /* a new block at the same address, as yet
                                                    * without a type */
    died(16);
    truth.allocated_blocks++;
    truth.allocated_bytes += 64;
    require(allogram_block_type(heap, 0x5000, text) == 1,
            "a new block at the same address gets a type of its own");
    require(allogram_block_type(heap, 0x6000, text) == 0,
            "a block that had a type from its allocation gets no other");
    allogram_alloc(other, 0x1000, 100, 0);
    require(allogram_block_type(other, 0x1000, pair) == 0,
            "a heap that did not request late types refuses them");
    truth.allocated_blocks++;
    truth.allocated_bytes += 100;
    allogram_free(heap, 0x1000);
    died(1);
    allogram_pause();
    require(allogram_block_type(heap, 0x2000, text) == 0,
            "no type is accepted while recording is paused");
    allogram_resume();
    want("pair", 3 + n_before, 1 + 2 + 32 + n_before, 2 + n_before);
    want("text", 2, 4 + 64, 2);
    finish();
}

/* Half of the blocks get their type after they were moved. */
static void many_late_types(void) {
    start();
    for (uint64_t i = 1; i <= 1000; i++) {
        alloc(i * 0x100, 100, 0);
    }
    for (uint64_t i = 1; i <= 1000; i++) {
        if (i % 2) {
            move(i * 0x100, 0x1000000 + i * 0x100);
            (void)allogram_block_type(heap, 0x1000000 + i * 0x100, text);
        } else {
            (void)allogram_block_type(heap, i * 0x100, pair);
            allogram_free(heap, i * 0x100);
            died(100);
        }
    }
    want("pair", 500, 50000, 0);
    want("text", 500, 50000, 500);
    finish();
}

/* ---- threads that a copying collector stops ---- */

enum { THREADS = 4, CYCLES = 40, BLOCKS = 100, SPACE = 1 << 20 };

static pthread_barrier_t world;
static uint64_t survivors[THREADS][BLOCKS]; /* the addresses of the surviving blocks */
static uint64_t old_space;                  /* the space, 0 or 1, that the next collection fills */

static APART void mutate(uint64_t thread, int cycle) {
    const uint64_t base = (1 + thread) * BLOCKS * 32;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        allogram_alloc(heap, base + i * 16, 24, cycle % 2 ? pair : text);
    }
}

/* One block in ten lives on for one cycle, in a packed space; the others are dead. The next cycle
 * allocates at the same addresses. */
static void collect(void) {
    uint64_t to = (1 + old_space) * SPACE;
    allogram_gc_begin(heap, 24, 0);
    for (uint64_t t = 0; t < THREADS; t++) {
        for (uint64_t i = 0; i < BLOCKS; i++) {
            const uint64_t at = (1 + t) * BLOCKS * 32 + i * 16;
            if (survivors[t][i]) { /* survived the cycle before, and dies in this one */
                allogram_collect(heap, survivors[t][i]);
                survivors[t][i] = 0;
                truth.collected++;
                died(24);
            }
            if (i % 10 == 0) {
                to += 16;
                allogram_move(heap, at, to);
                survivors[t][i] = to;
                truth.moved++;
            } else {
                allogram_collect(heap, at);
                truth.collected++;
                died(24);
            }
        }
    }
    old_space = 1 - old_space;
    allogram_gc_end(heap, "copying", 0);
}

static void *live(void *number) {
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        mutate((uint64_t)(uintptr_t)number, cycle);
        if (pthread_barrier_wait(&world) == PTHREAD_BARRIER_SERIAL_THREAD) {
            collect();
        }
        pthread_barrier_wait(&world);
    }
    return NULL;
}

static void stopped_threads(void) {
    enum { ALL = THREADS * CYCLES * BLOCKS, LEFT = THREADS * BLOCKS / 10 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&world, NULL, THREADS);
    start();
    for (uintptr_t t = 0; t < THREADS; t++) {
        require(pthread_create(&threads[t], NULL, live, (void *)t) == 0, "pthread_create succeeds");
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    truth.allocated_blocks = ALL;
    truth.allocated_bytes = (uint64_t)ALL * 24;
    want("pair", ALL / 2, ALL / 2 * 24, LEFT); /* the survivors of the last cycle are in use */
    want("text", ALL / 2, ALL / 2 * 24, 0);
    finish();
}

/* ---- trackers: callbacks of the program for sampled blocks ---- */

static int n_ended;

static void *keep(void *context, const struct allogram_sample *sample) {
    (void)context;
    return (void *)(uintptr_t)sample->bytes;
}
static void ended(void *context, void *value) {
    (void)context;
    require((uintptr_t)value == 10, "the callback gets the value of the block that moved");
    n_ended++;
}

static void tracked(void) {
    const struct allogram_tracker_options options = {.size = sizeof(options),
                                                     .interval_bytes = ALLOGRAM_EVERY_BLOCK,
                                                     .on_alloc = keep,
                                                     .on_free = ended,
                                                     .on_promote = ended};
    start();
    require(allogram_tracker_start(&options) > 0, "a tracker starts");
    alloc(0x1000, 10, pair);
    move(0x1000, 0x2000);
    require(n_ended == 0, "a move does not end the tracking");
    allogram_promote(heap, 0x2000);
    truth.promoted++;
    require(n_ended == 1, "the block is promoted at its new address");
    allogram_collect(heap, 0x1000);
    truth.ghost_frees++;
    require(n_ended == 1, "no block is at the old address");
    allogram_collect(heap, 0x2000);
    truth.collected++;
    died(10);
    require(n_ended == 2, "the block ends at its new address");
    (void)allogram_tracker_stop();
    want("pair", 1, 10, 0);
    finish();
}

static void act_in_handler(int signal) {
    (void)signal;
    allogram_move(heap, 0x1000, 0x2000);
    allogram_promote(heap, 0x2000);
    allogram_collect(heap, 0x2000);
}

static void in_handlers(void) {
    start();
    alloc(0x1000, 10, pair);
    (void)signal(SIGUSR1, act_in_handler);
    (void)raise(SIGUSR1);
    truth.moved = truth.promoted = truth.collected = 1;
    died(10);
    want("pair", 1, 10, 0);
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"moves", moves},
    {"bad_moves", bad_moves},
    {"generations", generations},
    {"late_types", late_types},
    {"many_late_types", many_late_types},
    {"stopped_threads", stopped_threads},
    {"tracked", tracked},
    {"in_handlers", in_handlers},
};

int main(int argc, char **argv) {
    const struct allogram_heap_options moving = {.size = sizeof(moving),
                                                 .name = "young",
                                                 .allocator = "vm",
                                                 .runtime = "vm",
                                                 .kind = ALLOGRAM_MOVING_COLLECTOR,
                                                 .has_late_types = 1,
                                                 .unit = "words"};
    /* as in a program that was compiled before the options had a kind */
    const struct allogram_heap_options older = {
        .size = offsetof(struct allogram_heap_options, kind), .name = "old", .allocator = "vm"};
    heap = allogram_heap_new(&moving);
    other = allogram_heap_new(&older);
    pair = allogram_type_new("pair", "vm");
    text = allogram_type_new("text", "vm");
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return 2;
}
