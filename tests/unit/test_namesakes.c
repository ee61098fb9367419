/* test_namesakes.c: functions with the same name are distinguished by the file and line where they
 * begin, but not if the line is only known from samples. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/answers/call_difference.h"
#include "model/answers/functions.h"
#include "model/profile.h"
#include "trace_builder.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct ag_bytes text_of(const char *text) {
    return (struct ag_bytes){.data = text, .length = (uint32_t)strlen(text)};
}

/* Defines frames 1 to 6: "new" in a.vm, "new" at two lines of b.vm, "new" without file and line,
 * "new" of another runtime, and "old". LINES is added to the lines, as if the files were longer,
 * and WORDS to the words of each function. */
static void trace_changed_namesakes(struct trace_builder *trace, uint32_t lines, uint64_t words) {
    static const struct {
        const char *runtime, *function, *file;
        uint32_t line;
    } frames[] = {{"vm", "new", "a.vm", 1}, {"vm", "new", "b.vm", 1}, {"vm", "new", "b.vm", 9},
                  {"vm", "new", "", 0},     {"c", "new", "", 0},      {"vm", "old", "a.vm", 1}};
    for (uint32_t i = 0; i < COUNT(frames); i++) {
        const struct ag_record record = {
            .kind = AG_RECORD_FRAME,
            .u.frame = {.frame = i + 1,
                        .line = frames[i].line != 0 ? frames[i].line + lines : 0,
                        .runtime = text_of(frames[i].runtime),
                        .function = text_of(frames[i].function),
                        .file = text_of(frames[i].file)}};
        trace_record(trace, &record);
    }
    const struct ag_record functions = {
        .kind = AG_RECORD_FUNCTIONS,
        .u.functions = {.tree = 7, .snapshot = 1, .n_calls = COUNT(frames), .word_bytes = 8}};
    trace_record(trace, &functions);
    for (uint32_t i = 1; i <= 6; i++) { /* function i is called i times by function i - 1 */
        trace_calls(trace, &(struct ag_call_path){7, 1, i, i - 1, i, i, 10 * i + words, 0}, 1);
    }
}

static void trace_namesakes(struct trace_builder *trace) {
    trace_changed_namesakes(trace, /* lines= */ 0, /* words= */ 0);
}

static struct ag_profile *finish(struct trace_builder *trace) {
    const struct ag_profile_options options = {.size = sizeof(options), .thread = -1};
    struct ag_profile *profile = NULL;
    char message[512] = "";
    trace_finish(trace, 10, NULL);
    assert_int_equal(ag_profile_open(trace->path, &options, &profile, message), 0);
    trace_end(trace);
    return profile;
}

static const struct ag_functions *functions_of(struct ag_profile *profile) {
    const struct ag_functions *functions;
    assert_int_equal(ag_profile_functions(profile, &functions), 0);
    return functions;
}

static void functions_with_the_same_name_are_distinguished_by_file_and_line(void **state) {
    (void)state;
    static const char *const names[] = {"new a.vm:1", "new b.vm:1", "new b.vm:9",
                                        "new",        NULL,         NULL};
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_namesakes(&trace);
    struct ag_profile *profile = finish(&trace);
    const struct ag_functions *functions = functions_of(profile);
    assert_int_equal(functions->n_rows, COUNT(names));
    for (size_t i = 0; i < functions->n_rows; i++) {
        assert_int_equal(functions->rows[i].counts.calls, i + 1);
        assert_true(names[i]
                        ? functions->rows[i].name && strcmp(functions->rows[i].name, names[i]) == 0
                        : !functions->rows[i].name);
    }
    struct ag_caller_row *rows;
    size_t n;
    assert_int_equal(ag_profile_callers(profile, "new", &rows, &n), 0);
    /* functions 1 to 5 have this name; function 1 has no caller, and 1 to 4 call the others */
    assert_int_equal(n, 5);
    free(rows);
    assert_int_equal(ag_profile_callers(profile, "[vm] new", &rows, &n), 0);
    assert_int_equal(n, 4);
    free(rows);
    static const char *const of_one[] = {"new b.vm:9", "[vm] new b.vm:9"};
    for (size_t i = 0; i < COUNT(of_one); i++) {
        assert_int_equal(ag_profile_callers(profile, of_one[i], &rows, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(rows[0].calls, 3);
        assert_int_equal(rows[0].row, 1);
        free(rows);
    }
    assert_int_equal(ag_profile_callers(profile, "[c] new b.vm:9", &rows, &n), -ENOENT);
    assert_int_equal(ag_profile_callers(profile, "old a.vm:1", &rows, &n),
                     -ENOENT); /* "old" is known only without file and line */
    assert_null(ag_profile_close(profile));
}

/* If a process was observed from outside, a function's line is the line of a sample, so
 * functions are not distinguished by file and line. */
static void observed_functions_with_the_same_name_are_one_function(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_namesakes(&trace);
    const struct ag_record observed = {.kind = AG_RECORD_OBSERVED, .u.observed = {.samples = 21}};
    trace_record(&trace, &observed);
    struct ag_profile *profile = finish(&trace);
    const struct ag_functions *functions = functions_of(profile);
    assert_int_equal(functions->n_rows, 3);
    assert_int_equal(functions->rows[0].counts.calls, 1 + 2 + 3 + 4);
    for (size_t i = 0; i < functions->n_rows; i++) {
        assert_null(functions->rows[i].name);
        assert_int_equal(ag_profile_frame(profile, functions->rows[i].frame)->line, 0);
    }
    assert_null(ag_profile_close(profile));
}

/* Each function calls the next one, so the accumulated counts of the outermost function with a name
 * are those of all functions with this name. */
static void counts_by_name_contain_each_path_once(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t calls, own_words, acc_words;
    } wanted[] = {{"new", 15, 150, 210},
                  {"[vm] new", 10, 100, 210},
                  {"new b.vm:9", 3, 30, 180},
                  {"old", 6, 60, 60}};
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_namesakes(&trace);
    struct ag_profile *profile = finish(&trace);
    struct ag_call_counts counts;
    for (size_t i = 0; i < COUNT(wanted); i++) {
        assert_int_equal(ag_profile_function_counts(profile, wanted[i].name, &counts), 0);
        assert_int_equal(counts.calls, wanted[i].calls);
        assert_int_equal(counts.own_words, wanted[i].own_words);
        assert_int_equal(counts.acc_words, wanted[i].acc_words);
        assert_int_equal(counts.acc_bytes, 8 * wanted[i].acc_words);
    }
    assert_int_equal(ag_profile_function_counts(profile, "nothing", &counts), -ENOENT);
    assert_null(ag_profile_close(profile));
}

static void functions_with_the_same_name_are_compared_in_line_order(void **state) {
    (void)state;
    struct trace_builder first, second;
    trace_begin(&first, 0);
    trace_namesakes(&first);
    struct ag_profile *before = finish(&first);
    trace_begin(&second, 0);
    trace_changed_namesakes(&second, /* lines= */ 30, /* words= */ 7);
    struct ag_profile *after = finish(&second);
    struct ag_call_difference *difference;
    assert_int_equal(ag_call_difference_new(before, after, &difference), 0);
    assert_int_equal(difference->n_rows, 6);
    for (size_t i = 0; i < difference->n_rows; i++) {
        const struct ag_call_difference_row *row = &difference->rows[i];
        assert_true(row->is_before && row->is_after);
        assert_int_equal(row->after.calls, row->before.calls);
        assert_int_equal(row->after.own_words, row->before.own_words + 7);
        assert_true(row->frame->line == 0 || row->frame->line > 30);
    }
    assert_int_equal(difference->before->total.own_words, 210);
    assert_int_equal(difference->after->total.own_words, 210 + 6 * 7);
    assert_null(ag_call_difference_free(difference));
    assert_null(ag_profile_close(before));
    assert_null(ag_profile_close(after));
}

static void a_function_in_only_one_trace_is_shown_as_new_or_gone(void **state) {
    (void)state;
    struct trace_builder first, second;
    trace_begin(&first, 0);
    struct ag_profile *nothing = finish(&first);
    trace_begin(&second, 0);
    trace_namesakes(&second);
    struct ag_profile *namesakes = finish(&second);
    for (int is_gone = 0; is_gone < 2; is_gone++) {
        struct ag_call_difference *difference;
        assert_int_equal(ag_call_difference_new(is_gone ? namesakes : nothing,
                                                is_gone ? nothing : namesakes, &difference),
                         0);
        assert_int_equal(difference->n_rows, 6);
        for (size_t i = 0; i < difference->n_rows; i++) {
            const struct ag_call_difference_row *row = &difference->rows[i];
            assert_int_equal(row->is_before, is_gone);
            assert_int_equal(row->is_after, !is_gone);
            assert_int_equal(row->before.calls + row->after.calls > 0, 1);
        }
        assert_null(ag_call_difference_free(difference));
    }
    assert_null(ag_profile_close(nothing));
    assert_null(ag_profile_close(namesakes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_with_the_same_name_are_distinguished_by_file_and_line),
        cmocka_unit_test(observed_functions_with_the_same_name_are_one_function),
        cmocka_unit_test(counts_by_name_contain_each_path_once),
        cmocka_unit_test(functions_with_the_same_name_are_compared_in_line_order),
        cmocka_unit_test(a_function_in_only_one_trace_is_shown_as_new_or_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
