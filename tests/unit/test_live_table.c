/* test_live_table.c: the table of live blocks, a hash table that grows in place. No block may be
 * lost if a long chain of used slots lies in the middle, at the beginning or around the end of the
 * table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../bench/random_word.h"
#include "ledger/live_table.h"

enum { BLOCKS = 5000 };

/* The table hashes an address by multiplication with `factor`, modulo 2^64; the upper bits are the
 * slot where the search begins. Returns the address whose product is HOME | 1. */
static uint64_t address_of(uint64_t home) {
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t inverse = factor;
    for (int i = 0; i < 6; i++) {
        inverse *= 2 - factor * inverse; /* the inverse modulo 2^64, by Newton's method */
    }
    return (home | 1) * inverse;
}

/* Returns false when the address is already in the table. */
static bool insert(struct ag_live_table *table, uint64_t address) {
    const uint64_t at = ag_live_table_seek(table, address);
    if (table->blocks[at].address != 0) {
        return false;
    }
    table->blocks[at] = (struct ag_live_block){.address = address, .size = ~address};
    ag_live_table_set_past(
        table, at,
        (struct ag_live_past){.born_ns = address / 3, .collections.n_moves = (uint32_t)address});
    if (++table->count > table->limit) {
        assert_int_equal(ag_live_table_grow(table), 0);
    }
    return true;
}

/* Checks that a search finds each block, and that the table has no other block. */
static void check(const struct ag_live_table *table, const uint64_t *addresses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = ag_live_table_seek(table, addresses[i]);
        assert_int_equal(table->blocks[at].address, addresses[i]);
        assert_int_equal(table->blocks[at].size, ~addresses[i]);
        assert_int_equal(ag_live_table_past(table, at).born_ns, addresses[i] / 3);
        assert_int_equal(ag_live_table_past(table, at).collections.n_moves, (uint32_t)addresses[i]);
    }
    size_t n_found = 0;
    for (uint64_t at = 0; at <= table->mask; at++) {
        n_found += table->blocks[at].address != 0;
    }
    assert_int_equal(n_found, table->count);
    assert_true(table->count <= table->limit);
}

/* Inserts blocks whose products lie in a range of length SPAN around HOME, and removes them: the
 * smaller SPAN, the longer the chains. */
static void grow_around(uint64_t home, uint64_t span) {
    static uint64_t addresses[BLOCKS];
    struct ag_live_table table;
    assert_int_equal(ag_live_table_init(&table), 0);
    assert_int_equal(ag_live_table_keep_times(&table), 0);
    assert_int_equal(ag_live_table_keep_collections(&table), 0);
    for (size_t i = 0, next_check = 100; i < BLOCKS; i++) {
        do {
            addresses[i] = address_of(home - span / 2 + random_word() % span);
        } while (!insert(&table, addresses[i]));
        if (i == next_check) {
            check(&table, addresses, i + 1);
            next_check *= 2;
        }
    }
    check(&table, addresses, BLOCKS);
    while (table.count > 0) { /* removes the blocks, the newest first */
        ag_live_table_remove(&table, ag_live_table_seek(&table, addresses[table.count - 1]));
    }
    check(&table, addresses, 0);
    ag_live_table_done(&table);
}

static void blocks_of_any_address_survive_growing(void **state) {
    (void)state;
    grow_around(UINT64_C(1) << 63, UINT64_MAX);
}

static void long_chains_survive_growing(void **state) {
    (void)state;
    for (unsigned bits = 50; bits < 64; bits += 3) {
        grow_around(UINT64_C(1) << 63, UINT64_C(1) << bits);         /* in the middle */
        grow_around(UINT64_C(1) << (bits - 1), UINT64_C(1) << bits); /* from the beginning on */
        grow_around(0, UINT64_C(1) << bits);                         /* around the end */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_any_address_survive_growing),
        cmocka_unit_test(long_chains_survive_growing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
