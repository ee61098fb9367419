/* test_report_suppression.c: suppression files of `report`: which names a pattern matches, and
 * which lines a file may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/profile.h"
#include "report/suppression.h"

static void a_pattern_matches_anywhere(void **state) {
    (void)state;
    assert_true(ag_suppression_pattern_matches("table", "init_table_once"));
    assert_false(ag_suppression_pattern_matches("tables", "init_table_once"));
    assert_false(ag_suppression_pattern_matches("Table", "init_table_once"));
}

static void stars_stand_for_anything(void **state) {
    (void)state;
    assert_true(ag_suppression_pattern_matches("make_*_cache", "make_glyph_cache"));
    assert_true(ag_suppression_pattern_matches("make_*_cache", "do_make__cache_now"));
    assert_false(ag_suppression_pattern_matches("make_*_cache", "make_cache"));
    assert_true(ag_suppression_pattern_matches("*", ""));
    assert_true(ag_suppression_pattern_matches("a**b", "aXb"));
    assert_false(ag_suppression_pattern_matches("a*b*c", "acb"));
}

static void anchors_hold_a_pattern_to_the_ends(void **state) {
    (void)state;
    assert_true(ag_suppression_pattern_matches("^init$", "init"));
    assert_false(ag_suppression_pattern_matches("^init$", "reinit"));
    assert_false(ag_suppression_pattern_matches("^init$", "init2"));
    assert_true(ag_suppression_pattern_matches("^in*it$", "in_and_it_or_it"));
    assert_false(ag_suppression_pattern_matches("^in*it$", "in_it_"));
    assert_true(ag_suppression_pattern_matches("it$", "init"));
    assert_true(ag_suppression_pattern_matches("aa$", "aaa")); /* with $ the last occurrence must
                                                                * match, not the first */
}

static void many_stars_do_not_make_it_slow(void **state) {
    (void)state;
    enum { LENGTH = 20000 };
    char *pattern = malloc(2 * LENGTH + 2), *text = malloc(LENGTH + 1);
    for (size_t i = 0; i < LENGTH; i++) {
        memcpy(pattern + 2 * i, "*a", 2);
    }
    strcpy(pattern + 2 * LENGTH, "b");
    memset(text, 'a', LENGTH);
    text[LENGTH] = '\0';
    assert_false(ag_suppression_pattern_matches(pattern, text));
    free(pattern);
    free(text);
}

static struct ag_suppressions *open_text(const char *text, char message[512]) {
    char path[] = "/tmp/suppressions-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    struct ag_suppressions *suppressions = ag_suppressions_open(path, message);
    unlink(path);
    return suppressions;
}

static void a_frame_is_matched_by_function_file_and_image(void **state) {
    (void)state;
    char message[512];
    struct ag_suppressions *suppressions =
        open_text("# accepted\n\n  leak:by_function \r\nleak:file.c\nleak:libx.so", message);
    assert_non_null(suppressions);
    const struct ag_suppression *list;
    assert_int_equal(ag_suppressions_list(suppressions, &list), 3);
    const struct ag_frame frames[] = {
        {.function = "by_function", .file = NULL, .image = NULL},
        {.function = "f", .file = "/src/file.c", .image = "a"},
        {.function = "f", .file = NULL, .image = "libx.so.1"},
        {.function = "f", .file = "", .image = "liby.so"},
    };
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(ag_suppressions_match(suppressions, &frames[i]), &list[i]);
    }
    assert_null(ag_suppressions_match(suppressions, &frames[3]));
    ag_suppressions_close(suppressions);
}

static void another_kind_of_line_is_refused_by_number(void **state) {
    (void)state;
    char message[512];
    assert_null(open_text("leak:a\nrace:b\n", message));
    assert_non_null(strstr(message, ":2: "));
    assert_null(open_text("leak:\n", message));
    assert_null(ag_suppressions_open("/nowhere/at/all", message));
    assert_non_null(strstr(message, "No such file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_matches_anywhere),
        cmocka_unit_test(stars_stand_for_anything),
        cmocka_unit_test(anchors_hold_a_pattern_to_the_ends),
        cmocka_unit_test(many_stars_do_not_make_it_slow),
        cmocka_unit_test(a_frame_is_matched_by_function_file_and_image),
        cmocka_unit_test(another_kind_of_line_is_refused_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
