/* test_node_pace.c: `allogram observe` reports only some collections of an Erlang node, with
 * weights. The weights must add up to the bytes of all collections, and each process must have its
 * share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../bench/random_word.h"
#include "node_pace.h"

static uint32_t draw(void) {
    return (uint32_t)(random_word() >> 32);
}

/* The weight, in bytes, with which a collection is reported; 0: it is not reported. period: the
 * average number of bytes between two reports; 0: each collection is reported. */
static uint64_t take(struct node_pace *pace, uint64_t bytes, uint64_t period) {
    return node_pace_passes(pace, bytes, period)
               ? 0
               : node_pace_weight(pace, bytes, period, draw(), draw());
}

static void without_a_period_all_collections_are_reported(void **state) {
    struct node_pace pace = {0};
    (void)state;
    for (uint64_t bytes = 0; bytes < 100; bytes++) {
        assert_false(node_pace_passes(&pace, bytes, 0));
        assert_int_equal(node_pace_weight(&pace, bytes, 0, draw(), draw()), bytes);
    }
}

static void weights_add_up_to_what_was_allocated(void **state) {
    static const uint64_t periods[] = {0, 1, 10000, 1000000, 0, 50000, UINT32_MAX, 0};
    struct node_pace pace = {0};
    uint64_t allocated = 0, reported = 0;
    (void)state;
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        for (int n = 0; n < 20000; n++) {
            const uint64_t bytes = draw() % 20000;
            allocated += bytes;
            reported += take(&pace, bytes, periods[i]);
            assert_true(reported <= allocated + periods[i] + periods[i] / 2 + 1);
        }
    }
    assert_int_equal(reported, allocated); /* at the end no bytes wait to be reported */
}

/* Processes with small and with large collections, in turn. A process with small collections would
 * get too large a share if bytes of a large collection counted toward the next report. */
static void each_process_gets_its_share(void **state) {
    static const uint64_t bytes_of[] = {100, 3000, 10000, 70000};
    enum { N = sizeof bytes_of / sizeof *bytes_of, ROUNDS = 1000000, PERIOD = 10000 };
    struct node_pace pace = {0};
    double reported[N] = {0};
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            reported[i] += (double)take(&pace, bytes_of[i], PERIOD);
        }
    }
    for (int i = 0; i < N; i++) {
        /* the sum of the weights is right within four standard deviations */
        const double due = (double)bytes_of[i] * ROUNDS, off = reported[i] - due;
        assert_true(off * off < 16 * PERIOD * due);
    }
}

static void one_collection_in_a_hundred_is_reported(void **state) {
    struct node_pace pace = {0};
    int n_reported = 0;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        n_reported += take(&pace, 1600, 1600 * 100) != 0;
    }
    assert_in_range(n_reported, 950, 1050);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_period_all_collections_are_reported),
        cmocka_unit_test(weights_add_up_to_what_was_allocated),
        cmocka_unit_test(each_process_gets_its_share),
        cmocka_unit_test(one_collection_in_a_hundred_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
