/* test_memory_rows.c: the table of the heaps view that shows who holds the process's memory: each
 * byte counts once, and a number that no runtime counted is not shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/answers/memory_rows.h"

enum { MOST = 8 };
static struct ag_memory_row rows[MOST];
static struct ag_memory_total total;
static size_t count;

static struct ag_heap_row heap(const char *name, const char *runtime, uint64_t in_use_bytes) {
    return (struct ag_heap_row){.name = name,
                                .domain = "cpu",
                                .allocator = name,
                                .runtime = runtime,
                                .sum = {.in_use_bytes = in_use_bytes},
                                .metrics = {.in_use_bytes = in_use_bytes}};
}

static void make(const struct ag_heap_row *heaps, size_t n) {
    struct ag_memory_row *made;
    assert_int_equal(ag_memory_rows_make(heaps, n, &made, &count, &total), 0);
    assert_in_range(count, 0, MOST);
    memcpy(rows, made, count * sizeof(*rows));
    free(made);
}

static const struct ag_memory_row *row(const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    fail_msg("no row %s", name);
    return NULL;
}

static void memory_from_malloc_counts_once(void **state) {
    (void)state;
    struct ag_heap_row heaps[] = {heap("malloc", "libc", 100), heap("operator new", "libc", 50),
                                  heap("minor heap", "ml", 30), heap("major heap", "ml", 70)};
    heaps[0].memory = (struct ag_heap_memory){.known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
                                              .time_ns = 9,
                                              .reserved_bytes = 1000,
                                              .committed_bytes = 900,
                                              .free_bytes = 200};
    heaps[2].memory = (struct ag_heap_memory){.known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
                                              .reserved_bytes = 64,
                                              .committed_bytes = 64,
                                              .free_bytes = 34,
                                              .of_malloc_bytes = 64};
    heaps[3].memory = (struct ag_heap_memory){.known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
                                              .reserved_bytes = 200,
                                              .committed_bytes = 160,
                                              .free_bytes = 40,
                                              .of_malloc_bytes = 160};
    make(heaps, 4);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].name, "libc"); /* the largest row is the first */
    assert_int_equal(row("libc")->time_ns, 9);
    assert_int_equal(row("libc")->lent_bytes, 224);
    assert_int_equal(row("libc")->metrics.in_use_bytes, 150);
    assert_int_equal(row("libc")->fragmentation_bytes, 900 - 150 - 224);
    assert_int_equal(row("ml")->reserved_bytes, 264);
    assert_int_equal(row("ml")->free_bytes, 74);
    assert_int_equal(row("ml")->fragmentation_bytes, 224 - 100);
    assert_int_equal(total.reserved_bytes, 1000 + 264 - 224);
    assert_int_equal(total.committed_bytes, 900);
    assert_int_equal(total.metrics.in_use_bytes, 250);
    assert_int_equal(total.fragmentation_bytes, 900 - 250);
}

static void memory_that_is_recorded_twice_is_not_lent(void **state) {
    (void)state;
    struct ag_heap_row heaps[] = {heap("malloc", "libc", 100), heap("major heap", "ml", 80)};
    heaps[0].memory = (struct ag_heap_memory){
        .known = AG_MEMORY_SIZES, .reserved_bytes = 300, .committed_bytes = 300};
    heaps[1].memory = (struct ag_heap_memory){.known = AG_MEMORY_SIZES | AG_MEMORY_RECORDED_TWICE,
                                              .reserved_bytes = 120,
                                              .committed_bytes = 120,
                                              .of_malloc_bytes = 60};
    make(heaps, 2);
    assert_int_equal(row("libc")->lent_bytes, 0);
    assert_int_equal(row("libc")->fragmentation_bytes, 200);
    assert_false(row("libc")->has_free);
    assert_int_equal(total.reserved_bytes, 300 + 60);
}

static void blocks_from_malloc_are_all_memory_of_their_heap(void **state) {
    (void)state;
    struct ag_heap_row heaps[] = {heap("malloc", "libc", 10), heap("vm", "vm", 40)};
    heaps[0].memory = (struct ag_heap_memory){
        .known = AG_MEMORY_SIZES, .reserved_bytes = 64, .committed_bytes = 64};
    heaps[1].memory = (struct ag_heap_memory){.known = AG_MEMORY_IN_MALLOC};
    make(heaps, 2);
    assert_int_equal(row("vm")->committed_bytes, 40);
    assert_int_equal(row("vm")->fragmentation_bytes, 0);
    assert_int_equal(row("libc")->fragmentation_bytes, 64 - 10 - 40);
}

static void memory_that_was_not_counted_is_not_shown_as_zero(void **state) {
    (void)state;
    struct ag_heap_row heaps[] = {heap("malloc", "libc", 100), heap("mmap", "libc", 0),
                                  heap("arena", "", 30)};
    make(heaps, 1);
    assert_int_equal(count, 0); /* only the blocks are known, no memory of a heap */
    heaps[1].is_backing = true;
    heaps[1].sum.mapped_bytes = 4096;
    make(heaps, 3);
    assert_int_equal(count, 3);
    assert_true(row("mmap")->has_reserved);
    assert_false(row("mmap")->has_committed);
    assert_int_equal(row("mmap")->reserved_bytes, 4096);
    assert_false(row("libc")->has_reserved);
    assert_false(row("arena")->has_fragmentation);
    assert_int_equal(total.metrics.in_use_bytes, 130);
    /* the heap reports less memory than its live blocks have, so some of the blocks belong to
     * another allocator */
    heaps[0].memory = (struct ag_heap_memory){
        .known = AG_MEMORY_SIZES, .reserved_bytes = 64, .committed_bytes = 64};
    make(heaps, 3);
    assert_true(row("libc")->has_committed);
    assert_false(row("libc")->has_fragmentation);
}

static void processes_add_up(void **state) {
    (void)state;
    struct ag_heap_memory sum = {.known = 0};
    const struct ag_heap_memory more = {.known = AG_MEMORY_SIZES,
                                        .time_ns = 5,
                                        .reserved_bytes = 1,
                                        .committed_bytes = 2,
                                        .free_bytes = 3,
                                        .of_malloc_bytes = 4};
    ag_heap_memory_add(&sum, &more);
    ag_heap_memory_add(&sum, &more);
    assert_int_equal(sum.known, AG_MEMORY_SIZES);
    assert_int_equal(sum.time_ns, 5);
    assert_int_equal(
        sum.reserved_bytes + sum.committed_bytes + sum.free_bytes + sum.of_malloc_bytes, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_from_malloc_counts_once),
        cmocka_unit_test(memory_that_is_recorded_twice_is_not_lent),
        cmocka_unit_test(blocks_from_malloc_are_all_memory_of_their_heap),
        cmocka_unit_test(memory_that_was_not_counted_is_not_shown_as_zero),
        cmocka_unit_test(processes_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
