/* test_table.c: fills the arrays, byte lists, maps and texts of src/table with thousands of items,
 * and checks their contents. Also tests the reader of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/byte_reader.h"
#include "base/varint.h"
#include "table/array.h"
#include "table/byte_list.h"
#include "table/pointer_map.h"
#include "table/text_store.h"

enum { MANY = 5000 };

/* Keys that a table with a fixed hash may put into one slot: equal low halves, or equal high
 * halves. */
static uint64_t key_at(uint64_t i) {
    return i % 2 == 0 ? i << 32 : i;
}

/* ---- arrays ---- */

static void array_keeps_what_is_added(void **state) {
    (void)state;
    uint64_t *items = NULL;
    uint32_t count = 0; /* may have any unsigned type */
    for (uint64_t i = 0; i < MANY; i++) {
        assert_int_equal(AG_ARRAY_ADD(items, count, i), 0);
    }
    assert_int_equal(count, MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        assert_int_equal(items[i], i);
    }
    free(items);
}

/* Uses the array as a stack, whose count falls and rises. Whatever the count is, one more item must
 * fit. */
static void array_may_be_a_stack(void **state) {
    (void)state;
    uint64_t *items = NULL;
    size_t count = 0;
    for (size_t height = 1; height < 200; height++) {
        while (count < height) {
            assert_int_equal(AG_ARRAY_ADD(items, count, count), 0);
        }
        count -= height / 2;
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(items[i], i);
        }
    }
    free(items);
}

static void array_reserves_at_least_what_is_wanted(void **state) {
    (void)state;
    char *bytes = NULL;
    size_t capacity = 0;
    assert_int_equal(AG_ARRAY_RESERVE(bytes, capacity, capacity), 0);
    assert_null(bytes);
    assert_int_equal(AG_ARRAY_RESERVE(bytes, capacity, 1000), 0);
    assert_true(capacity >= 1000);
    memset(bytes, 'a', capacity);
    const size_t before = capacity;
    assert_int_equal(AG_ARRAY_RESERVE(bytes, capacity, before + 1), 0);
    assert_true(capacity >= 2 * before);
    assert_int_equal(bytes[before - 1], 'a');
    free(bytes);
}

static void array_refuses_more_than_the_most(void **state) {
    (void)state;
    char *bytes = NULL;
    size_t capacity = 0;
    assert_int_equal(AG_ARRAY_RESERVE(bytes, capacity, AG_ARRAY_MOST + 1), -ENOMEM);
    assert_int_equal(AG_ARRAY_RESERVE(bytes, capacity, SIZE_MAX), -ENOMEM);
    assert_null(bytes);
    assert_int_equal(capacity, 0);
    assert_int_equal(ag_array_double(&bytes, AG_ARRAY_MOST, 1), -ENOMEM);
    assert_null(bytes);
    uint64_t(*rows)[1 << 28] = NULL; /* no more items than allowed, but too many bytes */
    assert_int_equal(AG_ARRAY_RESERVE(rows, capacity, AG_ARRAY_MOST), -ENOMEM);
    assert_null(rows);
}

static void array_extends_with_zeros(void **state) {
    (void)state;
    uint32_t *of_number = NULL;
    size_t count = 0;
    for (uint32_t number = 0; number < MANY; number += 7) {
        assert_int_equal(AG_ARRAY_EXTEND(of_number, count, number + (size_t)1), 0);
        assert_true(number < count);
        of_number[number] = number + 1;
    }
    for (uint32_t number = 0; number < count; number++) {
        assert_int_equal(of_number[number], number % 7 == 0 && number < MANY ? number + 1 : 0);
    }
    free(of_number);
}

/* ---- byte lists ---- */

static void byte_list_has_bytes_and_numbers(void **state) {
    (void)state;
    struct ag_byte_list list = {0};
    for (int64_t i = 0; i < MANY; i++) {
        ag_byte_list_add(&list, "ab", 2);
        ag_byte_list_number(&list, (uint64_t)i << (i % 50));
        ag_byte_list_signed(&list, i % 2 == 0 ? i : -i);
    }
    ag_byte_list_add(&list, NULL, 0);
    assert_false(list.is_short);
    const uint8_t *at = list.bytes, *end = at + list.count;
    for (int64_t i = 0; i < MANY; i++) {
        uint64_t number = 0, zigzag = 0;
        assert_memory_equal(at, "ab", 2);
        at = ag_varint_get(at + 2, end, &number);
        assert_non_null(at);
        assert_int_equal(number, (uint64_t)i << (i % 50));
        at = ag_varint_get(at, end, &zigzag);
        assert_non_null(at);
        assert_int_equal((int64_t)ag_unzigzag(zigzag), i % 2 == 0 ? i : -i);
    }
    assert_ptr_equal(at, end);
    ag_byte_list_done(&list);
    assert_null(list.bytes);
}

/* A reader that is asked for more bytes than exist returns zeros, and reports that the bytes
 * ended. */
static void byte_reader_never_leaves_its_bytes(void **state) {
    (void)state;
    const uint8_t bytes[] = {0x34, 0x12, 0x80, 0x7f, 'a', 'b', 'c'};
    struct ag_byte_reader reader = {.at = bytes, .end = bytes + sizeof bytes};
    assert_int_equal(ag_byte_reader_take(&reader, 2), 0x1234);
    assert_int_equal(ag_byte_reader_sleb(&reader), -128);
    assert_ptr_equal(ag_byte_reader_skip(&reader, 2), bytes + 4);
    assert_false(reader.is_bad);
    assert_int_equal(ag_byte_reader_take(&reader, 4), 0);
    assert_true(reader.is_bad);
    assert_ptr_equal(reader.at, reader.end);
    assert_int_equal(ag_byte_reader_uleb(&reader), 0);
    assert_ptr_equal(ag_byte_reader_skip(&reader, UINT64_MAX), reader.end);
}

/* ---- maps ---- */

static void index_map_finds_what_was_inserted(void **state) {
    (void)state;
    struct ag_index_map map = {0};
    assert_int_equal(ag_index_map_find(&map, 0), AG_INDEX_NONE);
    assert_null(ag_index_map_home(&map, 0));
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(ag_index_map_insert(&map, key_at(i), UINT32_MAX - 1 - i), 0);
    }
    assert_int_equal(map.count, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(ag_index_map_find(&map, key_at(i)), UINT32_MAX - 1 - i);
    }
    assert_int_equal(ag_index_map_find(&map, UINT64_MAX), AG_INDEX_NONE);
    ag_index_map_done(&map);
    assert_int_equal(ag_index_map_find(&map, 0), AG_INDEX_NONE);
}

static void index_map_numbers_keys_in_their_order(void **state) {
    (void)state;
    struct ag_index_map map = {0};
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            uint32_t index = 0;
            assert_int_equal(ag_index_map_number(&map, key_at(i), &index), round == 0);
            assert_int_equal(index, i);
        }
    }
    assert_int_equal(ag_index_map_number(&map, key_at(1), NULL), 0);
    assert_int_equal(ag_index_map_number(&map, UINT64_MAX, NULL), 1);
    ag_index_map_done(&map);
}

/* A map whose keys are hashes: each hash belongs to two items. */
static void index_map_forgets_only_what_was_removed(void **state) {
    (void)state;
    struct ag_index_map map = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(ag_index_map_insert(&map, key_at(i % (MANY / 2)), i), 0);
    }
    for (uint32_t i = 0; i < MANY; i += 3) {
        ag_index_map_remove(&map, key_at(i % (MANY / 2)), i);
    }
    assert_int_equal(map.count, MANY - (MANY + 2) / 3);
    for (uint32_t i = 0; i < MANY / 2; i++) {
        bool is_there[2] = {false, false};
        size_t cursor = 0;
        uint32_t at;
        while ((at = ag_index_map_next(&map, key_at(i), &cursor)) != AG_INDEX_NONE) {
            assert_int_equal(at % (MANY / 2), i);
            is_there[at / (MANY / 2)] = true;
        }
        assert_int_equal(is_there[0], i % 3 != 0);
        assert_int_equal(is_there[1], (i + MANY / 2) % 3 != 0);
    }
    ag_index_map_done(&map);
}

static void index_map_has_all_indexes_of_a_hash(void **state) {
    (void)state;
    struct ag_index_map map = {0};
    enum { SAME = 300 };
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(ag_index_map_insert(&map, i < SAME ? 7 : key_at(i), i), 0);
    }
    bool is_found[SAME] = {false};
    uint32_t at, count = 0;
    size_t cursor = 0;
    while ((at = ag_index_map_next(&map, 7, &cursor)) != AG_INDEX_NONE) {
        assert_true(at < SAME && !is_found[at]);
        is_found[at] = true;
        count++;
    }
    assert_int_equal(count, SAME);
    cursor = 0;
    assert_int_equal(ag_index_map_next(&map, key_at(SAME), &cursor), SAME);
    assert_int_equal(ag_index_map_next(&map, key_at(SAME), &cursor), AG_INDEX_NONE);
    ag_index_map_done(&map);
    cursor = 0;
    assert_int_equal(ag_index_map_next(&map, 7, &cursor), AG_INDEX_NONE);
}

static int n_destroyed;

static void destroy(void *value) {
    n_destroyed++;
    free(value);
}

static void pointer_map_adds_replaces_and_destroys(void **state) {
    (void)state;
    struct ag_pointer_map map = {0};
    assert_null(ag_pointer_map_find(&map, 1));
    for (uint64_t i = 0; i < MANY; i++) {
        assert_int_equal(ag_pointer_map_put(&map, key_at(i), malloc(1)), 0);
    }
    void *old = ag_pointer_map_find(&map, key_at(3)), *replacement = malloc(1);
    assert_non_null(old);
    assert_int_equal(ag_pointer_map_put(&map, key_at(3), replacement), 0);
    assert_ptr_equal(ag_pointer_map_find(&map, key_at(3)), replacement);
    free(old);
    assert_null(ag_pointer_map_find(&map, UINT64_MAX));
    ag_pointer_map_done(&map, destroy);
    assert_int_equal(n_destroyed, MANY);
    ag_pointer_map_done(&map, destroy);
    assert_int_equal(n_destroyed, MANY);
}

/* ---- texts ---- */

static void text_store_keeps_each_text_once(void **state) {
    (void)state;
    struct ag_text_store store = {0};
    assert_string_equal(ag_text(&store, 0), "");
    const char *first = NULL;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            char text[32];
            const int length = snprintf(text, sizeof text, "function_%u", i);
            assert_int_equal(ag_text_id(&store, text, (size_t)length), i + 1);
            assert_string_equal(ag_text(&store, i + 1), text);
        }
        first = first ? first : ag_text(&store, 1);
        assert_ptr_equal(ag_text_keep(&store, "function_0", 10), first); /* texts never move */
    }
    ag_text_store_done(&store);
}

static void text_store_cuts_at_a_nul(void **state) {
    (void)state;
    struct ag_text_store store = {0};
    const uint32_t id = ag_text_id(&store, "name\0rest", 9);
    assert_string_equal(ag_text(&store, id), "name");
    assert_int_equal(ag_text_id(&store, "names", 4), id); /* only the first bytes are used */
    assert_int_equal(ag_text_id(&store, "\0rest", 5), 0);
    assert_int_equal(ag_text_id(&store, NULL, 5), 0);
    char *large = malloc(1 << 20); /* larger than a block */
    memset(large, 'x', 1 << 20);
    assert_int_equal(strlen(ag_text_keep(&store, large, 1 << 20)), 1 << 20);
    free(large);
    ag_text_store_done(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(array_keeps_what_is_added),
        cmocka_unit_test(array_may_be_a_stack),
        cmocka_unit_test(array_reserves_at_least_what_is_wanted),
        cmocka_unit_test(array_refuses_more_than_the_most),
        cmocka_unit_test(array_extends_with_zeros),
        cmocka_unit_test(byte_list_has_bytes_and_numbers),
        cmocka_unit_test(byte_reader_never_leaves_its_bytes),
        cmocka_unit_test(index_map_finds_what_was_inserted),
        cmocka_unit_test(index_map_numbers_keys_in_their_order),
        cmocka_unit_test(index_map_forgets_only_what_was_removed),
        cmocka_unit_test(index_map_has_all_indexes_of_a_hash),
        cmocka_unit_test(pointer_map_adds_replaces_and_destroys),
        cmocka_unit_test(text_store_keeps_each_text_once),
        cmocka_unit_test(text_store_cuts_at_a_nul),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
