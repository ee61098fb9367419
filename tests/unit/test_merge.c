/* test_merge.c: threads that race for addresses. The ledger (src/ledger) gets their events with a
 * stamp (a record of the time) now and then. Its results are compared with those of the simulation,
 * which has the time of every event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/ledger.h"
#include "ledger/merge.h"

enum {
    THREADS = 5,
    ADDRESSES = 256,
    TORTURED = 48,
    STACKS = 12,
    EVENTS = 6000,
    STREAM_CAPACITY = 4 * EVENTS
};

static uint64_t random_state;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

struct race { /* the behavior of a random program */
    uint32_t n_threads, n_addresses, stamp_every, n_events;
    bool stamps_are_tight; /* a stamp before and after each event: the order is fully known */
    bool frees_all;
    bool has_caches; /* as in allocators: a freed address goes to a cache of the freeing thread,
                      * whose next alloc takes it */
};
struct stream {
    struct ag_event events[STREAM_CAPACITY];
    size_t count, since_stamp;
    uint64_t last_ns;
};
struct block {
    bool is_live;
    uint32_t stack, thread;
    uint64_t size, serial;
};
struct cache {
    uint32_t addresses[ADDRESSES], count;
};
struct truth {
    struct block blocks[ADDRESSES];
    bool was_used[ADDRESSES];
    uint64_t serial[THREADS], freed_bytes[THREADS], freed_blocks[THREADS];
    uint64_t allocated_blocks[STACKS], allocated_bytes[STACKS], freed_of_stack[STACKS],
        freed_bytes_of_stack[STACKS];
    uint64_t temporary, pair_blocks[THREADS][THREADS];
    uint64_t in_use_blocks, in_use_bytes, peak_bytes;
    uint32_t n_frees; /* each free has a stack of its own, numbered from 1 */
    uint32_t free_address[2 * EVENTS], free_thread[2 * EVENTS];
};

static void record(struct stream *stream, const struct race *race, uint64_t now_ns,
                   const struct ag_event *event) {
    /* Unless stamps are tight, the stamp's time is anywhere between the previous event of the
     * thread and this event. */
    if (stream->count == 0 || stream->since_stamp >= race->stamp_every || race->stamps_are_tight) {
        const uint64_t gap_ns = now_ns - stream->last_ns;
        const uint64_t time_ns =
            race->stamps_are_tight ? now_ns : now_ns - random_below((uint32_t)gap_ns);
        stream->events[stream->count++] =
            (struct ag_event){.kind = AG_RECORD_STAMP, .size = time_ns};
        stream->since_stamp = 0;
    }
    stream->events[stream->count++] = *event;
    stream->since_stamp++;
    stream->last_ns = now_ns;
    if (race->stamps_are_tight) {
        stream->events[stream->count++] =
            (struct ag_event){.kind = AG_RECORD_STAMP, .size = now_ns};
    }
}

static void happen(struct truth *truth, struct stream *streams, const struct race *race,
                   uint32_t thread, uint64_t now_ns, uint32_t address, bool is_realloc) {
    struct block *block = &truth->blocks[address];
    struct ag_event event = {.address = 0x1000 + address * 16u};
    if (block->is_live) {
        event.kind = is_realloc ? AG_RECORD_REALLOC_FREE : AG_RECORD_FREE;
        event.stack = ++truth->n_frees;
        truth->free_address[event.stack] = address;
        truth->free_thread[event.stack] = thread;
        block->is_live = false;
        truth->freed_of_stack[block->stack]++;
        truth->freed_bytes_of_stack[block->stack] += block->size;
        truth->freed_blocks[thread]++;
        truth->freed_bytes[thread] += block->size;
        truth->temporary += block->thread == thread && truth->serial[thread] == block->serial;
        truth->pair_blocks[block->thread][thread]++;
        truth->in_use_blocks--;
        truth->in_use_bytes -= block->size;
    } else {
        *block = (struct block){.is_live = true,
                                .stack = random_below(STACKS),
                                .thread = thread,
                                .size = 1 + random_below(200),
                                .serial = ++truth->serial[thread]};
        event.kind = AG_RECORD_ALLOC;
        event.size = block->size;
        event.stack = block->stack;
        truth->allocated_blocks[block->stack]++;
        truth->allocated_bytes[block->stack] += block->size;
        truth->was_used[address] = true;
        truth->in_use_blocks++;
        truth->in_use_bytes += block->size;
        truth->peak_bytes =
            truth->in_use_bytes > truth->peak_bytes ? truth->in_use_bytes : truth->peak_bytes;
    }
    record(&streams[thread], race, now_ns, &event);
}

/* Chooses the address that the thread uses next: any address; or, with caches, a live address, the
 * address that this thread freed last, or one that was never used. */
static uint32_t choose_address(const struct race *race, const struct truth *truth,
                               struct cache *cache) {
    uint32_t address = random_below(race->n_addresses);
    if (!race->has_caches || truth->blocks[address].is_live) {
        return address;
    }
    if (cache->count > 0) {
        return cache->addresses[--cache->count];
    }
    for (address = 0; address < race->n_addresses; address++) {
        if (!truth->blocks[address].is_live && !truth->was_used[address]) {
            return address;
        }
    }
    do {
        address = random_below(race->n_addresses);
    } while (!truth->blocks[address].is_live);
    return address;
}

/* Runs the program, mostly in bursts of one thread, so that windows (the times between two stamps
 * of a thread) of all lengths occur. Addresses are freed and allocated again at once. */
static void run(const struct race *race, struct truth *truth, struct stream *streams) {
    uint64_t now_ns = 1000;
    uint32_t thread = 0;
    struct cache caches[THREADS] = {0};
    for (uint32_t n = 0; n < race->n_events; n++) {
        now_ns += 2 + random_below(30);
        thread = random_below(4) ? thread : random_below(race->n_threads);
        const uint32_t address = choose_address(race, truth, &caches[thread]);
        const bool is_realloc = truth->blocks[address].is_live && random_below(10) == 0;
        happen(truth, streams, race, thread, now_ns, address, is_realloc);
        const bool is_failed = is_realloc && random_below(3) == 0;
        if (race->has_caches && !truth->blocks[address].is_live && !is_failed) {
            caches[thread].addresses[caches[thread].count++] = address;
        }
        if (is_failed) { /* the realloc failed: nothing was freed, and the block keeps the thread
                          * that allocated it */
            struct stream *stream = &streams[thread];
            now_ns += 2;
            const struct ag_event undo = {.kind = AG_RECORD_UNDO_FREE,
                                          .address = 0x1000 + address * 16u};
            record(stream, race, now_ns, &undo);
            struct block *block = &truth->blocks[address];
            block->is_live = true;
            truth->freed_of_stack[block->stack]--;
            truth->freed_bytes_of_stack[block->stack] -= block->size;
            truth->freed_blocks[thread]--;
            truth->freed_bytes[thread] -= block->size;
            truth->temporary -= block->thread == thread && truth->serial[thread] == block->serial;
            truth->pair_blocks[block->thread][thread]--;
            truth->in_use_blocks++;
            truth->in_use_bytes += block->size;
        }
    }
    for (uint32_t address = 0; race->frees_all && address < race->n_addresses; address++) {
        if (truth->blocks[address].is_live) {
            happen(truth, streams, race, random_below(race->n_threads), now_ns += 5, address,
                   /* is_realloc= */ false);
        }
    }
}

/* Passes the events to the ledger as a reader of a trace does: always the next events of the stream
 * that is earliest in time.
 */
static void deliver(struct ag_merge *merge, const struct race *race, const struct stream *streams) {
    size_t at[THREADS] = {0};
    uint64_t reached_ns[THREADS] = {0};
    for (;;) {
        uint32_t next = UINT32_MAX;
        for (uint32_t k = 0; k < race->n_threads; k++) {
            if (at[k] < streams[k].count &&
                (next == UINT32_MAX || reached_ns[k] < reached_ns[next])) {
                next = k;
            }
        }
        if (next == UINT32_MAX) {
            break;
        }
        size_t n = 1 + random_below(200);
        n = n < streams[next].count - at[next] ? n : streams[next].count - at[next];
        assert_int_equal(ag_merge_add(merge, next, &streams[next].events[at[next]], n), 0);
        for (size_t i = 0; i < n; i++) {
            const struct ag_event *event = &streams[next].events[at[next] + i];
            reached_ns[next] = event->kind == AG_RECORD_STAMP ? event->size : reached_ns[next];
        }
        at[next] += n;
        uint64_t least_ns = UINT64_MAX;
        for (uint32_t k = 0; k < race->n_threads; k++) {
            const bool has_more = at[k] < streams[k].count;
            least_ns = has_more && reached_ns[k] < least_ns ? reached_ns[k] : least_ns;
        }
        if (least_ns != UINT64_MAX) {
            assert_int_equal(ag_merge_advance(merge, least_ns), 0);
        }
    }
    assert_int_equal(ag_merge_finish(merge), 0);
}

struct outcome {
    struct truth truth;
    struct ag_ledger *ledger;
    const struct ag_summary *summary;
    bool free_was_seen[2 * EVENTS];
    uint64_t n_seen, n_wrong; /* n_wrong: deaths with a wrong free (a free of another address or by
                               * another thread, or a free that another death also has) */
};

static void see_death(void *context, const struct ag_block *block) {
    struct outcome *outcome = context;
    const struct truth *truth = &outcome->truth;
    const uint32_t stack = block->free_stack;
    if (block->freed_ns == UINT64_MAX) {
        return;
    }
    outcome->n_seen++;
    outcome->n_wrong += stack == 0 || stack > truth->n_frees ||
                        block->address != 0x1000 + truth->free_address[stack] * 16u ||
                        block->freed_by != truth->free_thread[stack] ||
                        outcome->free_was_seen[stack];
    outcome->free_was_seen[stack % (2 * EVENTS)] = true;
}

static struct outcome *play(const struct race *race, uint64_t seed) {
    random_state = seed;
    struct outcome *outcome = calloc(1, sizeof(*outcome));
    struct stream *streams = calloc(THREADS, sizeof(*streams));
    run(race, &outcome->truth, streams);
    outcome->ledger = ag_ledger_new();
    assert_int_equal(ag_ledger_on_block(outcome->ledger, see_death, outcome), 0);
    struct ag_merge *merge = ag_merge_new(outcome->ledger);
    deliver(merge, race, streams);
    assert_int_equal(ag_ledger_close(outcome->ledger), 0);
    outcome->summary = ag_ledger_summary(outcome->ledger);
    ag_merge_free(merge);
    free(streams);
    return outcome;
}

static void end(struct outcome *outcome) {
    ag_ledger_free(outcome->ledger);
    free(outcome);
}

static void check_counts(const struct outcome *outcome) {
    const struct ag_summary *summary = outcome->summary;
    const struct truth *truth = &outcome->truth;
    uint64_t allocated = 0, freed = 0;
    for (size_t i = 0; i < STACKS; i++) {
        allocated += truth->allocated_blocks[i];
        freed += truth->freed_of_stack[i];
    }
    assert_int_equal(summary->ghost_frees, 0);
    assert_int_equal(summary->allocated_blocks, allocated);
    assert_int_equal(summary->freed_blocks, freed);
    assert_int_equal(summary->in_use_blocks, truth->in_use_blocks);
    const struct ag_stack_sum *sums;
    const size_t n = ag_ledger_stack_sums(outcome->ledger, &sums);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sums[i].allocated_blocks, truth->allocated_blocks[sums[i].stack]);
        assert_int_equal(sums[i].allocated_bytes, truth->allocated_bytes[sums[i].stack]);
    }
    const struct ag_thread_sum *threads;
    const size_t n_threads = ag_ledger_thread_sums(outcome->ledger, &threads);
    for (size_t i = 0; i < n_threads; i++) {
        assert_int_equal(threads[i].allocated_blocks, truth->serial[threads[i].stream]);
        assert_int_equal(threads[i].freed_blocks, truth->freed_blocks[threads[i].stream]);
    }
}

static void counts_are_exact_when_threads_free_what_others_allocated(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct race race = {.n_threads = 2 + seed % 4,
                                  .n_addresses = ADDRESSES,
                                  .stamp_every = 1 + seed % 8,
                                  .n_events = EVENTS,
                                  .frees_all = true,
                                  .has_caches = true};
        struct outcome *outcome = play(&race, seed);
        check_counts(outcome);
        assert_int_equal(outcome->n_seen, outcome->summary->freed_blocks);
        assert_int_equal(outcome->n_wrong, 0);
        assert_int_equal(outcome->summary->in_use_bytes, 0);
        const struct ag_stack_sum *sums;
        const size_t n = ag_ledger_stack_sums(outcome->ledger, &sums);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(sums[i].freed_bytes, sums[i].allocated_bytes);
        }
        end(outcome);
    }
}

/* Addresses change hands many times inside of every window. In several orders of these events, each
 * free follows an alloc, so the ledger does not always find the true order. The number of wrong
 * events is bounded, and allocations are right in any case. */
static void torture_leaves_few_events_without_a_partner(void **state) {
    (void)state;
    uint64_t ghosts = 0, repairs = 0, in_use = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct race race = {.n_threads = 2 + seed % 4,
                                  .n_addresses = 2 + (uint32_t)(seed * 7 % (TORTURED - 2)),
                                  .stamp_every = 1 + seed % 23,
                                  .n_events = EVENTS,
                                  .frees_all = true};
        struct outcome *outcome = play(&race, seed);
        const struct ag_summary *summary = outcome->summary;
        uint64_t allocated = 0;
        for (size_t i = 0; i < STACKS; i++) {
            allocated += outcome->truth.allocated_blocks[i];
        }
        assert_int_equal(summary->allocated_blocks, allocated);
        assert_int_equal(summary->allocated_blocks, summary->freed_blocks + summary->in_use_blocks);
        ghosts += summary->ghost_frees;
        repairs += summary->order_repairs;
        in_use += summary->in_use_blocks;
        end(outcome);
    }
    assert_true(repairs > 100000);
    assert_true(ghosts < 10);
    assert_true(in_use < 10);
}

static void the_true_peak_lies_between_the_bounds(void **state) {
    (void)state;
    uint64_t width = 0, peaks = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct race race = {.n_threads = 1 + seed % 5,
                                  .n_addresses = TORTURED,
                                  .stamp_every = 1 + seed % 13,
                                  .n_events = EVENTS,
                                  .frees_all = seed % 2};
        struct outcome *outcome = play(&race, seed + 1000);
        const struct ag_summary *summary = outcome->summary;
        assert_true(summary->peak_low_bytes <= outcome->truth.peak_bytes);
        assert_true(summary->peak_high_bytes >= outcome->truth.peak_bytes);
        assert_true(summary->peak_low_bytes <= summary->peak_bytes &&
                    summary->peak_bytes <= summary->peak_high_bytes);
        if (race.n_threads == 1) {
            assert_int_equal(summary->peak_low_bytes, summary->peak_high_bytes);
            assert_int_equal(summary->peak_bytes, outcome->truth.peak_bytes);
        }
        width += summary->peak_high_bytes - summary->peak_low_bytes;
        peaks += summary->peak_bytes;
        end(outcome);
    }
    assert_in_range(width * 100 / peaks, 1, 150); /* the mean distance between the limits of the
                                                   * peak is 1 to 150 % of the mean peak */
}

static void stamps_around_each_event_make_everything_exact(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        const struct race race = {.n_threads = 4,
                                  .n_addresses = TORTURED,
                                  .n_events = EVENTS / 2,
                                  .stamps_are_tight = true};
        struct outcome *outcome = play(&race, seed + 2000);
        check_counts(outcome);
        const struct ag_summary *summary = outcome->summary;
        const struct truth *truth = &outcome->truth;
        assert_int_equal(summary->peak_bytes, truth->peak_bytes);
        assert_int_equal(summary->peak_low_bytes, truth->peak_bytes);
        assert_int_equal(summary->peak_high_bytes, truth->peak_bytes);
        assert_int_equal(summary->in_use_bytes, truth->in_use_bytes);
        assert_int_equal(summary->temporary_blocks, truth->temporary);
        const struct ag_stack_sum *sums;
        const size_t n = ag_ledger_stack_sums(outcome->ledger, &sums);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(sums[i].freed_bytes, truth->freed_bytes_of_stack[sums[i].stack]);
        }
        const struct ag_thread_pair *pairs;
        const size_t n_pairs = ag_ledger_thread_pairs(outcome->ledger, &pairs);
        assert_int_equal(n_pairs, 12);
        for (size_t i = 0; i < n_pairs; i++) {
            assert_int_equal(pairs[i].blocks,
                             truth->pair_blocks[pairs[i].allocated_by][pairs[i].freed_by]);
        }
        end(outcome);
    }
}

/* ---- single races, event by event ---- */
#define STAMP(ns) \
    { .kind = AG_RECORD_STAMP, .size = (ns) }
#define ALLOC(where, bytes, by) \
    { .kind = AG_RECORD_ALLOC, .address = (where), .size = (bytes), .stack = (by) }
#define FREE(where) \
    { .kind = AG_RECORD_FREE, .address = (where) }
#define ADD(merge, stream, ...)                                                                 \
    do {                                                                                        \
        const struct ag_event list[] = {__VA_ARGS__};                                           \
        assert_int_equal(ag_merge_add((merge), (stream), list, sizeof(list) / sizeof(list[0])), \
                         0);                                                                    \
    } while (0)

static const struct ag_summary *finish(struct ag_ledger *ledger, struct ag_merge *merge) {
    assert_int_equal(ag_merge_finish(merge), 0);
    assert_int_equal(ag_ledger_close(ledger), 0);
    return ag_ledger_summary(ledger);
}

static void a_free_that_comes_before_its_alloc_waits_for_it(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    ADD(merge, 1, STAMP(10), FREE(0xa0), STAMP(100));
    ADD(merge, 2, STAMP(20), ALLOC(0xa0, 64, 1), STAMP(90));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->ghost_frees, 0);
    assert_int_equal(summary->freed_bytes, 64);
    assert_int_equal(summary->in_use_blocks, 0);
    assert_int_equal(summary->order_repairs, 1);
    assert_int_equal(summary->temporary_blocks, 0); /* another thread freed it */
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

static void a_free_whose_window_ended_before_the_alloc_is_a_ghost(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    ADD(merge, 1, STAMP(10), FREE(0xa0), STAMP(15));
    ADD(merge, 2, STAMP(20), ALLOC(0xa0, 64, 1), STAMP(90));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->ghost_frees, 1);
    assert_int_equal(summary->in_use_bytes, 64);
    assert_int_equal(summary->order_repairs, 0);
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

static void an_alloc_of_a_live_address_waits_for_the_free(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    ADD(merge, 1, STAMP(1), ALLOC(0xa0, 64, 1), STAMP(5), STAMP(20), FREE(0xa0), STAMP(90));
    ADD(merge, 2, STAMP(10), ALLOC(0xa0, 16, 2), STAMP(100));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->freed_bytes, 64);
    assert_int_equal(summary->in_use_bytes, 16);
    assert_int_equal(summary->order_repairs, 1);
    assert_int_equal(summary->peak_bytes, 64);
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

static void threads_that_free_each_others_block_in_one_window_leave_no_ghost(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    ADD(merge, 1, STAMP(10), ALLOC(0xa0, 64, 1), FREE(0xa0), STAMP(100));
    ADD(merge, 2, STAMP(20), FREE(0xa0), ALLOC(0xa0, 16, 2), STAMP(90));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->ghost_frees, 0);
    assert_int_equal(summary->in_use_blocks, 0);
    assert_int_equal(summary->temporary_blocks, 0);
    const struct ag_thread_pair *pairs;
    assert_int_equal(ag_ledger_thread_pairs(ledger, &pairs), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pairs[i].blocks, 1);
        assert_int_equal(pairs[i].bytes, pairs[i].allocated_by == 1 ? 64 : 16);
    }
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

/* Thread 1 stands still in a long window whose only event is a free; thread 2 goes on. The events
 * of thread 3 in one window fit only between two events of thread 2. */
static void a_thread_that_stands_still_takes_no_block_from_those_that_run(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    ADD(merge, 1, STAMP(10), FREE(0xa0), STAMP(1000));
    ADD(merge, 2, STAMP(100), ALLOC(0xa0, 64, 1), STAMP(110), FREE(0xa0), STAMP(120), STAMP(130),
        STAMP(220), ALLOC(0xa0, 64, 1), STAMP(230), FREE(0xa0), ALLOC(0xa0, 64, 1), STAMP(240),
        FREE(0xa0), STAMP(250), STAMP(260), STAMP(270), STAMP(900), ALLOC(0xa0, 64, 1), STAMP(910));
    ADD(merge, 3, STAMP(200), FREE(0xa0), ALLOC(0xa0, 64, 2), STAMP(300));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->ghost_frees, 0);
    assert_int_equal(summary->freed_blocks, 5);
    assert_int_equal(summary->in_use_blocks, 0);
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

static void a_whole_life_between_a_free_and_the_next_alloc_of_another_thread(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    ADD(merge, 1, STAMP(1), ALLOC(0xa0, 8, 1), STAMP(10), FREE(0xa0), ALLOC(0xa0, 64, 1),
        STAMP(100));
    ADD(merge, 2, STAMP(20), ALLOC(0xa0, 16, 2), FREE(0xa0), STAMP(90));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->ghost_frees, 0);
    assert_int_equal(summary->in_use_bytes, 64);
    assert_int_equal(summary->freed_bytes, 24);
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

static void the_peak_of_two_threads_is_bounded_by_what_overlaps(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    /* Each thread holds 100 bytes for a moment of its window; the windows overlap, the moments may
     * or may not. */
    ADD(merge, 1, STAMP(10), ALLOC(0xa0, 100, 1), FREE(0xa0), STAMP(50));
    ADD(merge, 2, STAMP(20), ALLOC(0xb0, 100, 1), FREE(0xb0), STAMP(60));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->peak_low_bytes, 100);
    assert_int_equal(summary->peak_high_bytes, 200);
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

static void events_of_a_single_stream_wait_for_the_end_of_its_window(void **state) {
    (void)state;
    struct ag_ledger *ledger = ag_ledger_new();
    struct ag_merge *merge = ag_merge_new(ledger);
    ADD(merge, 1, STAMP(10), FREE(0xa0));
    assert_int_equal(ag_merge_advance(merge, 15), 0);
    ADD(merge, 2, STAMP(20), ALLOC(0xa0, 64, 1),
        STAMP(30)); /* this thread has no event until time 15 */
    ADD(merge, 1, STAMP(40));
    const struct ag_summary *summary = finish(ledger, merge);
    assert_int_equal(summary->ghost_frees, 0);
    assert_int_equal(summary->freed_bytes, 64);
    ag_merge_free(merge);
    ag_ledger_free(ledger);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_exact_when_threads_free_what_others_allocated),
        cmocka_unit_test(torture_leaves_few_events_without_a_partner),
        cmocka_unit_test(the_true_peak_lies_between_the_bounds),
        cmocka_unit_test(stamps_around_each_event_make_everything_exact),
        cmocka_unit_test(a_free_that_comes_before_its_alloc_waits_for_it),
        cmocka_unit_test(a_free_whose_window_ended_before_the_alloc_is_a_ghost),
        cmocka_unit_test(an_alloc_of_a_live_address_waits_for_the_free),
        cmocka_unit_test(threads_that_free_each_others_block_in_one_window_leave_no_ghost),
        cmocka_unit_test(a_thread_that_stands_still_takes_no_block_from_those_that_run),
        cmocka_unit_test(a_whole_life_between_a_free_and_the_next_alloc_of_another_thread),
        cmocka_unit_test(the_peak_of_two_threads_is_bounded_by_what_overlaps),
        cmocka_unit_test(events_of_a_single_stream_wait_for_the_end_of_its_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
