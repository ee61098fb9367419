/* test_sum_index.c: the index of sums by stack and via (the allocation function that was
 * called): an array for the first via of each stack, and a hash table for further vias of a
 * stack and for stacks whose numbers are too large for the array. Each pair must keep its sum,
 * for any stack numbers. The memory of the array must depend on the number of sums and not on
 * how large the stack numbers are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../bench/random_word.h"
#include "ledger/sum_index.h"

enum { PAIRS = 60000 };

typedef uint32_t stack_of(uint32_t pair);

static uint32_t in_order(uint32_t pair) {
    return pair * 2 + 16;
}
static uint32_t backwards(uint32_t pair) {
    return (PAIRS - pair) * 3;
}
static uint32_t anywhere(uint32_t pair) {
    (void)pair;
    return (uint32_t)random_word();
}
static uint32_t near_the_end(uint32_t pair) {
    return UINT32_MAX - pair;
}

/* Inserts pairs; every fourth pair is the second via of an earlier stack. */
static void each_pair_keeps_its_sum(stack_of *choose) {
    static uint32_t stacks[PAIRS];
    static uint8_t vias[PAIRS];
    struct ag_sum_index index = {0};
    uint32_t n_sums = 0;
    for (uint32_t pair = 0; pair < PAIRS; pair++) {
        const bool is_second = pair % 4 == 3;
        const uint32_t stack = is_second ? stacks[n_sums / 2] : choose(pair);
        const uint8_t via = (uint8_t)(is_second ? 255 : pair % 3);
        if (ag_sum_index_find(&index, stack, via) != AG_INDEX_NONE) {
            continue; /* this pair was drawn before */
        }
        assert_int_equal(ag_sum_index_insert(&index, stack, via, n_sums), 0);
        stacks[n_sums] = stack;
        vias[n_sums++] = via;
        assert_true(index.n_stacks <= 1 << 16 || index.n_stacks / 32 <= n_sums);
        assert_non_null(ag_sum_index_home(&index, stack, via));
        assert_int_equal(ag_sum_index_find(&index, stack, (uint8_t)(via ^ 128)), AG_INDEX_NONE);
    }
    assert_true(n_sums > PAIRS / 2);
    for (uint32_t sum = 0; sum < n_sums; sum++) {
        assert_int_equal(ag_sum_index_find(&index, stacks[sum], vias[sum]), sum);
    }
    ag_sum_index_done(&index);
}

static void dense_numbers(void **state) {
    (void)state;
    each_pair_keeps_its_sum(in_order);
}

static void falling_numbers_keep_their_sums(void **state) {
    (void)state;
    each_pair_keeps_its_sum(backwards);
}

static void random_numbers_keep_their_sums(void **state) {
    (void)state;
    each_pair_keeps_its_sum(anywhere);
}

static void the_largest_numbers_keep_their_sums(void **state) {
    (void)state;
    each_pair_keeps_its_sum(near_the_end);
}

/* Stacks that come in order are found without the hash table. */
static void dense_numbers_are_in_the_array(void **state) {
    (void)state;
    struct ag_sum_index index = {0};
    for (uint32_t sum = 0; sum < PAIRS; sum++) {
        assert_int_equal(ag_sum_index_insert(&index, sum * 3, 0, sum), 0);
        assert_int_equal(ag_sum_index_guess(&index, sum * 3, 0), sum);
    }
    assert_int_equal(index.others.count, 0);
    ag_sum_index_done(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_numbers),
        cmocka_unit_test(falling_numbers_keep_their_sums),
        cmocka_unit_test(random_numbers_keep_their_sums),
        cmocka_unit_test(the_largest_numbers_keep_their_sums),
        cmocka_unit_test(dense_numbers_are_in_the_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
