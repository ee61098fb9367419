/* tracker_rules.c CASE: each case tests the rule of trackers (allogram.h) that it is named after,
 * with the blocks of tracker_blocks.h. If the rule holds, it prints nothing and ends with status 0;
 * otherwise it prints the condition that does not hold. Without an argument the program prints the
 * names of the cases. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <allogram/allogram.h>

#include "tracker_blocks.h"

#define REQUIRE(holds)                                                \
    do {                                                              \
        if (!(holds)) {                                               \
            printf("line %d: does not hold: %s\n", __LINE__, #holds); \
            exit(1);                                                  \
        }                                                             \
    } while (0)

/* The value that on_alloc returns for a block is the block's name (its number, see block_new) plus
 * one. The callbacks count their calls. */
static struct {
    _Atomic unsigned allocs, frees, promotes, completes;
    uint64_t last_alloc, last_free;
    uint64_t freed[64]; /* the names of the first 64 freed blocks, in the order of their frees */
} seen;

static void *keep(void *context, const struct allogram_sample *sample) {
    (void)context;
    if (!blocks_have(sample)) {
        return NULL;
    }
    seen.allocs++;
    const uint64_t name = blocks_name(sample);
    seen.last_alloc = name;
    REQUIRE(sample->heap == blocks_heap && sample->n_samples >= 1);
    return (void *)(uintptr_t)(name + 1);
}

static void note_free(void *context, void *value) {
    (void)context;
    seen.last_free = (uintptr_t)value - 1;
    if (seen.frees < 64) {
        seen.freed[seen.frees] = seen.last_free;
    }
    seen.frees++;
}

static void note_promote(void *context, void *value) {
    (void)context;
    (void)value;
    seen.promotes++;
}

static void note_complete(void *context, void *value) {
    (void)context;
    (void)value;
    seen.completes++;
}

typedef void *alloc_callback(void *context, const struct allogram_sample *sample);

static int track_with(alloc_callback *on_alloc, uint64_t interval_bytes) {
    const struct allogram_tracker_options options = {.size = sizeof(options),
                                                     .interval_bytes = interval_bytes,
                                                     .seed = 7,
                                                     .on_alloc = on_alloc,
                                                     .on_free = note_free,
                                                     .on_promote = note_promote,
                                                     .on_complete = note_complete};
    const int tracker = allogram_tracker_start(&options);
    REQUIRE(tracker >= 1);
    return tracker;
}

/* ---- what callbacks are called with ---- */

static void values_are_kept_and_reported_once(void) {
    track_with(keep, ALLOGRAM_EVERY_BLOCK);
    for (uint64_t i = 1; i <= 1000; i++) {
        block_new(i << 4);
    }
    block_promote(16);
    block_complete(32);
    block_promote(17); /* at an address without a block */
    for (uint64_t i = 1000; i >= 1; i--) {
        block_free(i << 4);
        REQUIRE(seen.last_free == i << 4);
        block_free(i << 4); /* freed twice: a ghost (a free of an unknown block) */
    }
    REQUIRE(seen.allocs == 1000 && seen.frees == 1000 && seen.promotes == 1 && seen.completes == 1);
}

static void *keep_nothing(void *context, const struct allogram_sample *sample) {
    (void)keep(context, sample);
    return NULL;
}

static void a_block_without_a_value_is_not_reported(void) {
    track_with(keep_nothing, ALLOGRAM_EVERY_BLOCK);
    block_new(16);
    block_promote(16);
    block_free(16);
    REQUIRE(seen.allocs == 1 && seen.frees == 0 && seen.promotes == 0);
}

static void a_realloc_is_a_free_and_an_alloc(void) {
    track_with(keep, ALLOGRAM_EVERY_BLOCK);
    block_new_growing(16);
    block_grow(16, 32);
    REQUIRE(seen.allocs == 2 && seen.frees == 1 && seen.last_free == 16 && seen.last_alloc == 32);
    block_grow(32, 32);
    REQUIRE(seen.allocs == 3 && seen.frees == 2);
}

static void an_unreported_free_comes_with_the_next_alloc(void) {
    track_with(keep, ALLOGRAM_EVERY_BLOCK);
    block_new(16);
    blocks_start_over(16);
    block_new(16);
    REQUIRE(seen.allocs == 2 && seen.frees == 1);
    block_free(16);
    REQUIRE(seen.frees == 2);
}

static void wrong_calls_are_refused(void) {
    const struct allogram_tracker_options small = {.size = 3};
    const struct allogram_tracker_options none = {.size = sizeof(none)};
    REQUIRE(allogram_tracker_start(NULL) == -EINVAL);
    REQUIRE(allogram_tracker_start(&small) == -EINVAL);
    REQUIRE(allogram_tracker_stop() == -ENOENT);
    REQUIRE(allogram_tracker_discard(1) == -ENOENT);
    REQUIRE(allogram_tracker_discard(-5) == -ENOENT);
    REQUIRE(allogram_tracker_discard(100000) == -ENOENT);
    const int tracker = allogram_tracker_start(&none); /* works without callbacks */
    REQUIRE(tracker >= 1);
    block_new(16);
    block_free(16);
    REQUIRE(allogram_tracker_start(&none) == -EALREADY);
    REQUIRE(allogram_tracker_discard(tracker) == -EBUSY);
    REQUIRE(allogram_tracker_stop() == 0);
    REQUIRE(allogram_tracker_stop() == -ENOENT);
    for (int i = 0; i < 200; i++) { /* numbers of trackers are reused */
        REQUIRE(allogram_tracker_start(&none) >= 1);
        REQUIRE(allogram_tracker_stop() == 0);
    }
    track_with(keep, ALLOGRAM_EVERY_BLOCK); /* a tracker works after these calls */
    block_new(32);
    REQUIRE(seen.allocs == 1);
}

/* ---- sampling ---- */

static uint64_t points;

static void *count_points(void *context, const struct allogram_sample *sample) {
    (void)context;
    points += sample->n_samples;
    return NULL;
}

static void samples_are_unbiased(void) {
    enum { BLOCKS = 400000, INTERVAL = 4096 };
    track_with(count_points, INTERVAL);
    const uint64_t bytes = blocks_new_periodic(BLOCKS, 152, 1048);
    /* The number of samples has a Poisson distribution, whose variance is its mean. The limit is
     * five standard deviations. */
    const double expected = (double)bytes / INTERVAL, difference = (double)points - expected;
    REQUIRE(difference * difference < 25 * expected);
}

static void a_large_interval_does_not_outlive_its_tracker(void) {
    track_with(count_points, UINT64_C(1) << 40);
    (void)blocks_new_periodic(1, 10, 10);
    REQUIRE(allogram_tracker_stop() == 0);
    track_with(count_points, 64);
    (void)blocks_new_periodic(400, 100, 100); /* 40,000 bytes with a mean interval of 64 bytes:
                                               * about 625 samples */
    REQUIRE(points > 200);
}

/* ---- inside of callbacks ---- */

static void *allocate(void *context, const struct allogram_sample *sample) {
    if (!blocks_have(sample)) {
        return NULL;
    }
    for (uint64_t i = 0; i < 100; i++) {
        block_new(IN(6, 1 + i));
        block_free(IN(6, 1 + i));
    }
    blocks_new_together(IN(6, 200), 16);
    return keep(context, sample);
}

static void allocating_in_a_callback_is_not_sampled(void) {
    track_with(allocate, ALLOGRAM_EVERY_BLOCK);
    for (uint64_t i = 1; i <= 10; i++) {
        block_new(i << 4);
    }
    REQUIRE(seen.allocs == 10 && seen.frees == 0);
}

static void *free_it(void *context, const struct allogram_sample *sample) {
    allogram_free(sample->heap, sample->address); /* not block_free, because the code that
                                                   * makes the blocks (tracker_blocks.h) may
                                                   * not be entered again before this callback
                                                   * returns */
    REQUIRE(seen.frees == seen.allocs);
    return keep(context, sample);
}

static void freed_in_its_own_callback(void) {
    track_with(free_it, ALLOGRAM_EVERY_BLOCK);
    for (uint64_t i = 1; i <= 10; i++) {
        block_new(i << 4);
        REQUIRE(seen.allocs == i && seen.frees == i && seen.last_free == i << 4);
    }
}

static void free_the_next(void *context, void *value) {
    const uint64_t name = (uintptr_t)value - 1;
    note_free(context, value);
    block_free(name + IN(1, 0)); /* the chain ends at a block that does not exist */
}

static void frees_inside_of_frees_are_not_lost(void) {
    struct allogram_tracker_options options = {.size = sizeof(options),
                                               .interval_bytes = ALLOGRAM_EVERY_BLOCK,
                                               .on_alloc = keep,
                                               .on_free = free_the_next};
    REQUIRE(allogram_tracker_start(&options) >= 1);
    for (uint64_t i = 1; i <= 200; i++) {
        block_new(IN(20 + i, 1));
    }
    block_free(IN(21, 1));
    REQUIRE(seen.frees == 200);
    block_new(16); /* callbacks are still called */
    REQUIRE(seen.allocs == 201);
}

/* ---- blocking ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int phase;

static void go_to(int wanted) {
    pthread_mutex_lock(&mutex);
    phase = wanted;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void wait_for(int wanted) {
    pthread_mutex_lock(&mutex);
    while (phase < wanted) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

static uint64_t waiting_for; /* the address of block 0x5002, whose callback waits for its free */

static bool is_named(const struct allogram_sample *sample, uint64_t name) {
    return blocks_have(sample) && blocks_name(sample) == name;
}

static void *wait_inside(void *context, const struct allogram_sample *sample) {
    if (is_named(sample, 0x5002)) {
        waiting_for = sample->address;
        go_to(1);
        wait_for(2); /* meanwhile another thread runs callbacks, and frees this block */
        REQUIRE(seen.last_free != 0x5002);
    }
    return keep(context, sample);
}

static void *disturb(void *unused) {
    wait_for(1);
    for (uint64_t i = 1; i <= 100; i++) {
        block_new(IN(7, i));
    }
    for (uint64_t i = 1; i <= 50; i++) {
        block_free(IN(7, i));
    }
    /* frees the block before the call that allocates it has returned */
    allogram_free(blocks_heap, waiting_for);
    go_to(2);
    return unused;
}

static void with_another_thread(void (*act)(void)) {
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, disturb, NULL) == 0);
    act();
    pthread_join(other, NULL);
}

static void allocate_one(void) {
    block_new(0x5002);
}

static void blocking_while_other_threads_run_callbacks(void) {
    track_with(wait_inside, ALLOGRAM_EVERY_BLOCK);
    with_another_thread(allocate_one);
    REQUIRE(seen.allocs == 101 && seen.frees == 51);
    block_free(0x5002);
    REQUIRE(seen.frees == 51); /* the free of the block was reported once */
}

static void allocate_together(void) {
    blocks_new_together(0x5000, 5);
}

static void blocking_in_the_middle_of_blocks_allocated_together(void) {
    track_with(wait_inside, ALLOGRAM_EVERY_BLOCK);
    with_another_thread(allocate_together);
    REQUIRE(seen.allocs == 105 && seen.frees == 51 && seen.last_free == 0x5002);
}

static void *pass_on(void *place) {
    for (uint64_t i = 1; i <= 3000; i++) {
        block_new(IN((uintptr_t)place, i));
    }
    return place;
}

static void *free_of_others(void *place) {
    blocks_free_all(IN((uintptr_t)place, 1), 3000);
    return place;
}

static void many_threads_allocate_and_free_for_each_other(void) {
    enum { THREADS = 5 };
    pthread_t threads[THREADS];
    track_with(keep, ALLOGRAM_EVERY_BLOCK);
    for (int round = 0; round < 2; round++) {
        for (uintptr_t t = 0; t < THREADS; t++) {
            const uintptr_t whose = round ? (t + 1) % THREADS : t;
            REQUIRE(pthread_create(&threads[t], NULL, round ? free_of_others : pass_on,
                                   (void *)(whose + 1)) == 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
        }
    }
    REQUIRE(seen.allocs == THREADS * 3000 && seen.frees == THREADS * 3000);
}

/* ---- stopping, starting, discarding ---- */

static void *stop_inside(void *context, const struct allogram_sample *sample) {
    if (is_named(sample, 0x5002)) {
        REQUIRE(allogram_tracker_stop() == 0);
    }
    return keep(context, sample);
}

static void stop_inside_a_callback(void) {
    track_with(stop_inside, ALLOGRAM_EVERY_BLOCK);
    block_new(0x5001);
    block_new(0x5002);
    block_new(0x5003);
    REQUIRE(seen.allocs == 2);
    block_free(0x5001); /* frees are still reported */
    block_free(0x5002);
    block_free(0x5003);
    REQUIRE(seen.frees == 2 && seen.last_free == 0x5002);
}

static void *count_new(void *context, const struct allogram_sample *sample) {
    if (!blocks_have(sample)) {
        return NULL;
    }
    ++*(unsigned *)context;
    return context;
}

static void forbid(void *context, void *value) {
    (void)value;
    *(unsigned *)context += 1000;
}

static unsigned n_new;

static void *start_another_inside(void *context, const struct allogram_sample *sample) {
    if (is_named(sample, 0x5002)) {
        const struct allogram_tracker_options other = {.size = sizeof(other),
                                                       .interval_bytes = ALLOGRAM_EVERY_BLOCK,
                                                       .on_alloc = count_new,
                                                       .on_free = forbid,
                                                       .context = &n_new};
        REQUIRE(allogram_tracker_stop() == 0);
        REQUIRE(allogram_tracker_start(&other) >= 1);
    }
    return keep(context, sample);
}

static void stop_and_start_in_the_middle_of_blocks_allocated_together(void) {
    track_with(start_another_inside, ALLOGRAM_EVERY_BLOCK);
    blocks_new_together(0x5000, 6);
    /* The tracker is stopped in the callback of block 0x5002. If all six blocks are reported in one
     * call, the last three belong to no tracker; if they are allocated one after the other, these
     * three belong to the new tracker. */
    const unsigned others = blocks_come_together ? 0 : 3;
    REQUIRE(seen.allocs == 3 && n_new == others);
    block_new(0x6000);
    REQUIRE(n_new == others + 1);
    for (uint64_t i = 0; i < 6; i++) {
        block_free(0x5000 + i);
    }
    REQUIRE(seen.frees == 3 && n_new == others * 1001 + 1); /* each free goes to the tracker of its
                                                             * block */
    block_free(0x6000);
    REQUIRE(n_new == (others + 1) * 1001);
}

static int tracker_now;

static void *discard_inside(void *context, const struct allogram_sample *sample) {
    if (!blocks_have(sample)) {
        return NULL;
    }
    REQUIRE(allogram_tracker_stop() == 0);
    REQUIRE(allogram_tracker_discard(tracker_now) == 0);
    return keep(context, sample);
}

static void discard_inside_a_callback(void) {
    tracker_now = track_with(discard_inside, ALLOGRAM_EVERY_BLOCK);
    block_new(16);
    block_free(16);
    REQUIRE(seen.allocs == 1 && seen.frees == 0);
}

static void discarded_blocks_are_not_reported(void) {
    const int first = track_with(keep, ALLOGRAM_EVERY_BLOCK);
    block_new(16);
    block_new(32);
    REQUIRE(allogram_tracker_stop() == 0);
    track_with(keep, ALLOGRAM_EVERY_BLOCK);
    block_new(48);
    REQUIRE(allogram_tracker_discard(first) == 0);
    block_free(16);
    block_free(32);
    REQUIRE(seen.frees == 0);
    block_free(48);
    REQUIRE(seen.frees == 1 && seen.last_free == 48);
}

/* ---- leaving ---- */

static void *jump_out(void *context, const struct allogram_sample *sample) {
    if (!blocks_have(sample)) {
        return NULL;
    }
    (void)keep(context, sample);
    blocks_leave();
}

static __attribute__((noinline)) void alloc_deeper(uint64_t name, int depth) {
    /* larger than the frames of the call that was left, so that this array overwrites the mark that
     * allogram put on the stack during that call (record/call_marks.h says what happens
     * otherwise) */
    volatile char room[1024];
    memset((void *)room, depth, sizeof(room));
    if (depth > 0) {
        alloc_deeper(name, depth - 1);
    } else {
        block_new(name);
    }
    room[0] = 1;
}

static void longjmp_out_of_an_alloc(void) {
    static volatile uint64_t i;
    track_with(jump_out, ALLOGRAM_EVERY_BLOCK);
    for (i = 1; i <= 20; i++) {
        if (BLOCKS_CATCH() == 0) {
            /* each call is deeper on the stack than the previous one, which ended by longjmp */
            alloc_deeper(i << 4, (int)i);
            REQUIRE(!"comes back");
        }
    }
    REQUIRE(seen.allocs == 20);
    for (i = 1; i <= 20; i++) {
        block_free(i << 4);
    }
    REQUIRE(seen.frees == 0); /* these blocks have no value */
    REQUIRE(allogram_tracker_stop() == 0);
    track_with(keep, ALLOGRAM_EVERY_BLOCK);
    block_new(16);
    block_free(16);
    REQUIRE(seen.allocs == 21 && seen.frees == 1);
}

static void longjmp_in_the_middle_of_blocks_allocated_together(void) {
    track_with(jump_out, ALLOGRAM_EVERY_BLOCK);
    if (BLOCKS_CATCH() == 0) {
        blocks_new_together(0x5000, 6);
        REQUIRE(!"comes back");
    }
    REQUIRE(seen.allocs == 1);
    for (uint64_t i = 0; i < 6; i++) {
        block_free(0x5000 + i);
    }
    REQUIRE(seen.frees == 0);
}

static void jump_out_of_free(void *context, void *value) {
    note_free(context, value);
    blocks_leave();
}

static void longjmp_out_of_a_free(void) {
    static volatile uint64_t i;
    const struct allogram_tracker_options options = {.size = sizeof(options),
                                                     .interval_bytes = ALLOGRAM_EVERY_BLOCK,
                                                     .on_alloc = keep,
                                                     .on_free = jump_out_of_free};
    REQUIRE(allogram_tracker_start(&options) >= 1);
    for (i = 1; i <= 20; i++) {
        block_new(i << 4);
        if (BLOCKS_CATCH() == 0) {
            block_free(i << 4);
            REQUIRE(!"comes back");
        }
        block_free(i << 4); /* the free of this block is reported once */
    }
    REQUIRE(seen.allocs == 20 && seen.frees == 20);
}

static void *end_thread(void *context, const struct allogram_sample *sample) {
    void *value = keep(context, sample);
    if (value && (uintptr_t)value == IN(5, 0x5001) + 1) {
        pthread_exit(value);
    }
    return value;
}

static void *allocate_and_end(void *unused) {
    block_new(IN(5, 0x5001));
    return unused;
}

static void thread_exit_inside_a_callback(void) {
    pthread_t other;
    void *value = NULL;
    track_with(end_thread, ALLOGRAM_EVERY_BLOCK);
    REQUIRE(pthread_create(&other, NULL, allocate_and_end, NULL) == 0);
    REQUIRE(pthread_join(other, &value) == 0 && (uintptr_t)value == IN(5, 0x5002));
    block_free(IN(5, 0x5001));
    REQUIRE(seen.allocs == 1 && seen.frees == 0);
    block_new(0x5002);
    block_free(0x5002);
    REQUIRE(seen.allocs == 2 && seen.frees == 1);
}

/* ---- signals ---- */

static volatile sig_atomic_t n_signals;

static void on_signal(int number) {
    (void)number;
    const uint64_t name = IN(8, (uint64_t)(++n_signals));
    block_new(name);
    block_free(name);
}

static void signal_handlers_call_back(void) {
    const struct itimerval often = {.it_interval = {.tv_usec = 200}, .it_value = {.tv_usec = 200}};
    const struct itimerval never = {.it_value = {0}};
    const struct sigaction action = {.sa_handler = on_signal};
    track_with(keep, ALLOGRAM_EVERY_BLOCK);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t n = 0;
    while (n_signals < 300) {
        block_new(0x1000 + n % 100);
        block_free(0x1000 + n % 100);
        n++;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    /* a block that a handler allocates inside of a callback is no sample */
    REQUIRE(seen.allocs == seen.frees && seen.allocs >= n &&
            seen.allocs <= n + (unsigned)n_signals);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"values_are_kept_and_reported_once", values_are_kept_and_reported_once},
    {"a_block_without_a_value_is_not_reported", a_block_without_a_value_is_not_reported},
    {"a_realloc_is_a_free_and_an_alloc", a_realloc_is_a_free_and_an_alloc},
    {"an_unreported_free_comes_with_the_next_alloc", an_unreported_free_comes_with_the_next_alloc},
    {"wrong_calls_are_refused", wrong_calls_are_refused},
    {"samples_are_unbiased", samples_are_unbiased},
    {"a_large_interval_does_not_outlive_its_tracker",
     a_large_interval_does_not_outlive_its_tracker},
    {"allocating_in_a_callback_is_not_sampled", allocating_in_a_callback_is_not_sampled},
    {"freed_in_its_own_callback", freed_in_its_own_callback},
    {"frees_inside_of_frees_are_not_lost", frees_inside_of_frees_are_not_lost},
    {"blocking_while_other_threads_run_callbacks", blocking_while_other_threads_run_callbacks},
    {"blocking_in_the_middle_of_blocks_allocated_together",
     blocking_in_the_middle_of_blocks_allocated_together},
    {"many_threads_allocate_and_free_for_each_other",
     many_threads_allocate_and_free_for_each_other},
    {"stop_inside_a_callback", stop_inside_a_callback},
    {"stop_and_start_in_the_middle_of_blocks_allocated_together",
     stop_and_start_in_the_middle_of_blocks_allocated_together},
    {"discard_inside_a_callback", discard_inside_a_callback},
    {"discarded_blocks_are_not_reported", discarded_blocks_are_not_reported},
    {"longjmp_out_of_an_alloc", longjmp_out_of_an_alloc},
    {"longjmp_in_the_middle_of_blocks_allocated_together",
     longjmp_in_the_middle_of_blocks_allocated_together},
    {"longjmp_out_of_a_free", longjmp_out_of_a_free},
    {"thread_exit_inside_a_callback", thread_exit_inside_a_callback},
    {"signal_handlers_call_back", signal_handlers_call_back},
};

int main(int argc, char **argv) {
    blocks_begin();
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    for (size_t i = 0; argc == 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        puts(cases[i].name);
    }
    return argc == 1 ? 0 : 2;
}
