/* test_json_reader.c: reads valid and invalid JSON, and JSON at the limits of depth and number of
 * values. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/json_reader.h"

static struct ag_json_value values[256];
static struct ag_json_document document;

/* Reads a copy without a terminator, so that a sanitizer finds a read after its end. */
static int read_text(const char *text) {
    static char *copy;
    free(copy);
    const size_t length = strlen(text);
    copy = malloc(length + (length == 0));
    memcpy(copy, text, length);
    document = (struct ag_json_document){
        .text = copy, .length = length, .values = values, .capacity = 256};
    return ag_json_read(&document);
}

static void valid_texts(void **state) {
    static const char *const texts[] = {"0",
                                        "-1.5e+10",
                                        "1E-2",
                                        "null",
                                        " true ",
                                        "\"\"",
                                        "\"\\u00e9\\n\\\\\"",
                                        "[]",
                                        "{}",
                                        "[[], {}, [1]]",
                                        "{\"a\":[1,{\"b\":null}],\"c\":false}",
                                        "\t[1 ,\r\n2]"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (read_text(texts[i]) != 0) {
            fail_msg("%s is refused", texts[i]);
        }
        assert_int_equal(values[0].after, document.count);
    }
}

static void invalid_texts(void **state) {
    static const char *const texts[] = {
        "",      " ",       "{",           "}",          "[1",     "[1,]",  "[,1]",
        "[1 2]", "{\"a\"}", "{\"a\":}",    "{\"a\":1,}", "{a:1}",  "{1:2}", "01",
        "-",     "1.",      ".5",          "1e",         "+1",     "nul",   "truex",
        "\"",    "\"\\x\"", "\"\\u12g4\"", "\"\\u12",    "\"\n\"", "[1]]",  "{\"a\":1]",
        "[1}",   "1 2",     "\"a\" b",     "\\",         "{,}",    "[:]",   "{\"a\":1 \"b\":2}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (read_text(texts[i]) != -EBADMSG) {
            fail_msg("%s is accepted", texts[i]);
        }
    }
}

static void members_and_texts(void **state) {
    (void)state;
    char text[64];
    int64_t number;
    assert_int_equal(
        read_text("{\"x\":{\"id\":1},\"id\":-9223372036854775808,"
                  "\"m\\u0065thod\":\"a\\ud83d\\ude00\\ud83d\\/\\u0041\",\"n\":\"a\\u0000b\"}"),
        0);
    assert_true(ag_json_copy_integer(&document, ag_json_member(&document, values, "id"), &number));
    assert_true(number == INT64_MIN);
    assert_true(ag_json_copy_text(&document, ag_json_member(&document, values, "method"), text,
                                  sizeof text));
    assert_string_equal(text, "a\360\237\230\200\357\277\275/A");
    assert_false(
        ag_json_copy_text(&document, ag_json_member(&document, values, "n"), text, sizeof text));
    assert_false(
        ag_json_copy_text(&document, ag_json_member(&document, values, "method"), text, 8));
    assert_int_equal(read_text("\"\""), 0);
    assert_true(ag_json_copy_text(&document, values, text, 1));
    assert_string_equal(text, "");
    text[0] = 'x';
    assert_false(ag_json_copy_text(&document, values, text, 0));
    assert_int_equal(text[0], 'x');
    assert_null(ag_json_member(&document, values, "absent"));
    assert_null(ag_json_member(&document, NULL, "id"));
    static const char *const others[] = {"9223372036854775808", "1.0", "1e3",
                                         "-9223372036854775809"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(read_text(others[i]), 0);
        assert_false(ag_json_copy_integer(&document, values, &number));
    }
}

static void bounds(void **state) {
    (void)state;
    char deep[2 * AG_JSON_DEPTH_MOST + 3] = "", wide[1024] = "[0";
    memset(deep, '[', AG_JSON_DEPTH_MOST);
    memset(deep + AG_JSON_DEPTH_MOST, ']', AG_JSON_DEPTH_MOST);
    assert_int_equal(read_text(deep), 0);
    memset(deep, '[', AG_JSON_DEPTH_MOST + 1);
    assert_int_equal(read_text(deep), -E2BIG);
    for (int i = 0; i < 254; i++) {
        strcat(wide, ",0");
    }
    strcat(wide, "]");
    assert_int_equal(read_text(wide), 0); /* 256 values */
    wide[strlen(wide) - 1] = ',';
    strcat(wide, "0]");
    assert_int_equal(read_text(wide), -E2BIG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts), cmocka_unit_test(invalid_texts),
        cmocka_unit_test(members_and_texts), cmocka_unit_test(bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
