/* test_replay.c: the replay of a trace, block by block. The traces are of a program written by
 * hand, and of random programs. Each block must appear once, in an order that gives the peak of the
 * summary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/answers/places.h"
#include "model/pass/replay.h"
#include "trace_builder.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define REALLOC_FREE(where) \
    { .kind = AG_RECORD_REALLOC_FREE, .address = (where) }
#define UNDO_FREE(where) \
    { .kind = AG_RECORD_UNDO_FREE, .address = (where) }

enum { START_NS = 1000 };

/* main (node 100, pc 0x1000) calls make (node 101, 0x2000) and keep (node 102, 0x3000). */
static const struct ag_node nodes[] = {{.id = 100, .parent = 0, .pc = 0x1000},
                                       {.id = 101, .parent = 100, .pc = 0x2000},
                                       {.id = 102, .parent = 100, .pc = 0x3000}};

static void begin(struct trace_builder *trace, uint32_t n_streams) {
    trace_begin(trace, START_NS);
    trace_nodes(trace, nodes, COUNT(nodes));
    for (uint32_t stream = 0; stream < n_streams; stream++) {
        trace_thread(trace, stream, "thread");
    }
}

static struct ag_profile *open_trace(const struct trace_builder *trace, const char *focus) {
    const struct ag_profile_options options = {
        .size = sizeof(options), .thread = -1, .focus = focus};
    struct ag_profile *profile = NULL;
    char message[512] = "";
    assert_int_equal(ag_profile_open(trace->path, &options, &profile, message), 0);
    return profile;
}

/* ---- stores and checks the steps of a replay ---- */

enum { STEPS_MOST = 1 << 16, ADDRESSES = 64, ROWS_MOST = 8 };
struct seen {
    struct ag_replay_step steps[STEPS_MOST];
    size_t n_steps;
    uint64_t row_bytes[ROWS_MOST]; /* bytes in use */
    uint64_t in_use_bytes, peak_bytes;
};

static int see(void *context, const struct ag_replay_step *step) {
    struct seen *seen = context;
    assert_true(seen->n_steps == 0 ||
                seen->steps[seen->n_steps - 1].time_ns <= step->time_ns); /* time never falls */
    assert_true(step->row < ROWS_MOST && seen->n_steps < STEPS_MOST);
    if (step->is_death) {
        assert_true(seen->row_bytes[step->row] >= step->size); /* no block dies before its birth */
        seen->row_bytes[step->row] -= step->size;
        seen->in_use_bytes -= step->size;
    } else {
        seen->row_bytes[step->row] += step->size;
        seen->in_use_bytes += step->size;
        if (seen->in_use_bytes > seen->peak_bytes) {
            seen->peak_bytes = seen->in_use_bytes;
        }
    }
    seen->steps[seen->n_steps++] = *step;
    return 0;
}

static struct seen *replay(struct ag_profile *profile) {
    struct seen *seen = calloc(1, sizeof(*seen));
    assert_non_null(seen);
    assert_int_equal(ag_profile_replay(profile, see, seen), 0);
    return seen;
}

static void expect_sums(struct ag_profile *profile, const struct seen *seen) {
    const struct ag_stack_row *rows;
    const size_t n = ag_profile_stacks(profile, &rows);
    for (size_t row = 0; row < n; row++) {
        struct ag_metrics sum = {0};
        for (size_t i = 0; i < seen->n_steps; i++) {
            if (seen->steps[i].row == row && seen->steps[i].is_death) {
                sum.freed_blocks++;
                sum.freed_bytes += seen->steps[i].size;
                sum.temporary_blocks += seen->steps[i].is_temporary;
            } else if (seen->steps[i].row == row) {
                sum.allocated_blocks++;
                sum.allocated_bytes += seen->steps[i].size;
            }
        }
        assert_int_equal(sum.allocated_blocks, rows[row].metrics.allocated_blocks);
        assert_int_equal(sum.allocated_bytes, rows[row].metrics.allocated_bytes);
        assert_int_equal(sum.freed_blocks, rows[row].metrics.freed_blocks);
        assert_int_equal(sum.freed_bytes, rows[row].metrics.freed_bytes);
        assert_int_equal(sum.temporary_blocks, rows[row].metrics.temporary_blocks);
    }
}

/* ---- a program written by hand ---- */

static void write_program(struct trace_builder *trace) {
    begin(trace, 1);
    TRACE_EVENTS(trace, 0, STAMP(START_NS + 10000), ALLOC(0x10, 100, 101), ALLOC(0x20, 30, 102),
                 STAMP(START_NS + 20000), FREE(0x10), ALLOC(0x10, 7, 101), REALLOC_FREE(0x20),
                 ALLOC(0x30, 60, 102), REALLOC_FREE(0x30), STAMP(START_NS + 30000), UNDO_FREE(0x30),
                 FREE(0x99), FREE(0x10), STAMP(START_NS + 40000));
    trace_finish(trace, START_NS + 50000, NULL);
}

static void steps_come_in_order_without_undone_events(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace);
    struct ag_profile *profile = open_trace(&trace, NULL);
    struct seen *seen = replay(profile);
    static const struct {
        uint64_t time_ns, size, lifetime_ns;
        bool is_death;
    } wanted[] = {
        {10000, 100, 0, false},  {10000, 30, 0, false},    {20000, 100, 10000, true},
        {20000, 7, 0, false},    {20000, 30, 10000, true}, {20000, 60, 0, false},
        {30000, 7, 10000, true},
    };
    assert_int_equal(seen->n_steps, COUNT(wanted));
    for (size_t i = 0; i < COUNT(wanted); i++) {
        assert_int_equal(seen->steps[i].time_ns, wanted[i].time_ns);
        assert_int_equal(seen->steps[i].size, wanted[i].size);
        assert_int_equal(seen->steps[i].lifetime_ns, wanted[i].lifetime_ns);
        assert_int_equal(seen->steps[i].is_death, wanted[i].is_death);
    }
    expect_sums(profile, seen);
    free(seen);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void filtered_blocks_are_not_replayed(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace);
    struct ag_profile *profile = open_trace(&trace, "0x3000");
    struct seen *seen = replay(profile);
    assert_int_equal(seen->n_steps, 3);
    expect_sums(profile, seen);
    free(seen);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* The row of the stack whose innermost frame is at PC. */
static size_t row_at(struct ag_profile *profile, uint64_t pc) {
    const struct ag_stack_row *rows;
    const size_t n = ag_profile_stacks(profile, &rows);
    static uint32_t places[AG_PLACES_MOST];
    for (uint32_t row = 0; row < n; row++) {
        assert_int_equal(ag_profile_stack_places(profile, row, places), 2);
        /* the address lies in the call, one byte before the return address */
        if (ag_profile_place(profile, places[0]).address == pc - 1) {
            return row;
        }
    }
    fail_msg("no stack begins at %#llx", (unsigned long long)pc);
    return 0;
}

static void stacks_have_a_highest_moment_and_lifetimes_of_their_own(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace);
    struct ag_profile *profile = open_trace(&trace, NULL);
    struct ag_stack_life *lives;
    assert_int_equal(ag_profile_stack_lives(profile, &lives), 0);
    const size_t make = row_at(profile, 0x2000), keep = row_at(profile, 0x3000);
    assert_int_equal(lives[make].max_bytes, 100);
    assert_int_equal(lives[make].max_blocks, 1);
    assert_int_equal(lives[make].lifetime_us, 20);
    assert_int_equal(lives[keep].max_bytes, 60);
    assert_int_equal(lives[keep].lifetime_us, 10 + 30); /* the second block lives until the end */
    free(lives);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void moments_show_what_was_in_use_before_them(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace);
    struct ag_profile *profile = open_trace(&trace, NULL);
    uint64_t bytes[2] = {0};
    struct ag_moment moments[] = {{.time_ns = 0},
                                  {.time_ns = 10000},
                                  {.time_ns = 20000, .row_bytes = bytes},
                                  {.time_ns = 30000},
                                  {.time_ns = UINT64_MAX}};
    static const uint64_t wanted[][2] = {{0, 0}, {0, 0}, {130, 2}, {67, 2}, {60, 1}};
    assert_int_equal(ag_profile_moments(profile, moments, COUNT(moments)), 0);
    for (size_t i = 0; i < COUNT(moments); i++) {
        assert_int_equal(moments[i].in_use_bytes, wanted[i][0]);
        assert_int_equal(moments[i].in_use_blocks, wanted[i][1]);
    }
    assert_int_equal(bytes[row_at(profile, 0x2000)], 100);
    assert_int_equal(bytes[row_at(profile, 0x3000)], 30);
    ag_profile_close(profile);
    trace_end(&trace);
}

static int refuse(void *context, const struct ag_replay_step *step) {
    (void)step;
    ++*(int *)context;
    return -5;
}

static void a_visit_that_fails_ends_the_replay(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace);
    struct ag_profile *profile = open_trace(&trace, NULL);
    int n_visits = 0;
    assert_int_equal(ag_profile_replay(profile, refuse, &n_visits), -5);
    assert_int_equal(n_visits, 1);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* ---- random programs ---- */

static uint32_t random_below(uint64_t *state, uint32_t limit) {
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % limit;
}

/* Writes N_EVENTS of one true history to streams (threads) whose windows (the times between two
 * stamps) overlap. So the events of an address come out of order, and the ledger (src/ledger) has
 * to restore the order. */
static void write_races(struct trace_builder *trace, uint32_t n_streams, uint32_t n_events,
                        uint64_t seed) {
    enum { WINDOW_NS = 1000, MOST = 1024 };
    struct ag_event lists[4][MOST];
    size_t counts[4] = {0};
    bool is_live[ADDRESSES] = {false};
    begin(trace, n_streams);
    for (uint32_t stream = 0; stream < n_streams; stream++) {
        const struct ag_event first = STAMP(START_NS + stream * 10);
        lists[stream][counts[stream]++] = first;
    }
    for (uint32_t i = 0; i < n_events; i++) {
        const uint32_t stream = random_below(&seed, n_streams);
        const uint32_t slot = 1 + random_below(&seed, ADDRESSES - 1);
        const uint64_t now_ns = START_NS + i * 97;
        const struct ag_event birth =
                                  ALLOC(slot * 16u, 1 + random_below(&seed, 500), 101 + slot % 2),
                              death = FREE(slot * 16u);
        lists[stream][counts[stream]++] = is_live[slot] ? death : birth;
        is_live[slot] = !is_live[slot];
        for (uint32_t other = 0; other < n_streams; other++) {
            const struct ag_event stamp = STAMP(now_ns);
            if (i % (WINDOW_NS / 97) == other) {
                lists[other][counts[other]++] = stamp;
            }
            if (counts[other] > MOST - 4 || i + 1 == n_events) {
                trace_events(trace, other, lists[other], counts[other]);
                lists[other][0] = stamp;
                counts[other] = 1;
            }
        }
    }
    trace_finish(trace, START_NS + n_events * 97 + WINDOW_NS, NULL);
}

/* Returns how often the ledger had to restore the order. */
static uint64_t expect_history(uint32_t n_streams, uint64_t seed) {
    struct trace_builder trace;
    write_races(&trace, n_streams, /* n_events= */ 4000, seed);
    struct ag_profile *profile = open_trace(&trace, NULL);
    struct seen *seen = replay(profile);
    const struct ag_summary *summary = ag_profile_summary(profile);
    expect_sums(profile, seen);
    assert_int_equal(seen->n_steps, summary->allocated_blocks + summary->freed_blocks);
    assert_int_equal(seen->in_use_bytes, summary->in_use_bytes);
    if (n_streams == 1) {
        assert_int_equal(seen->peak_bytes, summary->peak_bytes);
    } else {
        assert_in_range(seen->peak_bytes, summary->peak_low_bytes, summary->peak_high_bytes);
    }
    const uint64_t n_repairs = summary->order_repairs;
    free(seen);
    ag_profile_close(profile);
    trace_end(&trace);
    return n_repairs;
}

static void one_thread_has_the_peak_of_the_summary(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        assert_int_equal(expect_history(1, seed), 0);
    }
}

static void threads_that_race_for_addresses_have_one_history(void **state) {
    (void)state;
    uint64_t n_repairs = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        n_repairs += expect_history(3, seed);
    }
    assert_true(n_repairs > 0); /* the streams did race */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_come_in_order_without_undone_events),
        cmocka_unit_test(filtered_blocks_are_not_replayed),
        cmocka_unit_test(stacks_have_a_highest_moment_and_lifetimes_of_their_own),
        cmocka_unit_test(moments_show_what_was_in_use_before_them),
        cmocka_unit_test(a_visit_that_fails_ends_the_replay),
        cmocka_unit_test(one_thread_has_the_peak_of_the_summary),
        cmocka_unit_test(threads_that_race_for_addresses_have_one_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
