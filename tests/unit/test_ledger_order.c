/* test_ledger_order.c: simulates threads that hand blocks to each other faster than they write time
 * stamps. The ledger (src/ledger, which computes sums from events) has to find an order of the
 * events in which each free has a block, and to count as many blocks as the simulation.
 *
 * A thread allocates a block, exchanges it for the one in a slot that all threads share, and frees
 * the block it got. The allocator keeps freed addresses in a cache of the freeing thread and
 * returns the newest first. So an address changes hands many times within the windows (times
 * between two stamps) of all threads. Two cores run the threads in time slices, so most threads
 * stand still for a long time, in the middle of a window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "ledger/merge.h"
#include "trace_builder.h"

enum {
    THREADS_MOST = 8,
    SLOTS_MOST = 64,
    CACHE = 64,
    ADDRESSES = 4096,
    WINDOW = 64,   /* events in a window, as in the recorder */
    ROUNDS = 4000, /* rounds of a thread: alloc, exchange, free */
    CORES = 2,
    SEEDS = 10,
};

struct setting {
    uint32_t threads, slots;
    uint32_t slice; /* average steps on a core until another thread runs */
};

struct sim_thread {
    struct ag_event *events;
    size_t n_events, n_since_stamp;
    uint32_t cache[CACHE], n_cached;
    uint32_t phase, rounds, in_hand;
};

struct sim {
    struct setting setting;
    struct sim_thread threads[THREADS_MOST];
    uint32_t on_core[CORES];    /* the thread that runs on each core */
    uint32_t slots[SLOTS_MOST]; /* addresses; 0: none */
    uint32_t next_address;
    uint64_t step, random_state;
    uint64_t allocated_blocks, freed_blocks;
};

static uint32_t random_below(struct sim *sim, uint32_t n) {
    sim->random_state = sim->random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((sim->random_state >> 33) % n);
}

static void record(struct sim *sim, struct sim_thread *thread, struct ag_event event) {
    if (thread->n_since_stamp == 0) {
        thread->events[thread->n_events++] =
            (struct ag_event){.kind = AG_RECORD_STAMP, .size = sim->step * 10};
    }
    thread->n_since_stamp = (thread->n_since_stamp + 1) % WINDOW;
    thread->events[thread->n_events++] = event;
}

static void allocate(struct sim *sim, struct sim_thread *thread) {
    const uint32_t at = thread->n_cached ? thread->cache[--thread->n_cached] : ++sim->next_address;
    assert_true(at < ADDRESSES);
    sim->allocated_blocks++;
    record(sim, thread,
           (struct ag_event){.kind = AG_RECORD_ALLOC, .address = at * 16, .size = 24, .stack = 1});
    thread->in_hand = at;
}

static void exchange(struct sim *sim, struct sim_thread *thread) {
    uint32_t *slot = &sim->slots[random_below(sim, sim->setting.slots)];
    const uint32_t got = *slot;
    *slot = thread->in_hand;
    thread->in_hand = got;
}

/* Frees the thread's block. Writes the event before the address can be used again. */
static void release(struct sim *sim, struct sim_thread *thread) {
    const uint32_t at = thread->in_hand;
    if (at == 0) {
        return;
    }
    record(sim, thread, (struct ag_event){.kind = AG_RECORD_FREE, .address = at * 16});
    sim->freed_blocks++;
    if (thread->n_cached < CACHE) {
        thread->cache[thread->n_cached++] = at;
    }
}

static bool is_on_a_core(const struct sim *sim, uint32_t thread) {
    bool is = false;
    for (uint32_t i = 0; i < CORES; i++) {
        is |= sim->on_core[i] == thread;
    }
    return is;
}

/* Switches the core to another thread that has rounds left, if such a thread exists. */
static void switch_thread(struct sim *sim, uint32_t core) {
    const uint32_t n = sim->setting.threads, from = random_below(sim, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t candidate = (from + i) % n;
        if (sim->threads[candidate].rounds < ROUNDS && !is_on_a_core(sim, candidate)) {
            sim->on_core[core] = candidate;
            return;
        }
    }
}

/* Runs one step of the thread on one of the cores; returns false when all threads have done their
 * rounds. */
static bool simulate_step(struct sim *sim) {
    static void (*const phases[])(struct sim *, struct sim_thread *) = {allocate, exchange,
                                                                        release};
    const uint32_t core = random_below(sim, CORES);
    struct sim_thread *thread = &sim->threads[sim->on_core[core]];
    sim->step++;
    if (thread->rounds < ROUNDS) {
        phases[thread->phase](sim, thread);
        thread->phase = (thread->phase + 1) % AG_ARRAY_SIZE(phases);
        thread->rounds += thread->phase == 0;
    }
    if (thread->rounds == ROUNDS || random_below(sim, sim->setting.slice) == 0) {
        switch_thread(sim, core);
    }
    bool is_any_left = false;
    for (uint32_t i = 0; i < sim->setting.threads; i++) {
        is_any_left |= sim->threads[i].rounds < ROUNDS;
    }
    return is_any_left;
}

/* Checks that the frees of all threads add up to the freed blocks. */
static void assert_threads_add_up(const struct ag_ledger *ledger) {
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    const struct ag_thread_sum *threads;
    const size_t n = ag_ledger_thread_sums(ledger, &threads);
    uint64_t blocks = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        blocks += threads[i].freed_blocks;
        bytes += threads[i].freed_bytes;
    }
    assert_int_equal(blocks, summary->freed_blocks);
    assert_int_equal(bytes, summary->freed_bytes);
}

static void judge(struct sim *sim) {
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    for (uint32_t i = 0; i < sim->setting.threads; i++) {
        assert_int_equal(ag_merge_add(merge, i, sim->threads[i].events, sim->threads[i].n_events),
                         0);
    }
    assert_int_equal(ag_merge_finish(merge), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    const struct ag_summary *summary = ag_ledger_summary(ledger);
    assert_int_equal(summary->allocated_blocks, sim->allocated_blocks);
    assert_int_equal(summary->freed_blocks, sim->freed_blocks);
    assert_int_equal(summary->ghost_frees, 0);
    assert_threads_add_up(ledger);
    (void)ag_merge_free(merge);
    (void)ag_ledger_free(ledger);
}

static void run(struct setting setting, uint64_t seed) {
    struct sim *sim = calloc(1, sizeof(*sim));
    assert_non_null(sim);
    sim->setting = setting;
    sim->random_state = seed;
    for (uint32_t i = 0; i < CORES; i++) {
        sim->on_core[i] = i;
    }
    for (uint32_t i = 0; i < setting.threads; i++) {
        sim->threads[i].events = calloc(ROUNDS * 3, sizeof(struct ag_event));
        assert_non_null(sim->threads[i].events);
    }
    while (simulate_step(sim)) {
    }
    judge(sim);
    for (uint32_t i = 0; i < setting.threads; i++) {
        free(sim->threads[i].events);
    }
    free(sim);
}

static void blocks_that_change_hands_are_all_counted(void **state) {
    (void)state;
    static const struct setting settings[] = {{2, 1, 1000000}, {2, 64, 1000000}, {4, 4, 1000},
                                              {4, 64, 5000},   {8, 8, 300},      {8, 64, 1000},
                                              {8, 64, 10000}};
    for (size_t i = 0; i < AG_ARRAY_SIZE(settings); i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            run(settings[i], seed);
        }
    }
}

#define APPLY(ledger, stream, ...)                                                         \
    do {                                                                                   \
        const struct ag_event list[] = {__VA_ARGS__};                                      \
        assert_int_equal(                                                                  \
            ag_ledger_apply((ledger), (stream), list, sizeof(list) / sizeof(list[0])), 0); \
    } while (0)

/* Blocks of 100 and of 50 bytes are allocated at one address. The free of the first block comes
 * after the second alloc, or before the first alloc. So an alloc replaces a live block, and one of
 * the two frees finds no block. The ledger must count the replaced block and that free as one
 * death. */
static void a_replaced_block_and_its_late_free_are_one_death(void **state) {
    (void)state;
    for (int ghost_is_first = 0; ghost_is_first < 2; ghost_is_first++) {
        struct ag_ledger *ledger = ag_ledger_new();
        ag_ledger_expect_streams(ledger);
        if (ghost_is_first) {
            APPLY(ledger, 2, STAMP(5), FREE(0x1000), STAMP(6), STAMP(1000));
        }
        APPLY(ledger, 0, STAMP(2000), ALLOC(0x1000, 100, 1), STAMP(2001), STAMP(3000));
        APPLY(ledger, 1, STAMP(3000), ALLOC(0x1000, 50, 1), STAMP(3001), STAMP(4000));
        APPLY(ledger, 2, STAMP(5000), FREE(0x1000), STAMP(5001), STAMP(6000));
        if (!ghost_is_first) {
            APPLY(ledger, 2, STAMP(7000), FREE(0x1000), STAMP(7001), STAMP(8000));
        }
        assert_int_equal(ag_ledger_close(ledger), 0);
        const struct ag_summary *summary = ag_ledger_summary(ledger);
        assert_int_equal(summary->ghost_frees, 0);
        assert_int_equal(summary->freed_blocks, 2);
        assert_int_equal(summary->freed_bytes, 150);
        assert_threads_add_up(ledger);
        const struct ag_thread_pair *pairs;
        uint64_t blocks = 0;
        for (size_t i = ag_ledger_thread_pairs(ledger, &pairs); i-- > 0;) {
            assert_int_equal(pairs[i].freed_by, 2);
            blocks += pairs[i].blocks;
        }
        assert_int_equal(blocks, 2);
        (void)ag_ledger_free(ledger);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_change_hands_are_all_counted),
        cmocka_unit_test(a_replaced_block_and_its_late_free_are_one_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
