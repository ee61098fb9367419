/* test_gate_expression.c: a gate expression is the condition of --fail-if, such as peak_bytes > 1M.
 * The test evaluates expressions, and checks the messages for invalid ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/gate.h"
#include "report/gate_expression.h"

static char message[1024];

/* Evaluates TEXT. The first quantity that TEXT names has the value 1000, the second 2000, and so
 * on; each value is uncertain by `aside`. Returns an ag_gate_answer, or a negative errno. */
static int judge_within(const char *text, long double aside) {
    struct ag_gate_expression *expression;
    memset(message, 0, sizeof message);
    int r = ag_gate_expression_new(text, &expression, message);
    if (r < 0) {
        return r;
    }
    const struct ag_gate_term *terms;
    const size_t n_terms = ag_gate_expression_terms(expression, &terms);
    struct ag_gate_range *values = calloc(n_terms + 1, sizeof *values);
    for (size_t i = 0; i < n_terms; i++) {
        const long double value = 1000.0L * (long double)(i + 1);
        values[i] = (struct ag_gate_range){value - aside, value + aside};
    }
    enum ag_gate_answer answer = AG_GATE_NO;
    r = ag_gate_expression_compute(expression, values, &answer, message);
    free(values);
    ag_gate_expression_free(expression);
    return r < 0 ? r : (int)answer;
}

/* Returns 1 if the expression is true, 0 if it is false, or a negative errno if it is invalid or
 * divides by 0. */
static int judge(const char *text) {
    const int answer = judge_within(text, 0);
    assert_int_not_equal(answer, AG_GATE_UNSURE);
    return answer < 0 ? answer : answer == AG_GATE_YES;
}

/* Each quantity is uncertain by 100: the first is 900 to 1100, the second 1900 to 2100, and so
 * on. */
static void uncertain_values_give_an_unsure_answer(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum ag_gate_answer answer;
    } cases[] = {
        {"threads > 899", AG_GATE_YES},
        {"threads > 900", AG_GATE_UNSURE},
        {"threads >= 900", AG_GATE_YES},
        {"threads > 1099", AG_GATE_UNSURE},
        {"threads > 1100", AG_GATE_NO},
        {"threads >= 1100", AG_GATE_UNSURE},
        {"threads < 1101", AG_GATE_YES},
        {"threads < 900", AG_GATE_NO},
        {"threads <= 900", AG_GATE_UNSURE},
        {"threads == 1000", AG_GATE_UNSURE},
        {"threads == 800", AG_GATE_NO},
        {"threads != 1000", AG_GATE_UNSURE},
        {"threads != 800", AG_GATE_YES},
        {"not threads > 1000", AG_GATE_UNSURE},
        {"not threads > 1100", AG_GATE_YES},
        {"threads > 1000 or 2 > 1", AG_GATE_YES},
        {"threads > 1000 or 1 > 2", AG_GATE_UNSURE},
        {"threads > 1000 and 1 > 2", AG_GATE_NO},
        {"threads > 1000 and 2 > 1", AG_GATE_UNSURE},
        {"threads + peak_bytes >= 2800", AG_GATE_YES},
        {"threads + peak_bytes > 3200", AG_GATE_NO},
        {"threads - peak_bytes < -800", AG_GATE_UNSURE},
        {"threads - peak_bytes <= -800", AG_GATE_YES},
        {"-threads <= -900", AG_GATE_YES},
        {"threads * peak_bytes >= 1710000", AG_GATE_YES},
        {"-threads * peak_bytes > -2310000", AG_GATE_UNSURE},
        {"threads / peak_bytes > 42%", AG_GATE_YES},
        {"threads / peak_bytes > 43%", AG_GATE_UNSURE},
        {"threads / peak_bytes > 58%", AG_GATE_NO},
        {"1 / (threads - 1000) > 5", AG_GATE_UNSURE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int answer = judge_within(cases[i].text, 100);
        if (answer != (int)cases[i].answer) {
            fail_msg("%s: %d, not %d", cases[i].text, answer, (int)cases[i].answer);
        }
    }
    assert_int_equal(judge_within("1 / 0 > 5", 100), -EDOM);
}

static void operators_bind_as_in_c(void **state) {
    (void)state;
    static const char *const true_ones[] = {
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "10 - 3 - 2 == 5",
        "16 / 4 / 2 == 2",
        "-2 * 3 == 0 - 6",
        "- - 2 == 2",
        "1 > 2 or 2 > 1",
        "1 > 2 and 1 > 2 or 2 > 1",
        "2 > 1 or 2 > 1 and 1 > 2",
        "not 1 > 2",
        "not (1 > 2 or 2 > 3)",
        "not 1 > 2 and 2 > 1",
        "! 1 > 2 && (1 >= 2 || 2 != 1)",
        "1<=1 and(2>=2)",
        "\t1\n==\n1 ",
        "(((1))) == 1",
    };
    for (size_t i = 0; i < sizeof true_ones / sizeof true_ones[0]; i++) {
        if (judge(true_ones[i]) != 1) {
            fail_msg("%s: %s", true_ones[i], message);
        }
    }
    assert_int_equal(judge("1 > 2 and 2 > 1"), 0);
    assert_int_equal(judge("not 2 > 1"), 0);
    assert_int_equal(judge("2 < 1 or 1 == 2"), 0);
}

static void numbers_have_suffixes_and_are_exact(void **state) {
    (void)state;
    assert_int_equal(judge("1k == 1000 and 1K == 1024 and 1M == 1048576 and 1G == 1073741824"), 1);
    assert_int_equal(judge("1.5K == 1536 and .5 == 0.5 and 5. == 5"), 1);
    assert_int_equal(judge("25% == 0.25 and 5% == 0.05"), 1);
    assert_int_equal(judge("18446744073709551615 > 18446744073709551614"), 1);
    assert_int_equal(judge("18446744073709551615 == 18446744073709551614"), 0);
}

static void quantities_come_in_their_order(void **state) {
    (void)state;
    assert_int_equal(judge("in_use_bytes_at_end == 1k and peak_bytes == 2k"), 1);
    assert_int_equal(judge("sites[\"parse\"].allocated_blocks < base.peak_bytes"), 1);
    struct ag_gate_expression *expression;
    const struct ag_gate_term *terms;
    assert_int_equal(
        ag_gate_expression_new("growth.sites['operator \"\" _x'] . total . peak_bytes > 5% "
                               "or base.threads > 1",
                               &expression, message),
        0);
    assert_int_equal(ag_gate_expression_terms(expression, &terms), 2);
    assert_string_equal(terms[0].site, "operator \"\" _x");
    assert_true(terms[0].is_total && terms[0].metric == AG_METRIC_PEAK_BYTES);
    assert_int_equal(terms[0].of, AG_GATE_OF_GROWTH);
    assert_null(terms[1].site);
    assert_int_equal(terms[1].of, AG_GATE_OF_BASE);
    assert_int_equal(terms[1].key, AG_GATE_THREADS);
    ag_gate_expression_free(expression);
}

static void wrong(const char *text, const char *place, const char *advice) {
    if (judge(text) != -EINVAL || strstr(message, place) != message ||
        strstr(message, advice) == NULL || strchr(message, '\n') != NULL) {
        fail_msg("%s: %s", text, message);
    }
}

static void errors_are_reported_with_their_place(void **state) {
    (void)state;
    wrong("", "at the end of the expression: ", "in_use_bytes_at_end");
    wrong("peak_bytes >", "at the end of the expression: ", "lost_events");
    wrong("peak_byte > 1", "at character 1, 'peak_byte > 1': ", " peak_bytes ");
    wrong("1 > 0 and peak > 1", "at character 11, 'peak > 1': ", "sites[\"NAME\"].METRIC");
    wrong("sites[\"a\"].peak > 1", "at character 12, 'peak > 1': ", " in_use_blocks ");
    wrong("sites['\xc3\xa4'].peak > 1", "at character 12, 'peak > 1': ", " in_use_blocks ");
    wrong("sites.a > 1", "at character 6, '.a > 1': ", "NAME OF A FUNCTION");
    wrong("sites[parse].peak_bytes > 1", "at character 7, ", "in quotes");
    wrong("sites[\"\"].peak_bytes > 1", "at character 7, ", "in quotes");
    wrong("sites[\"parse].peak_bytes > 1", "at character 7, ", "in quotes");
    wrong("sites[\"parse\".peak_bytes > 1", "at character 14, ", "]");
    wrong("sites[\"parse\"] > 1", "at character 16, ", ".METRIC");
    wrong("sites[\"parse\"].own > 1", "at character 20, ", ".METRIC");
    wrong("base peak_bytes > 1", "at character 6, ", ".KEY");
    wrong("peak_bytes", "at character 1, 'peak_bytes': ", "expected a condition");
    wrong("1 > 2 > 3", "at character 1, ", "a number is expected");
    wrong("1 + (2 > 1) > 0", "at character 5, '(2 > 1) > 0': ", "a number is expected");
    wrong("1 > 0 and 1", "at character 11, '1': ", "expected a condition");
    wrong("not 1", "at character 5, '1': ", "expected a condition");
    wrong("(1 > 0", "at the end of the expression: ", "the ( at character 1 is not closed");
    wrong("1 > 0)", "at character 6, ')': ", "text after the end");
    wrong("1 > 0 2 > 1", "at character 7, ", "text after the end");
    wrong("1 = 1", "at character 3, '= 1': ", "text after the end");
    wrong("peak_bytes > 1T", "at character 14, '1T': ", "powers of 1024");
    wrong("peak_bytes > 1e9", "at character 14, ", "powers of 1024");
    wrong("1.2.3 > 0", "at character 1, ", "not a number");
    wrong(". > 0", "at character 1, ", "not a number");
    wrong("1 > 0 -", "at the end of the expression: ", "not a key");
    wrong("functions > 1", "at character 11, ", "must be followed by [\"NAME OF A FUNCTION\"]");
    wrong("temporary_blocks > 30%", "at character 1, ",
          "temporary_blocks / allocated_blocks > 30%");
    wrong("threads > 1 and 5% <= peak_bytes * 2", "at character 17, ",
          "a percentage needs a total");
    wrong("functions['f'] > 1", "at character 16, ",
          "must be followed by .METRIC, one of calls own_words");
    wrong("functions['f'].peak_bytes > 1", "at character 16, ", "the metrics are calls own_words");
    wrong("functions['f'.calls > 1", "at character 14, ", "expected ]");
    wrong("sites['f'].calls > 1", "at character 12, ", "not a metric of a site");
    wrong("own_wrds > 1", "at character 1, ", "for function counters calls own_words own_bytes");
}

static char *repeated(const char *word, size_t times, const char *before, const char *behind) {
    char *text = malloc(strlen(before) + times * strlen(word) + strlen(behind) + 1);
    char *end = stpcpy(text, before);
    while (times-- > 0) {
        end = stpcpy(end, word);
    }
    stpcpy(end, behind);
    return text;
}

static void depth_and_length_have_bounds(void **state) {
    (void)state;
    static const struct {
        const char *word, *before, *behind, *advice;
        size_t times;
    } cases[] = {
        {"(", "", "1 > 0", "levels deep", 3000}, {"not ", "", "1 > 0", "levels deep", 1000},
        {"!", "", "1 > 0", "levels deep", 4000}, {"-", "", "1 > 0", "levels deep", 4000},
        {"(", "", "", "levels deep", 65},        {" ", "1", "> 0", "the limit is 4096", 5000},
        {"9", "", " > 0", "not a number", 4000}, {"a", "sites['", "", "in quotes", 4000},
        {"a", "", " > 1", "not a key", 4000},    {"\xff", "", " > 1", "not a key", 4000},
        {"sites['a']", "", "", ".METRIC", 400},  {"1+", "", "", "not a key", 2000},
        {"1>0 or ", "", "", "not a key", 500},   {"base.", "", "peak_bytes > 1", "not a key", 800},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = repeated(cases[i].word, cases[i].times, cases[i].before, cases[i].behind);
        if (judge(text) != -EINVAL || strstr(message, cases[i].advice) == NULL) {
            fail_msg("%.40s...: %s", text, message);
        }
        free(text);
    }
}

static void long_valid_expressions_are_evaluated(void **state) {
    (void)state;
    char *text = repeated("1+", 1990, "1987 < ", "1");
    assert_int_equal(judge(text), 1);
    free(text);
    text = repeated("(", 60, "", "1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))");
    char *closed = repeated(" == 1", 1, text, "");
    assert_int_equal(judge(closed), 1);
    free(closed);
    free(text);
}

/* Cuts a valid expression at each place, and changes each of its bytes. The changed text may be
 * evaluated or refused, but nothing beyond the text may be read. */
static void every_cut_and_change_is_read_or_refused(void **state) {
    (void)state;
    static const char good[] =
        "not (growth.sites[\"parse\"].total.peak_bytes > 5% and -1.5M + peak_bytes * 2 / 3 <= 7k) "
        "|| base.threads != 1";
    assert_true(judge(good) >= 0);
    for (size_t i = 0; i < sizeof good; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        text[i] = '\0';
        assert_true(judge(text) == -EINVAL || judge(text) >= 0);
        for (unsigned byte = 1; byte < 256 && i + 1 < sizeof good; byte++) {
            memcpy(text, good, sizeof good);
            text[i] = (char)byte;
            const int r = judge(text);
            assert_true(r == -EINVAL || r == -EDOM || r >= 0);
        }
    }
}

static void undefined_numbers_give_an_error(void **state) {
    (void)state;
    assert_int_equal(judge("peak_bytes / (threads - 2k) > 1"), -EDOM);
    assert_string_equal(message, "at character 14, '(threads - 2k) > 1': a division by 0");
    assert_int_equal(judge("0 / 0 > 1 or 1 > 0"), -EDOM);
}

static void a_function_is_named_with_or_without_its_parameters(void **state) {
    (void)state;
    assert_true(ag_gate_is_named("parse", "parse"));
    assert_true(ag_gate_is_named("parse(int, char)", "parse"));
    assert_true(ag_gate_is_named("parse(int, char)", "parse(int, char)"));
    assert_false(ag_gate_is_named("parse_all", "parse"));
    assert_false(ag_gate_is_named("parse<int>(int)", "parse"));
    assert_false(ag_gate_is_named("my::parse(int)", "parse"));
    assert_false(ag_gate_is_named(NULL, "parse"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_bind_as_in_c),
        cmocka_unit_test(uncertain_values_give_an_unsure_answer),
        cmocka_unit_test(numbers_have_suffixes_and_are_exact),
        cmocka_unit_test(quantities_come_in_their_order),
        cmocka_unit_test(errors_are_reported_with_their_place),
        cmocka_unit_test(depth_and_length_have_bounds),
        cmocka_unit_test(long_valid_expressions_are_evaluated),
        cmocka_unit_test(every_cut_and_change_is_read_or_refused),
        cmocka_unit_test(undefined_numbers_give_an_error),
        cmocka_unit_test(a_function_is_named_with_or_without_its_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
