/* test_call_edges.c: the counts (calls, words and time) of each pair of caller and callee. The test
 * compares them with the callers that are listed for each function, and with numbers computed by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "managed_trace.h"
#include "model/answers/functions.h"
#include "trace_builder.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct ag_profile *open_profile(const char *path) {
    const struct ag_profile_options options = {.size = sizeof(struct ag_profile_options),
                                               .thread = -1};
    struct ag_profile *profile = NULL;
    char message[512] = "";
    assert_int_equal(ag_profile_open(path, &options, &profile, message), 0);
    return profile;
}

static const struct ag_call_edge *edge_of(const struct ag_call_edge *edges, size_t n,
                                          uint32_t caller, uint32_t callee) {
    for (size_t i = 0; i < n; i++) {
        if (edges[i].caller == caller && edges[i].callee == callee) {
            return &edges[i];
        }
    }
    return NULL;
}

static void pairs_are_the_callers_of_every_function(void **state) {
    (void)state;
    const int fd = memfd_create("managed", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(ag_managed_trace_write(dup(fd)), 0);
    struct ag_profile *profile = open_profile(path);
    const struct ag_functions *functions;
    struct ag_call_edge *edges;
    size_t n_edges, n_asked = 0;
    assert_int_equal(ag_profile_functions(profile, &functions), 0);
    assert_int_equal(ag_profile_call_edges(profile, &edges, &n_edges), 0);
    for (uint32_t row = 0; row < functions->n_rows; row++) {
        const char *name = ag_profile_frame(profile, functions->rows[row].frame)->label;
        struct ag_caller_row *rows;
        size_t n;
        assert_int_equal(ag_profile_callers(profile, name, &rows, &n), 0);
        for (size_t i = 0; i < n; i++) {
            const struct ag_call_edge *edge = edge_of(edges, n_edges, rows[i].row, row);
            assert_non_null(edge);
            assert_int_equal(edge->calls, rows[i].calls);
            assert_int_equal(edge->own_words, rows[i].words);
            assert_int_equal(edge->own_ns, rows[i].ns);
        }
        n_asked += n;
        free(rows);
    }
    assert_true(n_asked >= 7);
    uint64_t words_of_all = 0;
    for (size_t i = 0; i < n_edges; i++) {
        words_of_all += edges[i].caller == UINT32_MAX ? edges[i].acc_words : 0;
        assert_true(i == 0 || edges[i - 1].callee <= edges[i].callee);
    }
    assert_int_equal(words_of_all, functions->total.acc_words);
    free(edges);
    assert_null(ag_profile_close(profile));
    close(fd);
}

/* f calls g, which calls f, which calls g, which calls itself. In each pair, the words and times of
 * inner calls count only once. The caller of a function that calls itself is the caller of its
 * outermost call. */
static void recursion_counts_once(void **state) {
    (void)state;
    static const struct ag_call_path paths[] = {
        {1, 1, 1, 0, 1, 1, 1, 10},      /* f */
        {1, 1, 2, 1, 2, 2, 20, 10},     /*   g */
        {1, 1, 3, 2, 1, 4, 300, 10},    /*     f */
        {1, 1, 4, 3, 2, 8, 4000, 10},   /*       g */
        {1, 1, 5, 4, 2, 16, 50000, 10}, /*         g */
    };
    enum { F = 0, G = 1 };
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_record(
        &trace,
        &(struct ag_record){
            .kind = AG_RECORD_FUNCTIONS,
            .u.functions = {.tree = 1, .snapshot = 1, .n_calls = COUNT(paths), .word_bytes = 8}});
    trace_calls(&trace, paths, COUNT(paths));
    trace_finish(&trace, 10, NULL);
    struct ag_profile *profile = open_profile(trace.path);
    struct ag_call_edge *edges;
    size_t n;
    assert_int_equal(ag_profile_call_edges(profile, &edges, &n), 0);
    const struct ag_call_edge expected[] = {{.caller = G,
                                             .callee = F,
                                             .calls = 4,
                                             .own_words = 300,
                                             .own_ns = 10,
                                             .acc_words = 54300,
                                             .acc_ns = 30},
                                            {.caller = UINT32_MAX,
                                             .callee = F,
                                             .calls = 1,
                                             .own_words = 1,
                                             .own_ns = 10,
                                             .acc_words = 54321,
                                             .acc_ns = 50},
                                            {.caller = F,
                                             .callee = G,
                                             .calls = 26,
                                             .own_words = 54020,
                                             .own_ns = 30,
                                             .acc_words = 54320,
                                             .acc_ns = 40}};
    assert_int_equal(n, COUNT(expected));
    for (size_t i = 0; i < n; i++) {
        assert_memory_equal(&edges[i], &expected[i], sizeof(edges[i]));
    }
    free(edges);
    assert_null(ag_profile_close(profile));
    trace_end(&trace);
}

static void a_trace_without_counters_has_no_edges(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_finish(&trace, 10, NULL);
    struct ag_profile *profile = open_profile(trace.path);
    struct ag_call_edge *edges;
    size_t n;
    assert_int_equal(ag_profile_call_edges(profile, &edges, &n), 0);
    assert_int_equal(n, 0);
    free(edges);
    assert_null(ag_profile_close(profile));
    trace_end(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_the_callers_of_every_function),
        cmocka_unit_test(recursion_counts_once),
        cmocka_unit_test(a_trace_without_counters_has_no_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
