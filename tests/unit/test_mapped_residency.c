/* test_mapped_residency.c: how many bytes of mapped ranges are resident: pages in runs, mappings
 * whose pages are not known, ranges that are parts of a mapping or span several, and damaged
 * data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/pass/mapped_residency.h"

enum { PAGE = 4096 };

static struct ag_resident_mapping with_pages(uint64_t low, uint64_t high, const uint8_t *pages,
                                             size_t length) {
    return (struct ag_resident_mapping){.low = low * PAGE,
                                        .high = high * PAGE,
                                        .rss_bytes = UINT64_MAX, /* the pages count */
                                        .pages = pages,
                                        .pages_length = length};
}

static struct ag_resident_look look_of(struct ag_resident_mapping *mappings, size_t n) {
    return (struct ag_resident_look){.mappings = mappings, .n_mappings = n, .page_bytes = PAGE};
}

static uint64_t pages_in(struct ag_mapped_residency *residency, uint64_t low, uint64_t high) {
    return ag_mapped_residency_in(residency, low * PAGE, high * PAGE) / PAGE;
}

static void runs_of_pages(void **state) {
    (void)state;
    /* [100, 120): pages 102 to 104 and 110 to 119; [120, 130): pages 120 and 121 */
    static const uint8_t first[] = {2, 3, 5, 10}, second[] = {0, 2};
    struct ag_resident_mapping mappings[] = {with_pages(100, 120, first, sizeof first),
                                             with_pages(120, 130, second, sizeof second)};
    const struct ag_resident_look look = look_of(mappings, 2);
    struct ag_mapped_residency residency = ag_mapped_residency_of(&look);
    assert_int_equal(pages_in(&residency, 90, 95), 0);
    assert_int_equal(pages_in(&residency, 100, 103), 1);
    assert_int_equal(pages_in(&residency, 103, 104), 1);
    assert_int_equal(pages_in(&residency, 104, 112), 1 + 2);
    assert_int_equal(pages_in(&residency, 118, 121), 2 + 1);
    assert_int_equal(pages_in(&residency, 121, 200), 1);
    assert_int_equal(pages_in(&residency, 300, 400), 0);
    residency = ag_mapped_residency_of(&look);
    assert_int_equal(pages_in(&residency, 0, 1000), 3 + 10 + 2);
}

static void part_of_a_page(void **state) {
    (void)state;
    static const uint8_t pages[] = {1, 1};
    struct ag_resident_mapping mapping = with_pages(10, 20, pages, sizeof pages);
    const struct ag_resident_look look = look_of(&mapping, 1);
    struct ag_mapped_residency residency = ag_mapped_residency_of(&look);
    assert_int_equal(ag_mapped_residency_in(&residency, 10 * PAGE, 11 * PAGE + 100), 100);
    assert_int_equal(ag_mapped_residency_in(&residency, 11 * PAGE + 100, 11 * PAGE + 300), 200);
}

static void pages_not_known(void **state) {
    (void)state;
    struct ag_resident_mapping mappings[] = {
        {.low = 10 * PAGE, .high = 20 * PAGE, .rss_bytes = 5 * PAGE},
        {.low = 20 * PAGE, .high = 24 * PAGE, .rss_bytes = 0},
        {.low = 24 * PAGE, .high = 28 * PAGE, .rss_bytes = 4 * PAGE},
    };
    const struct ag_resident_look look = look_of(mappings, 3);
    struct ag_mapped_residency residency = ag_mapped_residency_of(&look);
    assert_int_equal(pages_in(&residency, 10, 20), 5);
    assert_int_equal(pages_in(&residency, 20, 26), 2);
    assert_int_equal(pages_in(&residency, 26, 30), 2);
    residency = ag_mapped_residency_of(&look);
    assert_int_equal(pages_in(&residency, 10, 14), 2); /* in proportion */
    assert_int_equal(pages_in(&residency, 14, 30), 3 + 4);
}

static void damaged(void **state) {
    (void)state;
    static const uint8_t too_long[] = {0, 2, 0, 100}, cut[] = {0, 0x80}, fine[] = {0, 1};
    struct ag_resident_mapping mappings[] = {
        with_pages(10, 20, too_long, sizeof too_long),
        with_pages(15, 30, fine, sizeof fine), /* overlaps: left out */
        with_pages(40, 50, cut, sizeof cut),
        with_pages(60, 55, fine, sizeof fine),
        with_pages(70, 80, fine, sizeof fine),
    };
    const struct ag_resident_look look = look_of(mappings, 5);
    struct ag_mapped_residency residency = ag_mapped_residency_of(&look);
    assert_int_equal(pages_in(&residency, 0, 1000), 2 + 1);
    const struct ag_resident_look empty = {.page_bytes = PAGE};
    residency = ag_mapped_residency_of(&empty);
    assert_int_equal(pages_in(&residency, 0, 1000), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_pages),
        cmocka_unit_test(part_of_a_page),
        cmocka_unit_test(pages_not_known),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
