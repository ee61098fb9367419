/* test_report_text.c: the text of reports: numbers, names from traces, tables, curves over time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/profile.h"
#include "report/branch_walk.h"
#include "report/page.h"
#include "report/quantity.h"
#include "report/sparkline.h"
#include "report/table.h"
#include "text/utf8.h"

#define GIB (UINT64_C(1) << 30)

static void bytes_have_about_three_significant_digits(void **state) {
    (void)state;
    struct ag_quantity text;
    assert_string_equal(ag_quantity_bytes(&text, 0), "0 B");
    assert_string_equal(ag_quantity_bytes(&text, 1023), "1023 B");
    assert_string_equal(ag_quantity_bytes(&text, 1024), "1.00 KiB");
    assert_string_equal(ag_quantity_bytes(&text, 10 * 1024 + 103), "10.1 KiB");
    assert_string_equal(ag_quantity_bytes(&text, GIB + GIB / 50), "1.02 GiB");
    assert_string_equal(ag_quantity_bytes(&text, 214 * (GIB >> 10)), "214 MiB");
}

static void times_take_the_unit_that_fits(void **state) {
    (void)state;
    struct ag_quantity text;
    assert_string_equal(ag_quantity_time(&text, 0), "0 s");
    assert_string_equal(ag_quantity_time(&text, 999), "999 ns");
    assert_string_equal(ag_quantity_time(&text, 930000000), "930 ms");
    assert_string_equal(ag_quantity_time(&text, 1600000000), "1.60 s");
    assert_string_equal(ag_quantity_time(&text, UINT64_C(125000000000)), "2 m 05 s");
    assert_string_equal(ag_quantity_time(&text, UINT64_C(7380000000000)), "2 h 03 m");
}

static void counts_are_separated_by_commas(void **state) {
    (void)state;
    struct ag_quantity text;
    assert_string_equal(ag_quantity_count(&text, 0), "0");
    assert_string_equal(ag_quantity_count(&text, 999), "999");
    assert_string_equal(ag_quantity_count(&text, 1000), "1,000");
    assert_string_equal(ag_quantity_count(&text, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void a_small_share_is_not_shown_as_zero(void **state) {
    (void)state;
    struct ag_quantity text;
    assert_string_equal(ag_quantity_share(&text, 1, 1000000), "<1 %");
    assert_string_equal(ag_quantity_share(&text, 0, 1000000), "0 %");
    assert_string_equal(ag_quantity_share(&text, 5, 0), "0 %");
    assert_string_equal(ag_quantity_share(&text, UINT64_MAX, UINT64_MAX), "100 %");
}

static void a_column_has_one_unit(void **state) {
    (void)state;
    struct ag_quantity text;
    struct ag_unit unit = ag_unit_of_bytes(412 * (GIB >> 10));
    assert_string_equal(unit.name, "MiB");
    assert_string_equal(ag_quantity_in(&text, 412 * (GIB >> 10), unit), "412.0");
    assert_string_equal(ag_quantity_in(&text, 304, unit), "<0.1");
    assert_string_equal(ag_quantity_in(&text, 0, unit), "0");
    unit = ag_unit_of_blocks(9999999); /* every digit is shown */
    assert_string_equal(unit.name, "");
    assert_string_equal(ag_quantity_in(&text, 7000001, unit), "7,000,001");
    unit = ag_unit_of_bytes(1032 * (GIB >> 10));
    assert_string_equal(ag_quantity_in(&text, 1032 * (GIB >> 10), unit), "1,032");
}

static void bytes_that_are_no_utf8_are_replaced_one_by_one(void **state) {
    (void)state;
    const char *text = "a\xff\xc3\xa9\xc0\x80\xed\xa0\x80\xf0\x9f\x98\x80\xe2\x82";
    const uint32_t expected[] = {'a',    0xfffd, 0xe9,    0xfffd, 0xfffd, 0xfffd,
                                 0xfffd, 0xfffd, 0x1f600, 0xfffd, 0xfffd, 0};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(ag_utf8_next(&text), expected[i]);
    }
    assert_int_equal(ag_utf8_next(&text), 0); /* the pointer stays at the end */
}

static void every_code_point_survives_the_way_there_and_back(void **state) {
    (void)state;
    for (uint32_t c = 1; c <= 0x10ffff; c++) {
        if (c >= 0xd800 && c < 0xe000) {
            continue; /* surrogates are no characters */
        }
        char bytes[AG_UTF8_BYTES + 1];
        size_t length = ag_utf8_put(bytes, c);
        bytes[length] = '\0';
        const char *text = bytes;
        assert_int_equal(ag_utf8_next(&text), c);
        assert_ptr_equal(text, bytes + length);
    }
}

static void a_long_name_loses_its_middle(void **state) {
    (void)state;
    struct ag_fitted fitted;
    assert_int_equal(ag_page_fit(&fitted, "short", 5), 5);
    assert_string_equal(fitted.text, "short");
    assert_int_equal(ag_page_fit(&fitted, "abcdefghijklmnopqrstuvwxyz", 10), 10);
    assert_string_equal(fitted.text, "abcdef…xyz");
    assert_int_equal(ag_page_fit(&fitted, "abc", 1), 1);
    assert_string_equal(fitted.text, "…");
    assert_int_equal(ag_page_fit(&fitted, "abc", 0), 0);
}

static void a_name_never_moves_the_cursor(void **state) {
    (void)state;
    struct ag_fitted fitted;
    ag_page_fit(&fitted, "a\x1b[2J\nb\x7f\xc2\x9b\xe2\x80\xae", 40);
    assert_string_equal(fitted.text, "a\xef\xbf\xbd[2J\xef\xbf\xbd"
                                     "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void a_wide_character_takes_two_columns(void **state) {
    (void)state;
    struct ag_fitted fitted;
    assert_int_equal(ag_page_columns_of("\xe6\xbc\xa2\xe5\xad\x97"), 4);
    size_t taken = ag_page_fit(&fitted, "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 6);
    assert_true(taken <= 6);
    assert_int_equal(ag_page_columns_of(fitted.text), taken);
}

static void marks_without_width_cannot_overflow(void **state) {
    (void)state;
    enum { MARKS = 100000 };
    char *text = malloc(2 * MARKS + 1);
    for (size_t i = 0; i < MARKS; i++) {
        memcpy(text + 2 * i, "\xcc\x81", 2); /* a combining accent */
    }
    text[2 * MARKS] = '\0';
    struct ag_fitted fitted;
    assert_int_equal(ag_page_fit(&fitted, text, 10), 0);
    assert_true(strlen(fitted.text) < AG_FITTED_BYTES);
    free(text);
}

static void a_narrow_page_takes_from_the_widest_column(void **state) {
    (void)state;
    const struct ag_column columns[] = {
        {.head = "n"},
        {.head = "name", .align = AG_ALIGN_LEFT, .least_columns = 6},
        {.head = "where", .align = AG_ALIGN_LEFT, .least_columns = 6},
    };
    struct ag_table *table = ag_table_new(columns, 3);
    ag_table_cell(table, "12345");
    ag_table_cell(table, "a_very_long_name_of_a_function_that_does_not_fit");
    ag_table_cell(table, "file.c:1");
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct ag_page page = {.out = out, .columns = 40};
    assert_int_equal(ag_table_write(table, &page), 0);
    fclose(out);
    assert_string_equal(text, "      n  name                   where\n"
                              "  12345  a_very_long_…_not_fit  file.c:1\n");
    free(text);
    ag_table_free(table);
}

static void a_page_too_narrow_for_names_cuts_heads_and_no_number(void **state) {
    (void)state;
    const struct ag_column columns[] = {{.head = "fragmentation KiB"}, {.head = "of it free KiB"}};
    struct ag_table *table = ag_table_new(columns, 2);
    ag_table_cell(table, "123456789");
    ag_table_cell(table, "1");
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct ag_page page = {.out = out, .columns = 24};
    assert_int_equal(ag_table_write(table, &page), 0);
    page.columns = 10; /* no head is cut to fewer than 9 columns, even if the table is too wide */
    assert_int_equal(ag_table_write(table, &page), 0);
    fclose(out);
    assert_string_equal(text, "  fragme…KiB  of it …KiB\n   123456789           1\n"
                              "  fragm…KiB  of it…KiB\n  123456789          1\n");
    free(text);
    ag_table_free(table);
}

static void prose_goes_on_in_the_next_line(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct ag_page page = {.out = out, .columns = 20};
    ag_page_prose(&page, AG_STYLE_PLAIN, "  %s: words, more words  and a\nline feed", "head");
    ag_page_prose(&page, AG_STYLE_PLAIN, "awordthatiswiderthanthepage %s", "x");
    ag_page_text(&page, AG_STYLE_PLAIN, "taken");
    ag_page_wrap(&page, AG_STYLE_PLAIN, 3, " by this, and more");
    fclose(out);
    assert_string_equal(text, "  head: words, more\n    words  and\n    a\xef\xbf\xbdline feed\n"
                              "awordthatiswiderthanthepage\n  x\n"
                              "taken by this, and\n   more");
    free(text);
}

static void a_line_that_is_cut_off_keeps_its_newline(void **state) {
    (void)state;
    enum { LONG = 100000 };
    char *name = malloc(LONG + 1);
    memset(name, 'x', LONG);
    name[LONG] = '\0';
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct ag_page page = {.out = out, .columns = 80};
    ag_page_print(&page, AG_STYLE_PLAIN, "  %s\n", name);
    fclose(out);
    assert_true(length < LONG && text[length - 1] == '\n');
    free(text);
    free(name);
}

static void a_course_keeps_the_highest_value_of_each_step(void **state) {
    (void)state;
    const struct ag_timeline_point points[] = {
        {.time_ns = 0, .in_use_bytes = 10},
        /* a peak within a step is kept, although a later point of the step is lower */
        {.time_ns = 40, .in_use_bytes = 90},
        {.time_ns = 45, .in_use_bytes = 20},
        {.time_ns = 100, .in_use_bytes = 30},
    };
    uint64_t values[4];
    ag_course_sample(points, 4, (struct ag_span){0, 100}, AG_COURSE_IN_USE, values, 4);
    assert_int_equal(values[0], 10);
    assert_int_equal(values[1], 90);
    assert_int_equal(values[2], 20); /* no point in this column: the previous value */
    assert_int_equal(values[3], 30);
    ag_course_sample(points, 4, (struct ag_span){42, 50}, AG_COURSE_IN_USE, values, 4);
    assert_int_equal(values[0], 90); /* the value when the time window begins */
    assert_int_equal(values[1], 90);
    assert_int_equal(values[2], 20);
}

static void allocated_bytes_are_spread_between_points(void **state) {
    (void)state;
    const struct ag_timeline_point points[] = {
        {.time_ns = 0, .allocated_bytes = 0},
        {.time_ns = 100, .allocated_bytes = 1000},
    };
    uint64_t values[4];
    ag_course_sample(points, 2, (struct ag_span){0, 100}, AG_COURSE_ALLOCATED, values, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(values[i], 250);
    }
    ag_course_sample(points, 2, (struct ag_span){50, 90}, AG_COURSE_ALLOCATED, values, 4);
    assert_int_equal(values[0], 100);
    assert_int_equal(values[3], 100);
}

/* ---- lines of trees ---- */

/* A tree in which each inner node has two children, an inner node and a leaf, so that lines of all
 * levels are drawn. Node 0 is the root. Node 2k + 1 is an inner node (the deepest one has no
 * children), and its sibling, node 2k + 2, is a leaf. */
enum { TREE_DEPTH = 9, TREE_NODES = 2 * TREE_DEPTH + 1 };

static struct ag_branch branch_of(const void *unused, uint32_t node) {
    (void)unused;
    const bool is_inner = node % 2 == 1 && node + 2 < TREE_NODES;
    return (struct ag_branch){.first_child = node == 0  ? 1
                                             : is_inner ? node + 2
                                                        : TREE_NODES,
                              .next_sibling = node % 2 == 1 ? node + 1 : TREE_NODES,
                              .value = TREE_NODES - node,
                              .is_shown = true};
}

static struct ag_branch_walk lines_walk;

static void check_lines(void *unused, uint32_t node) {
    (void)unused;
    const size_t n_branches = (node + 1) / 2; /* the depth of the node */
    for (size_t room = 0; room <= 3 * TREE_DEPTH + 3; room++) {
        char text[256] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        struct ag_page page = {.out = out, .columns = AG_PAGE_MOST_COLUMNS};
        const size_t n = ag_branch_walk_lines(&lines_walk, &page, room);
        assert_int_equal(fclose(out), 0);
        assert_true(n <= room);
        assert_int_equal(n, ag_page_columns_of(text));
        assert_int_equal(strncmp(text, "\xe2\x80\xa6 ", 4) == 0,
                         room >= 2 && 3 * n_branches > room);
        /* as many lines as fit */
        assert_true(n + 3 > room || n == 3 * n_branches);
    }
}

static void lines_of_a_tree_never_take_more_than_their_room(void **state) {
    (void)state;
    const struct ag_report_options options = {.size = sizeof options};
    const struct ag_view view = {.options = &options, .limit = UINT64_MAX};
    lines_walk = (struct ag_branch_walk){
        .get = branch_of, .visit = check_lines, .view = &view, .n_nodes = TREE_NODES};
    assert_int_equal(ag_branch_walk_run(&lines_walk), 0);
}

static void rows_that_are_not_shown_are_counted_in_words(void **state) {
    (void)state;
    static const struct {
        size_t n_hidden;
        const char *what, *line;
    } cases[] = {
        {0, "more stack", ""},
        {1, "more stack", "  1 more stack, 4 %; --limit=0 shows all\n"},
        {2, "more stack", "  2 more stacks, 4 %; --limit=0 shows all\n"},
        {1, "more process", "  1 more process, 4 %; --limit=0 shows all\n"},
        {1234, "more process", "  1,234 more processes, 4 %; --limit=0 shows all\n"},
        {3, NULL, "  3 more, 4 %; --limit=0 shows all\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        struct ag_page page = {.out = out, .columns = AG_PAGE_USUAL_COLUMNS};
        ag_ranking_write_rest(&page, cases[i].n_hidden, cases[i].what, 4, 100);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, cases[i].line);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_about_three_significant_digits),
        cmocka_unit_test(times_take_the_unit_that_fits),
        cmocka_unit_test(counts_are_separated_by_commas),
        cmocka_unit_test(a_small_share_is_not_shown_as_zero),
        cmocka_unit_test(a_column_has_one_unit),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced_one_by_one),
        cmocka_unit_test(every_code_point_survives_the_way_there_and_back),
        cmocka_unit_test(a_long_name_loses_its_middle),
        cmocka_unit_test(a_name_never_moves_the_cursor),
        cmocka_unit_test(a_wide_character_takes_two_columns),
        cmocka_unit_test(marks_without_width_cannot_overflow),
        cmocka_unit_test(a_narrow_page_takes_from_the_widest_column),
        cmocka_unit_test(a_page_too_narrow_for_names_cuts_heads_and_no_number),
        cmocka_unit_test(prose_goes_on_in_the_next_line),
        cmocka_unit_test(a_line_that_is_cut_off_keeps_its_newline),
        cmocka_unit_test(a_course_keeps_the_highest_value_of_each_step),
        cmocka_unit_test(allocated_bytes_are_spread_between_points),
        cmocka_unit_test(lines_of_a_tree_never_take_more_than_their_room),
        cmocka_unit_test(rows_that_are_not_shown_are_counted_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
