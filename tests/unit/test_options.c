/* test_options.c: the grammar of option values on a command line, and the options that runtimes
 * add to a command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/runtimes.h"
#include "cli/options.h"
#include "remote/machine_link.h"
#include "symbol/decoder.h"

#define UNTOUCHED UINT64_C(77)

static uint64_t time_of(const char *text) {
    uint64_t time_ns = UNTOUCHED;
    return ag_parse_time(text, &time_ns) ? time_ns : UINT64_MAX;
}

static void a_time_is_seconds_or_has_a_unit(void **state) {
    (void)state;
    assert_int_equal(time_of("0"), 0);
    assert_int_equal(time_of("1.5"), 1500000000);
    assert_int_equal(time_of("1.5s"), 1500000000);
    assert_int_equal(time_of(".25"), 250000000);
    assert_int_equal(time_of("17ns"), 17);
    assert_int_equal(time_of("3us"), 3000);
    assert_int_equal(time_of("250ms"), 250000000);
    assert_int_equal(time_of("2m"), UINT64_C(120000000000));
    assert_int_equal(time_of("1h"), UINT64_C(3600000000000));
    assert_int_equal(time_of("18446744073709551614ns"), UINT64_MAX - 1);
}

static void invalid_times_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "s",
                                      "-1",
                                      "+1",
                                      "1e3",
                                      "1 s",
                                      "1sec",
                                      ".",
                                      "nan",
                                      "0x1",
                                      "1S",
                                      "1..2",
                                      "99999999999999h",
                                      "18446744073709551616ns"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t time_ns = UNTOUCHED;
        assert_false(ag_parse_time(bad[i], &time_ns));
        assert_int_equal(time_ns, UNTOUCHED);
    }
}

static void bytes_take_powers_of_1024(void **state) {
    (void)state;
    uint64_t bytes;
    assert_true(ag_parse_bytes("512K", &bytes));
    assert_int_equal(bytes, 524288);
    assert_true(ag_parse_bytes("1.5M", &bytes));
    assert_int_equal(bytes, 1572864);
    assert_true(ag_parse_bytes("2GiB", &bytes));
    assert_int_equal(bytes, UINT64_C(2) << 30);
    assert_false(ag_parse_bytes("5Q", &bytes));
    assert_false(ag_parse_bytes("99999999999G", &bytes));
}

static void counts_are_decimal_and_do_not_overflow(void **state) {
    (void)state;
    uint64_t count;
    assert_true(ag_parse_count("18446744073709551615", &count));
    assert_true(count == UINT64_MAX);
    assert_false(ag_parse_count("18446744073709551616", &count));
    assert_false(ag_parse_count("", &count));
    assert_false(ag_parse_count("-1", &count));
    assert_false(ag_parse_count(" 1", &count));
}

static void a_percentage_ends_at_a_hundred(void **state) {
    (void)state;
    double percent;
    assert_true(ag_parse_percent("12.5", &percent));
    assert_float_equal(percent, 12.5, 1e-9);
    assert_true(ag_parse_percent("100%", &percent));
    assert_false(ag_parse_percent("100.1", &percent));
    assert_false(ag_parse_percent("%", &percent));
}

static const struct ag_decoder decoder = {.types_option = "vm-types", .types_help = ""};
static const struct ag_link_kind machine = {.option = "vm-key", .option_help = ""};
const struct ag_runtime ag_runtimes[] = {
    {.name = "bare"}, {.name = "vm", .decoder = &decoder, .link = &machine}, {.name = NULL}};

static int store_id(void *request, int id, const char *value) {
    assert_string_equal(value, "file");
    *(int *)request = id;
    return 0;
}

/* The id of the option that WORD sets; 0: WORD is refused. */
static int id_of(const struct ag_option *table, const char *word) {
    char *argv[] = {"command", (char *)word, NULL};
    struct ag_options options = {.usage = "command", .table = table, .n_table = 2};
    int id = 0;
    const bool is_read = ag_options_read(&options, 2, argv, store_id, &id);
    assert_int_equal(is_read, id != 0);
    return id;
}

static void the_options_of_a_runtime_are_valid_only_in_tables_that_have_their_row(void **state) {
    (void)state;
    const struct ag_option decoders[] = {{'o', "output", "FILE", ""}, AG_OPTIONS_OF_DECODERS};
    const struct ag_option links[] = {AG_OPTIONS_OF_LINKS, {'o', "output", "FILE", ""}};
    assert_int_equal(id_of(decoders, "--vm-types=file"), AG_OPTION_OF_DECODERS + 1);
    assert_int_equal(id_of(links, "--vm-key=file"), AG_OPTION_OF_LINKS + 1);
    assert_int_equal(id_of(decoders, "--output=file"), 'o');
    assert_int_equal(id_of(links, "--output=file"), 'o');
    assert_int_equal(id_of(links, "--vm-types=file"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_seconds_or_has_a_unit),
        cmocka_unit_test(invalid_times_are_refused),
        cmocka_unit_test(bytes_take_powers_of_1024),
        cmocka_unit_test(counts_are_decimal_and_do_not_overflow),
        cmocka_unit_test(the_options_of_a_runtime_are_valid_only_in_tables_that_have_their_row),
        cmocka_unit_test(a_percentage_ends_at_a_hundred),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
