/* test_ledger_order.c: simulates threads that hand blocks to each other faster than they write time
 * stamps. The ledger (src/ledger, which computes sums from events) has to find an order of the
 * events in which each free has a block, and to count the same blocks as the simulation.
 *
 * Each block has a stack and a size of its own, and each free a stack of its own. So the test knows
 * which allocation and which free the ledger made into one block. In overlapping windows more than
 * one order is possible, so the ledger may pair an allocation with another free than the simulation
 * did. But its pairs must form a possible order (see judge_order), and where only one order is
 * possible, they must be those of the simulation.
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
    EVENTS_MOST = THREADS_MOST * ROUNDS,
    BLOCK_BYTES = 24, /* the size of block 0; block N has N bytes more */
};

/* An event: the number of an allocation or a free of the simulation, starting with 1. */
struct moment {
    uint32_t address, thread;
    uint64_t start_ns, end_ns; /* the window of the event; UINT64_MAX: it has no end */
};

struct setting {
    uint32_t threads, slots;
    uint32_t slice; /* average steps on a core until another thread runs */
};

struct sim_thread {
    struct ag_event *events;
    size_t n_events, n_since_stamp;
    uint64_t stamp_ns;
    uint32_t cache[CACHE], n_cached;
    uint32_t phase, rounds, in_hand;
    struct moment *in_window[WINDOW]; /* the events since the last stamp */
};

struct sim {
    struct setting setting;
    struct sim_thread threads[THREADS_MOST];
    uint32_t on_core[CORES];    /* the thread that runs on each core */
    uint32_t slots[SLOTS_MOST]; /* addresses; 0: none */
    uint32_t next_address;
    uint64_t step, random_state;
    uint64_t allocated_blocks, freed_blocks;
    struct moment allocs[EVENTS_MOST + 1], frees[EVENTS_MOST + 1]; /* in the order of time */
    uint32_t block_at[ADDRESSES];        /* the number of the live block at each address; 0: none */
    uint32_t true_free[EVENTS_MOST + 1]; /* of each block; 0: none */
    uint32_t ledger_free[EVENTS_MOST + 1];   /* the same according to the ledger */
    uint32_t free_position[EVENTS_MOST + 1]; /* of each free: among the events at its address */
    bool is_visited[EVENTS_MOST + 1], is_free_used[EVENTS_MOST + 1];
    uint64_t n_certain; /* pairs for which only one order is possible */
};

static uint32_t random_below(struct sim *sim, uint32_t n) {
    sim->random_state = sim->random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((sim->random_state >> 33) % n);
}

/* Appends the event to the thread's stream, and stores in MOMENT when it happened. */
static void record(struct sim *sim, struct sim_thread *thread, struct ag_event event,
                   struct moment *moment) {
    if (thread->n_since_stamp == 0) {
        const uint64_t now_ns = sim->step * 10;
        for (uint32_t i = 0; i < WINDOW && thread->in_window[i]; i++) {
            thread->in_window[i]->end_ns = now_ns;
        }
        thread->events[thread->n_events++] =
            (struct ag_event){.kind = AG_RECORD_STAMP, .size = now_ns};
        thread->stamp_ns = now_ns;
    }
    *moment = (struct moment){.address = (uint32_t)event.address / 16,
                              .thread = (uint32_t)(thread - sim->threads),
                              .start_ns = thread->stamp_ns,
                              .end_ns = UINT64_MAX};
    thread->in_window[thread->n_since_stamp] = moment;
    thread->n_since_stamp = (thread->n_since_stamp + 1) % WINDOW;
    thread->events[thread->n_events++] = event;
}

static void allocate(struct sim *sim, struct sim_thread *thread) {
    const uint32_t at = thread->n_cached ? thread->cache[--thread->n_cached] : ++sim->next_address;
    assert_true(at < ADDRESSES);
    const uint32_t number = (uint32_t)++sim->allocated_blocks;
    assert_int_equal(sim->block_at[at], 0);
    sim->block_at[at] = number;
    record(sim, thread,
           (struct ag_event){.kind = AG_RECORD_ALLOC,
                             .address = at * 16,
                             .size = BLOCK_BYTES + number,
                             .stack = number},
           &sim->allocs[number]);
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
    const uint32_t number = (uint32_t)++sim->freed_blocks;
    sim->true_free[sim->block_at[at]] = number;
    sim->block_at[at] = 0;
    record(sim, thread,
           (struct ag_event){.kind = AG_RECORD_FREE, .address = at * 16, .stack = number},
           &sim->frees[number]);
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

/* Checks one block of the ledger: it is a block of the simulation, and its free is a free at the
 * same address by the same thread. No block and no free is used twice. */
static void see_block(void *context, const struct ag_block *block) {
    struct sim *sim = context;
    const uint32_t number = block->stack, freed = block->free_stack;
    assert_in_range(number, 1, sim->allocated_blocks);
    const struct moment *born = &sim->allocs[number];
    assert_false(sim->is_visited[number]);
    sim->is_visited[number] = true;
    assert_int_equal(block->address, born->address * 16);
    assert_int_equal(block->size, BLOCK_BYTES + number);
    assert_int_equal(block->allocated_by, born->thread);
    assert_int_equal(block->allocated_ns, born->start_ns);
    if (block->freed_ns == UINT64_MAX) {
        return;
    }
    assert_in_range(freed, 1, sim->freed_blocks);
    const struct moment *died = &sim->frees[freed];
    assert_false(sim->is_free_used[freed]);
    sim->is_free_used[freed] = true;
    assert_int_equal(died->address, born->address);
    assert_int_equal(block->freed_by, died->thread);
    sim->ledger_free[number] = freed;
}

/* A part of the events at one address, see judge_order. */
struct part {
    uint32_t n_events, n_threads; /* n_threads: 2 also for more than two */
    uint32_t alive;               /* the ledger's blocks that live at its end */
};

/* The events at one address, in the order of time: alloc, free, alloc, free ... */
struct address_events {
    const struct moment *moments[2 * EVENTS_MOST];
    uint32_t part_of[2 * EVENTS_MOST]; /* of each event: the number of its part */
    struct part parts[2 * EVENTS_MOST];
    size_t n;
};

/* Numbers the parts of the events: a new part begins where all earlier events certainly happened
 * before all later ones. */
static void find_parts(struct address_events *events) {
    static uint64_t first_start_ns[2 * EVENTS_MOST + 1]; /* of this event and all later events */
    first_start_ns[events->n] = UINT64_MAX;
    for (size_t i = events->n; i-- > 0;) {
        const uint64_t start_ns = events->moments[i]->start_ns, later_ns = first_start_ns[i + 1];
        first_start_ns[i] = start_ns < later_ns ? start_ns : later_ns;
    }
    uint64_t last_end_ns = 0;
    uint32_t part = 0;
    for (size_t i = 0; i < events->n; i++) {
        part += i > 0 && last_end_ns <= first_start_ns[i];
        const uint64_t end_ns = events->moments[i]->end_ns;
        last_end_ns = end_ns > last_end_ns ? end_ns : last_end_ns;
        if (i == 0 || part != events->part_of[i - 1]) {
            events->parts[part] = (struct part){.n_threads = 1};
        } else if (events->moments[i]->thread != events->moments[i - 1]->thread) {
            events->parts[part].n_threads = 2;
        }
        events->parts[part].n_events++;
        events->part_of[i] = part;
    }
}

/* Whether only one order of the events of the part of event AT is possible: the part has at most
 * two events, which alternate, or all of its events are of one thread. */
static bool is_order_known(const struct address_events *events, size_t at) {
    const struct part *part = &events->parts[events->part_of[at]];
    return part->n_events <= 2 || part->n_threads == 1;
}

/* Checks the pairs of alloc and free that the ledger made of the events at one address. The windows
 * divide the events into parts whose order is known. So at the end of each part as many blocks, 0
 * or 1, must live as in the simulation. Inside of a part the order may be unknown; if the order of
 * both events of a block is known, the ledger's pair must be that of the simulation. */
static void judge_order(struct sim *sim, struct address_events *events) {
    find_parts(events);
    for (size_t i = 0; i < events->n; i += 2) {
        const uint32_t number = (uint32_t)(events->moments[i] - sim->allocs);
        const uint32_t own = sim->true_free[number], freed = sim->ledger_free[number];
        const struct moment *died = freed ? &sim->frees[freed] : NULL;
        /* the position of the ledger's free; the number of events: the block lives */
        const size_t end = died ? sim->free_position[freed] : events->n;
        const uint32_t last =
            end < events->n ? events->part_of[end] : events->part_of[events->n - 1] + 1;
        assert_true(last >= events->part_of[i]);
        assert_true(!died || died->thread != events->moments[i]->thread || end > i);
        for (uint32_t part = events->part_of[i]; part < last; part++) {
            events->parts[part].alive++;
        }
        if (own && is_order_known(events, i) && is_order_known(events, i + 1)) {
            assert_int_equal(freed, own);
            sim->n_certain++;
        }
    }
    for (size_t i = 0; i < events->n; i++) {
        if (i + 1 == events->n || events->part_of[i + 1] != events->part_of[i]) {
            assert_int_equal(events->parts[events->part_of[i]].alive, i % 2 == 0);
        }
    }
}

static void judge_pairs(struct sim *sim) {
    static struct address_events events;
    static uint32_t next[EVENTS_MOST + 1], first[ADDRESSES];
    memset(first, 0, sizeof(first));
    for (uint32_t number = (uint32_t)sim->allocated_blocks; number > 0; number--) {
        assert_true(sim->is_visited[number]);
        next[number] = first[sim->allocs[number].address];
        first[sim->allocs[number].address] = number;
    }
    for (uint32_t at = 0; at < ADDRESSES; at++) {
        events.n = 0;
        for (uint32_t number = first[at]; number; number = next[number]) {
            events.moments[events.n++] = &sim->allocs[number];
            if (sim->true_free[number]) {
                sim->free_position[sim->true_free[number]] = (uint32_t)events.n;
                events.moments[events.n++] = &sim->frees[sim->true_free[number]];
            }
        }
        if (events.n > 0) {
            judge_order(sim, &events);
        }
    }
}

static void judge(struct sim *sim) {
    struct ag_ledger *ledger = ag_ledger_new();
    assert_int_equal(ag_ledger_on_block(ledger, see_block, sim), 0);
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
    judge_pairs(sim);
    (void)ag_merge_free(merge);
    (void)ag_ledger_free(ledger);
}

/* Returns the number of blocks whose pair was certain. */
static uint64_t run(struct setting setting, uint64_t seed) {
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
    const uint64_t n_certain = sim->n_certain;
    free(sim);
    return n_certain;
}

static void blocks_that_change_hands_are_all_counted(void **state) {
    (void)state;
    static const struct setting settings[] = {{2, 1, 1000000}, {2, 64, 1000000}, {4, 4, 1000},
                                              {4, 64, 5000},   {8, 8, 300},      {8, 64, 1000},
                                              {8, 64, 10000}};
    uint64_t n_certain = 0, n_blocks = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(settings); i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            n_certain += run(settings[i], seed);
            n_blocks += (uint64_t)settings[i].threads * ROUNDS;
        }
    }
    assert_true(n_certain * 100 > n_blocks); /* otherwise the test compares too little */
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
