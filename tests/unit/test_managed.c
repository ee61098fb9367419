/* test_managed.c: opens a trace with frames, function counters and collections of runtimes as a
 * profile, and compares the profile with the numbers in managed_trace.h. */
#include <errno.h>
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
#include "model/answers/blamed_lines.h"
#include "model/answers/collections.h"
#include "model/answers/functions.h"
#include "model/answers/places.h"
#include "model/process_merge.h"
#include "model/profile.h"
#include "trace_builder.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static char managed_path[64];

static int make_trace(void **state) {
    (void)state;
    const int fd = memfd_create("managed", MFD_CLOEXEC);
    snprintf(managed_path, sizeof(managed_path), "/proc/self/fd/%d", fd);
    return fd < 0 ? -1 : ag_managed_trace_write(dup(fd));
}

static struct ag_profile_options all(void) {
    return (struct ag_profile_options){.size = sizeof(struct ag_profile_options), .thread = -1};
}

static struct ag_profile *open_with(const char *path, const struct ag_profile_options *options) {
    struct ag_profile *profile = NULL;
    char message[512] = "";
    const int r = ag_profile_open(path, options, &profile, message);
    assert_string_equal(message, "");
    assert_int_equal(r, 0);
    return profile;
}

static struct ag_profile *open_managed(void) {
    const struct ag_profile_options options = all();
    return open_with(managed_path, &options);
}

/* ---- frames ---- */

static void assert_stack(struct ag_profile *profile, uint32_t stack, const char *expected) {
    const uint32_t *frames;
    const size_t n = ag_profile_stack_frames(profile, stack, &frames);
    char text[1024] = "";
    for (size_t i = 0; i < n; i++) {
        const struct ag_frame *frame = ag_profile_frame(profile, frames[i]);
        const size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s%s %s:%u (%s, %s)", i > 0 ? "; " : "",
                 frame->label, frame->file ? frame->file : "", frame->line, frame->runtime,
                 frame->image);
    }
    assert_string_equal(text, expected);
}

static void managed_frames_are_between_native_frames(void **state) {
    (void)state;
    struct ag_profile *profile = open_managed();
    assert_stack(profile, 19,
                 "0x2001 :0 (c, ); [lua] build script.lua:12 (lua, [lua]); "
                 "[lua] main chunk script.lua:3 (lua, [lua]); 0x1001 :0 (c, )");
    assert_stack(profile, 21,
                 "[lua] fib script.lua:21 (lua, [lua]); [lua] fib script.lua:20 (lua, [lua]); "
                 "[lua] main chunk script.lua:3 (lua, [lua]); 0x1001 :0 (c, )");
    assert_stack(profile, 23,
                 "[beam] lists:map/2 lists.erl:1594 (beam, [beam]); "
                 "[beam] app:loop/1 app.erl:8 (beam, [beam])");
    assert_null(ag_profile_close(profile));
}

static void a_frame_that_nothing_defines_has_its_number_for_a_name(void **state) {
    (void)state;
    struct ag_profile *profile = open_managed();
    const uint32_t *frames;
    assert_int_equal(ag_profile_stack_frames(profile, 25, &frames), 2);
    const struct ag_frame *frame = ag_profile_frame(profile, frames[0]);
    assert_string_equal(frame->function, "frame 99");
    assert_string_equal(frame->label, "[managed] frame 99");
    assert_false(frame->is_known);
    assert_null(ag_profile_close(profile));
}

static void the_same_name_in_two_runtimes_is_two_functions(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    static const char *const runtimes[] = {"lua", "beam", "c"};
    for (uint32_t i = 0; i < 3; i++) {
        const struct ag_record frame = {
            .kind = AG_RECORD_FRAME,
            .u.frame = {.frame = 1 + i,
                        .runtime = {runtimes[i], (uint32_t)strlen(runtimes[i])},
                        .function = {"main", 4}}};
        trace_record(&trace, &frame);
        const struct ag_node node = {
            .id = 100 + i, .pc = ag_managed_pc(1 + i, 5), .image = AG_IMAGE_MANAGED};
        trace_nodes(&trace, &node, 1);
    }
    TRACE_EVENTS(&trace, 0, STAMP(1), ALLOC(0x10, 1, 100), ALLOC(0x20, 20, 101),
                 ALLOC(0x30, 300, 102));
    trace_finish(&trace, 10, NULL);
    const struct ag_profile_options options = all();
    struct ag_profile *profile = open_with(trace.path, &options);
    const struct ag_site_row *rows;
    size_t n;
    assert_int_equal(ag_profile_sites(profile, AG_BY_FUNCTION, &rows, &n), 0);
    assert_int_equal(n, 3);
    uint64_t lua = 0, beam = 0, native = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ag_frame *frame = ag_profile_frame(profile, rows[i].frame);
        assert_string_equal(frame->function, "main");
        uint64_t *bytes = strcmp(frame->label, "[lua] main") == 0    ? &lua
                          : strcmp(frame->label, "[beam] main") == 0 ? &beam
                                                                     : &native;
        *bytes = rows[i].own.allocated_bytes;
    }
    assert_int_equal(lua, 1);
    assert_int_equal(beam, 20);
    assert_int_equal(native, 300);
    assert_null(ag_profile_close(profile));
    trace_end(&trace);
}

static void a_later_record_of_the_runtime_has_its_counts(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    struct ag_record runtime = {
        .kind = AG_RECORD_RUNTIME,
        .u.runtime = {.hooked = 1, .name = {"lua", 3}, .version = {"5.4.4", 5}}};
    trace_record(&trace, &runtime);
    runtime.u.runtime.reported = 999;
    runtime.u.runtime.counted = 1000;
    trace_record(&trace, &runtime);
    trace_finish(&trace, 10, NULL);
    const struct ag_profile_options options = all();
    struct ag_profile *profile = open_with(trace.path, &options);
    const struct ag_profile_runtime *runtimes;
    assert_int_equal(ag_profile_runtimes(profile, &runtimes), 1);
    assert_true(runtimes[0].hooked);
    assert_int_equal(runtimes[0].recorded, 999);
    assert_int_equal(runtimes[0].counted, 1000);
    assert_null(ag_profile_close(profile));
    trace_end(&trace);
}

static void managed_frames_have_no_address(void **state) {
    (void)state;
    struct ag_profile *profile = open_managed();
    const struct ag_stack_row *rows;
    const size_t n_rows = ag_profile_stacks(profile, &rows);
    static uint32_t places[AG_PLACES_MOST];
    size_t n_managed = 0;
    for (uint32_t row = 0; row < n_rows; row++) {
        const size_t n = ag_profile_stack_places(profile, row, places);
        for (size_t i = 0; i < n; i++) {
            const struct ag_place place = ag_profile_place(profile, places[i]);
            const struct ag_frame *frame = ag_profile_frame(profile, place.frames[0]);
            assert_int_equal(place.n_frames, 1);
            assert_int_equal(place.address == 0, ag_frame_is_managed(frame));
            assert_int_equal(place.image, AG_NO_IMAGE);
            n_managed += place.address == 0;
        }
    }
    assert_int_equal(n_managed, 9);
    assert_null(ag_profile_close(profile));
}

static void frames_keep_their_runtime_in_a_merged_profile(void **state) {
    (void)state;
    struct ag_profile *parts[] = {open_managed(), open_managed()};
    struct ag_profile *merged;
    assert_int_equal(ag_profile_merge(parts, 2, &merged), 0);
    const struct ag_site_row *rows;
    size_t n, n_fib = 0;
    assert_int_equal(ag_profile_sites(merged, AG_BY_FUNCTION, &rows, &n), 0);
    for (size_t i = 0; i < n; i++) {
        const struct ag_frame *frame = ag_profile_frame(merged, rows[i].frame);
        if (strcmp(frame->label, "[lua] fib") == 0) {
            assert_string_equal(frame->runtime, "lua");
            assert_int_equal(rows[i].own.allocated_bytes, 400);
            n_fib++;
        }
    }
    assert_int_equal(n_fib, 1);
    assert_null(ag_profile_close(merged));
}

/* ---- --runtime and --focus ---- */

static uint64_t bytes_with(const char *runtime, const char *focus) {
    struct ag_profile_options options = all();
    options.runtime = runtime;
    options.focus = focus;
    struct ag_profile *profile = open_with(managed_path, &options);
    const uint64_t bytes = ag_profile_summary(profile)->allocated_bytes;
    assert_null(ag_profile_close(profile));
    return bytes;
}

static void a_runtime_has_the_stacks_with_its_frames_and_its_heaps(void **state) {
    (void)state;
    assert_int_equal(bytes_with("lua", NULL), 100 + 200);
    assert_int_equal(bytes_with("beam", NULL), 50 + 8);
    assert_int_equal(bytes_with("c", NULL), 1000);
    assert_int_equal(bytes_with("libc", NULL), 100 + 50 + 1000 + 8); /* selected by the runtime of
                                                                      * their heap */
    assert_int_equal(bytes_with("lua", "^fib$"), 200);
    assert_int_equal(bytes_with(NULL, "^\\[lua\\] (fib|build)$"), 300);
    assert_int_equal(bytes_with("beam", "fib"), 0);
}

static void the_message_about_an_unknown_runtime_names_the_known_ones(void **state) {
    (void)state;
    static const char *const unknown[] = {"lau", "", "managed", "Lua"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        struct ag_profile_options options = all();
        options.runtime = unknown[i];
        struct ag_profile *profile;
        char message[512] = "", expected[512];
        assert_int_equal(ag_profile_open(managed_path, &options, &profile, message), -EINVAL);
        snprintf(expected, sizeof(expected),
                 "%s: --runtime=%s: the trace has no such runtime; it has: c, libc, lua, beam",
                 managed_path, unknown[i]);
        assert_string_equal(message, expected);
    }
}

/* ---- function counters ---- */

static const struct ag_functions *functions_of(struct ag_profile *profile) {
    const struct ag_functions *functions;
    assert_int_equal(ag_profile_functions(profile, &functions), 0);
    return functions;
}

static const struct ag_function_row *function(struct ag_profile *profile, const char *name) {
    const struct ag_functions *functions = functions_of(profile);
    for (size_t i = 0; i < functions->n_rows; i++) {
        if (strcmp(ag_profile_frame(profile, functions->rows[i].frame)->function, name) == 0) {
            return &functions->rows[i];
        }
    }
    return NULL;
}

static void assert_counts(const struct ag_call_counts *counts, uint64_t calls, uint64_t own_words,
                          uint64_t own_ns, uint64_t acc_words, uint64_t acc_ns) {
    assert_int_equal(counts->calls, calls);
    assert_int_equal(counts->own_words, own_words);
    assert_int_equal(counts->own_bytes, 8 * own_words);
    assert_int_equal(counts->own_ns, own_ns);
    assert_int_equal(counts->acc_words, acc_words);
    assert_int_equal(counts->acc_bytes, 8 * acc_words);
    assert_int_equal(counts->acc_ns, acc_ns);
}

static void assert_apart(const struct ag_apart *apart, uint64_t count, uint64_t words) {
    assert_int_equal(apart->count, count);
    assert_int_equal(apart->words, words);
    assert_int_equal(apart->bytes, 8 * words);
}

static void functions_of_all_trees_are_added_up(void **state) {
    (void)state;
    struct ag_profile *profile = open_managed();
    const struct ag_functions *functions = functions_of(profile);
    assert_int_equal(functions->n_rows, 6);
    assert_counts(&function(profile, "erlang:setelement/3")->counts, 125, 1500, 1250, 1500, 1250);
    assert_counts(&function(profile, "build")->counts, 7, 430, 2300, 430, 2300);
    assert_counts(&function(profile, "fib")->counts, 8, 80, 2000, 110, 2300); /* a recursion counts
                                                                               * once */
    assert_counts(&function(profile, "app:loop/1")->counts, 5, 50, 5000, 1258, 6100);
    assert_counts(&function(profile, "lists:map/2")->counts, 3, 10, 150, 310, 400);
    assert_counts(&function(profile, "main chunk")->counts, 1, 10, 1000, 520, 5300);
    assert_counts(&functions->total, 149, 2080, 11700, 2080, 11700);
    assert_apart(&functions->messages, 4, 38);
    assert_apart(&functions->spawn_arguments, 2, 12);
    assert_true(functions->spawn_arguments.is_unknown && !functions->messages.is_unknown);
    assert_apart(&functions->profiler, 9, 90);
    assert_int_equal(functions->n_trees, 3);
    assert_int_equal(functions->n_partial_trees, 0);
    assert_null(ag_profile_close(profile));
}

/* Each process is a row above its call paths, with the sums of these paths. */
static void functions_are_grouped_by_process_and_by_initial_call(void **state) {
    (void)state;
    struct ag_profile_options options = all();
    options.call_group = AG_CALLS_BY_PROCESS;
    struct ag_profile *profile = open_with(managed_path, &options);
    assert_int_equal(functions_of(profile)->n_rows, 6 + 3);
    assert_counts(&function(profile, "<0.80.0>")->counts, 107, 1258, 6100, 1258, 6100);
    assert_counts(&function(profile, "server")->counts, 26, 302, 300, 302, 300);
    assert_counts(&function(profile, "thread 100")->counts, 16, 520, 5300, 520, 5300);
    assert_counts(&function(profile, "lists:map/2")->counts, 3, 10, 150, 310, 400);
    assert_counts(&functions_of(profile)->total, 149, 2080, 11700, 2080, 11700);
    const struct ag_function_node *nodes = functions_of(profile)->nodes;
    for (uint32_t i = nodes[0].first_child; i != UINT32_MAX; i = nodes[i].next_sibling) {
        assert_true(functions_of(profile)->rows[nodes[i].row].is_group);
        assert_int_equal(nodes[i].counts.own_words, 0);
    }
    assert_null(ag_profile_close(profile));
    options.call_group = AG_CALLS_BY_INITIAL_CALL;
    options.runtime = "beam";
    profile = open_with(managed_path, &options);
    assert_counts(&function(profile, "app:start/0")->counts, 107, 1258, 6100, 1258, 6100);
    assert_counts(&function(profile, "(unknown initial call)")->counts, 26, 302, 300, 302, 300);
    assert_null(ag_profile_close(profile));
    options.focus = "^erlang:setelement";
    struct ag_profile *parts[] = {open_with(managed_path, &options),
                                  open_with(managed_path, &options)};
    struct ag_profile *merged;
    assert_int_equal(ag_profile_merge(parts, 2, &merged), 0);
    assert_counts(&function(merged, "app:start/0")->counts, 200, 2400, 2000, 2400, 2000);
    assert_int_equal(function(merged, "app:start/0")->n_trees, 2);
    assert_null(ag_profile_close(merged));
}

static void assert_caller(struct ag_profile *profile, const char *name, const char *caller,
                          uint64_t calls, uint64_t words) {
    struct ag_caller_row *rows;
    size_t n, found = 0;
    assert_int_equal(ag_profile_callers(profile, name, &rows, &n), 0);
    for (size_t i = 0; i < n; i++) {
        const struct ag_functions *functions = functions_of(profile);
        const char *other =
            rows[i].row == UINT32_MAX
                ? "nothing"
                : ag_profile_frame(profile, functions->rows[rows[i].row].frame)->label;
        if (strcmp(other, caller) == 0) {
            assert_int_equal(rows[i].calls, calls);
            assert_int_equal(rows[i].words, words);
            assert_int_equal(rows[i].bytes, 8 * words);
            found++;
        }
    }
    assert_int_equal(found, 1);
    free(rows);
}

static void callers_have_their_shares_of_a_function(void **state) {
    (void)state;
    struct ag_profile *profile = open_managed();
    assert_caller(profile, "erlang:setelement/3", "[beam] app:loop/1", 100, 1200);
    assert_caller(profile, "[beam] erlang:setelement/3", "[beam] lists:map/2", 25, 300);
    assert_caller(profile, "build", "[lua] main chunk", 4, 400);
    assert_caller(profile, "build", "[lua] fib", 3, 30);
    assert_caller(profile, "fib", "[lua] main chunk", 8, 80); /* not fib itself */
    assert_caller(profile, "lists:map/2", "nothing", 1, 2);
    assert_caller(profile, "lists:map/2", "[beam] app:loop/1", 2, 8);
    struct ag_caller_row *rows;
    size_t n;
    assert_int_equal(ag_profile_callers(profile, "lists:map", &rows, &n), -ENOENT);
    assert_null(ag_profile_close(profile));
}

static uint64_t words_with(const struct ag_profile_options *options) {
    struct ag_profile *profile = open_with(managed_path, options);
    const uint64_t words = functions_of(profile)->total.own_words;
    assert_null(ag_profile_close(profile));
    return words;
}

static void functions_are_narrowed_by_thread_runtime_and_path(void **state) {
    (void)state;
    struct ag_profile_options options = all();
    options.thread = 100;
    assert_int_equal(words_with(&options), 520);
    options = all();
    options.runtime = "beam";
    assert_int_equal(words_with(&options), 1560);
    options = all();
    options.focus = "^lists:map/2$"; /* selects the paths through this function, without the counts
                                      * of its callers */
    assert_int_equal(words_with(&options), 8 + 2 + 300);
    options.ignore = "setelement";
    assert_int_equal(words_with(&options), 8 + 2);
    options = all();
    options.ignore = "^\\[lua\\] fib$";
    assert_int_equal(words_with(&options), 2080 - 110);
}

static void processes_are_added_up_in_a_merged_profile(void **state) {
    (void)state;
    struct ag_profile *parts[] = {open_managed(), open_managed()};
    struct ag_profile *merged;
    assert_int_equal(ag_profile_merge(parts, 2, &merged), 0);
    assert_int_equal(functions_of(merged)->n_rows, 6);
    assert_int_equal(functions_of(merged)->n_trees, 6);
    assert_counts(&function(merged, "fib")->counts, 16, 160, 4000, 220, 4600);
    assert_caller(merged, "build", "[lua] fib", 6, 60);
    assert_null(ag_profile_close(merged));
}

static void trace_functions(struct trace_builder *trace, uint32_t tree, uint32_t snapshot,
                            uint32_t epoch, uint32_t n_calls) {
    const struct ag_record record = {.kind = AG_RECORD_FUNCTIONS,
                                     .u.functions = {.tree = tree,
                                                     .snapshot = snapshot,
                                                     .epoch = epoch,
                                                     .n_calls = n_calls,
                                                     .word_bytes = 4,
                                                     .messages = 1}};
    trace_record(trace, &record);
}

static struct ag_profile *finish(struct trace_builder *trace) {
    const struct ag_profile_options options = all();
    trace_finish(trace, 10, NULL);
    struct ag_profile *profile = open_with(trace->path, &options);
    trace_end(trace);
    return profile;
}

static void rows_of_an_incomplete_tree_count(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_functions(&trace, 7, 1, 0, 3);
    trace_calls(&trace, &(struct ag_call_path){7, 1, 1, 0, 1, 10, 100, 0}, 1);
    trace_functions(&trace, 7, 2, 0, 3);
    trace_calls(&trace, &(struct ag_call_path){7, 2, 1, 0, 1, 20, 200, 0}, 1);
    struct ag_profile *profile = finish(&trace);
    const struct ag_functions *functions = functions_of(profile);
    assert_int_equal(functions->total.own_words, 200);
    assert_int_equal(functions->total.own_bytes, 800); /* 4 bytes a word */
    assert_int_equal(functions->n_partial_trees, 1);
    assert_int_equal(functions->messages.count, 1);
    assert_string_equal(ag_profile_frame(profile, functions->rows[0].frame)->function, "frame 1");
    assert_null(ag_profile_close(profile));
}

static void counts_before_a_reset_are_left_out(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_functions(&trace, 1, 1, 0, 1);
    trace_calls(&trace, &(struct ag_call_path){1, 1, 1, 0, 1, 10, 100, 0}, 1);
    trace_functions(&trace, 2, 1, 0, 1); /* ended before the reset */
    trace_calls(&trace, &(struct ag_call_path){2, 1, 1, 0, 1, 10, 1000, 0}, 1);
    trace_functions(&trace, 1, 2, 1, 2); /* the process was killed before it had written both
                                          * paths */
    trace_calls(&trace, &(struct ag_call_path){1, 2, 1, 0, 1, 3, 30, 0}, 1);
    struct ag_profile *profile = finish(&trace);
    assert_int_equal(functions_of(profile)->total.own_words, 30);
    assert_int_equal(functions_of(profile)->n_trees, 1);
    assert_int_equal(functions_of(profile)->n_partial_trees, 1);
    assert_null(ag_profile_close(profile));
}

/* If the parent of a node comes later, does not exist or is the node itself, the node is treated as
 * a root. */
static void hostile_parents_are_the_root(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    const struct ag_call_path paths[] = {
        {1, 1, 5, 5, 1, 1, 1, 0},     {1, 1, 6, 7, 2, 1, 10, 0},
        {1, 1, 7, 6, 3, 1, 100, 0},   {1, 1, 7, 99, 4, 1, 1000, 0},
        {1, 1, 8, 7, 4, 1, 10000, 0}, {1, 1, 9, 8, 4, 1, 77, 0}}; /* one path more than n_calls */
    trace_functions(&trace, 1, 1, 0, 5);
    trace_calls(&trace, paths, COUNT(paths));
    struct ag_profile *profile = finish(&trace);
    assert_int_equal(functions_of(profile)->total.own_words, 11111);
    assert_int_equal(function(profile, "frame 1")->counts.acc_words, 1);
    assert_int_equal(function(profile, "frame 2")->counts.acc_words, 10110);
    assert_int_equal(function(profile, "frame 3")->counts.acc_words, 10100);
    assert_int_equal(function(profile, "frame 4")->counts.acc_words, 11000);
    assert_null(ag_profile_close(profile));
}

static void a_trace_without_counters_has_no_tree(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    struct ag_profile *profile = finish(&trace);
    assert_int_equal(functions_of(profile)->n_trees, 0);
    assert_int_equal(functions_of(profile)->n_rows, 0);
    assert_null(ag_profile_close(profile));
}

/* Compares random trees with the definition of accumulated words: the words of a path count once
 * for each function on the path. */
static void accumulated_counts_follow_their_definition(void **state) {
    (void)state;
    enum { TREES = 4, PATHS = 700, FUNCTIONS = 9 };
    struct trace_builder trace;
    uint64_t random = 20261121, own[FUNCTIONS + 1] = {0}, acc[FUNCTIONS + 1] = {0};
    static struct ag_call_path paths[PATHS];
    trace_begin(&trace, 0);
    for (uint32_t tree = 1; tree <= TREES; tree++) {
        for (uint32_t i = 0; i < PATHS; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uint32_t parent = i > 0 ? (uint32_t)(random >> 33) % (i + 1) : 0;
            paths[i] = (struct ag_call_path){
                .tree = tree,
                .snapshot = 1,
                .node = tree % 2 == 0 ? i + 1 : 90000 - i, /* rising or falling numbers */
                .parent = parent == 0 ? 0 : paths[parent - 1].node,
                .frame = 1 + (uint32_t)(random >> 20) % FUNCTIONS,
                .calls = 1,
                .own_words = (random >> 40) % 1000};
            bool is_on_path[FUNCTIONS + 1] = {false};
            own[paths[i].frame] += paths[i].own_words;
            for (uint32_t at = i + 1; at != 0;) {
                is_on_path[paths[at - 1].frame] = true;
                const uint32_t up = paths[at - 1].parent;
                at = up == 0 ? 0 : tree % 2 == 0 ? up : 90001 - up;
            }
            for (uint32_t f = 1; f <= FUNCTIONS; f++) {
                acc[f] += is_on_path[f] ? paths[i].own_words : 0;
            }
        }
        trace_functions(&trace, tree, 1, 0, PATHS);
        trace_calls(&trace, paths, PATHS);
    }
    struct ag_profile *profile = finish(&trace);
    for (uint32_t f = 1; f <= FUNCTIONS; f++) {
        char name[16];
        snprintf(name, sizeof(name), "frame %u", f);
        const struct ag_function_row *row = function(profile, name);
        assert_non_null(row);
        assert_int_equal(row->counts.own_words, own[f]);
        assert_int_equal(row->counts.acc_words, acc[f]);
        assert_int_equal(row->counts.acc_bytes, 4 * acc[f]);
    }
    assert_int_equal(functions_of(profile)->total.calls, TREES * PATHS);
    assert_null(ag_profile_close(profile));
}

/* ---- collections ---- */

static const struct ag_collections *collections_of(struct ag_profile *profile) {
    const struct ag_collections *collections;
    assert_int_equal(ag_profile_collections(profile, &collections), 0);
    return collections;
}

static void assert_collection(struct ag_profile *profile, size_t at, const char *expected) {
    const struct ag_collection_row *row = &collections_of(profile)->rows[at];
    char text[512];
    snprintf(text, sizeof(text), "%s %s %s %llu %llu %llu %llu %llu known %u %s", row->runtime,
             row->kind, row->process ? row->process : "-", (unsigned long long)row->start_ns,
             (unsigned long long)row->pause_ns, (unsigned long long)row->heap_before_bytes,
             (unsigned long long)row->heap_after_bytes, (unsigned long long)row->needed_bytes,
             row->known,
             row->cause_frame == UINT32_MAX ? "nobody"
                                            : ag_profile_frame(profile, row->cause_frame)->label);
    assert_string_equal(text, expected);
}

static void assert_sum(const struct ag_collection_sum *sum, uint64_t collections, uint64_t unended,
                       uint64_t pause_total_us, uint64_t pause_max_us, uint64_t needed_bytes,
                       uint64_t reclaimed_bytes) {
    assert_int_equal(sum->collections, collections);
    assert_int_equal(sum->unended, unended);
    assert_int_equal(sum->pause_total_ns, 1000 * pause_total_us);
    assert_int_equal(sum->pause_max_ns, 1000 * pause_max_us);
    assert_int_equal(sum->needed_bytes, needed_bytes);
    assert_int_equal(sum->reclaimed_bytes, reclaimed_bytes);
}

static const struct ag_collection_sum *cause(struct ag_profile *profile, const char *label) {
    const struct ag_collections *collections = collections_of(profile);
    for (size_t i = 0; i < collections->n_causes; i++) {
        const uint32_t frame = collections->causes[i].cause_frame;
        const char *found =
            frame == UINT32_MAX ? "nobody" : ag_profile_frame(profile, frame)->label;
        if (strcmp(found, label) == 0) {
            return &collections->causes[i];
        }
    }
    fail_msg("%s caused nothing", label);
    return NULL;
}

static void collections_come_in_order_with_their_cause(void **state) {
    (void)state;
    struct ag_profile *profile = open_managed();
    assert_int_equal(collections_of(profile)->n_rows, 5);
    assert_collection(profile, 0, "lua full - 200000 100000 1000000 400000 0 known 3 [lua] build");
    assert_collection(
        profile, 1,
        "beam minor <0.80.0> 500000 50000 200000 100000 8000 known 7 [beam] lists:map/2");
    assert_collection(
        profile, 2,
        "beam major <0.80.0> 700000 250000 300000 50000 64000 known 7 [beam] lists:map/2");
    assert_collection(profile, 3, "beam minor server 900000 0 0 0 16000 known 4 [beam] app:loop/1");
    assert_collection(profile, 4, "beam minor - 950000 10000 0 0 0 known 1 nobody");
    assert_null(ag_profile_close(profile));
}

static void collections_are_summed_by_runtime_by_cause_and_by_process(void **state) {
    (void)state;
    struct ag_profile *profile = open_managed();
    const struct ag_collections *collections = collections_of(profile);
    assert_int_equal(collections->n_runtimes, 2);
    assert_sum(&collections->runtimes[0], 1, 0, 100, 100, 0, 600000);
    assert_sum(&collections->runtimes[1], 4, 1, 310, 250, 88000, 350000);
    assert_int_equal(collections->n_causes, 4);
    assert_sum(cause(profile, "[lua] build"), 1, 0, 100, 100, 0, 600000);
    assert_sum(cause(profile, "[beam] lists:map/2"), 2, 0, 300, 250, 72000, 350000);
    assert_sum(cause(profile, "[beam] app:loop/1"), 1, 1, 0, 0, 16000, 0);
    assert_sum(cause(profile, "nobody"), 1, 0, 10, 10, 0, 0);
    assert_int_equal(collections->n_processes, 2); /* two collections name no process */
    assert_string_equal(collections->processes[0].process, "<0.80.0>");
    assert_sum(&collections->processes[0], 2, 0, 300, 250, 72000, 350000);
    assert_string_equal(ag_profile_frame(profile, collections->processes[0].cause_frame)->function,
                        "lists:map/2");
    assert_string_equal(collections->processes[1].process, "server");
    assert_sum(&collections->processes[1], 1, 1, 0, 0, 16000, 0);
    assert_null(ag_profile_close(profile));
}

static size_t collections_with(const struct ag_profile_options *options) {
    struct ag_profile *profile = open_with(managed_path, options);
    const size_t n = collections_of(profile)->n_rows;
    assert_null(ag_profile_close(profile));
    return n;
}

static void collections_are_narrowed_by_time_thread_runtime_and_stack(void **state) {
    (void)state;
    struct ag_profile_options options = all();
    options.from_ns = 500000;
    options.to_ns = 900000; /* without the collection that begins at that time */
    assert_int_equal(collections_with(&options), 2);
    options = all();
    options.thread = 100;
    assert_int_equal(collections_with(&options), 5);
    options = all();
    options.runtime = "lua";
    assert_int_equal(collections_with(&options), 1);
    options = all();
    options.focus = "app:loop";
    assert_int_equal(collections_with(&options), 3);
    options.ignore = "lists:map";
    assert_int_equal(collections_with(&options), 1);
}

static void collections_of_merged_processes_share_one_row(void **state) {
    (void)state;
    struct ag_profile *parts[] = {open_managed(), open_managed()};
    struct ag_profile *merged;
    assert_int_equal(ag_profile_merge(parts, 2, &merged), 0);
    assert_int_equal(collections_of(merged)->n_rows, 10);
    assert_int_equal(collections_of(merged)->n_runtimes, 2);
    assert_sum(cause(merged, "[beam] lists:map/2"), 4, 0, 600, 250, 144000, 700000);
    for (size_t i = 1; i < 10; i++) {
        const struct ag_collection_row *rows = collections_of(merged)->rows;
        assert_true(rows[i - 1].start_ns <= rows[i].start_ns);
    }
    assert_null(ag_profile_close(merged));
}

/* Stack 19 ends in native code that build called; stack 24 has no managed frame (no frame of a
 * runtime's function). */
static void managed_code_is_blamed_before_native(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    struct ag_blob blob = {0};
    ag_managed_trace_records(&blob);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
    assert_int_equal(ag_trace_writer_records(trace.writer, &info, &blob), 0);
    ag_blob_done(&blob);
    for (uint32_t stack = 19; stack <= 24; stack += 5) {
        const struct ag_record record = {.kind = AG_RECORD_GC,
                                         .u.gc = {.stack = stack, .start_ns = stack}};
        trace_record(&trace, &record);
    }
    struct ag_profile *profile = finish(&trace);
    assert_collection(profile, 0, "  - 19 0 0 0 0 known 0 [lua] build");
    assert_collection(profile, 1, "  - 24 0 0 0 0 known 0 0x3001");
    assert_null(ag_profile_close(profile));
}

static uint64_t own_bytes(struct ag_profile *profile, const char *label) {
    const struct ag_site_row *rows;
    size_t n;
    uint64_t bytes = 0;
    assert_int_equal(ag_profile_sites(profile, AG_BY_FUNCTION, &rows, &n), 0);
    for (size_t i = 0; i < n; i++) {
        const bool is_named = strcmp(ag_profile_frame(profile, rows[i].frame)->label, label) == 0;
        bytes += is_named ? rows[i].own.allocated_bytes : 0;
    }
    return bytes;
}

/* At stack 19, native code that build called allocated 100 bytes. In the folded stack, build
 * allocates them, even if the sums of the whole stacks were queried before. */
static void folding_changes_sums_that_were_known_before(void **state) {
    (void)state;
    bool is_folded = false;
    struct ag_profile *profile = open_managed();
    assert_int_equal(own_bytes(profile, "[lua] build"), 0);
    assert_int_equal(ag_profile_fold(profile, &is_folded), 0);
    assert_int_equal(own_bytes(profile, "[lua] build"), 100);
    assert_null(ag_profile_close(profile));
}

static void a_collection_after_which_the_heap_is_larger_reclaimed_nothing(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    const struct ag_record record = {
        .kind = AG_RECORD_GC,
        .u.gc = {.known = AG_GC_KNOWN_HEAP | 1024, /* with a bit that only a later version may
                                                    * define */
                 .stack = 4711,
                 .heap_before_bytes = 10,
                 .heap_after_bytes = 30}};
    trace_record(&trace, &record);
    struct ag_profile *profile = finish(&trace);
    assert_collection(profile, 0, "  - 0 0 10 30 0 known 1026 nobody");
    assert_sum(&collections_of(profile)->runtimes[0], 1, 1, 0, 0, 0, 0);
    assert_null(ag_profile_close(profile));
}

static struct ag_bytes bytes_of(const char *text) {
    return (struct ag_bytes){.data = text, .length = (uint32_t)strlen(text)};
}

static void collect(struct trace_builder *trace, const char *kind, struct ag_gc_record gc) {
    gc.known |= AG_GC_KNOWN_END | AG_GC_KNOWN_HEAP;
    gc.runtime = bytes_of("wl");
    gc.kind = bytes_of(kind);
    trace_record(trace, &(struct ag_record){.kind = AG_RECORD_GC, .u.gc = gc});
}

/* A slice (a step of an incremental collection) collects the young generation first: 100 bytes, of
 * which 30 live and are promoted. The slice itself, whose heap grows by 30 and shrinks by 50,
 * contains a whole cycle that frees 40 of these 50. Another thread collects at the same time. */
static void what_nested_collections_reclaimed_counts_once_and_without_promoted_bytes(void **state) {
    (void)state;
    enum { YOUNG = AG_GC_KNOWN_PROMOTED };
    struct trace_builder trace;
    trace_begin(&trace, 0);
    collect(&trace, "slice",
            (struct ag_gc_record){.thread_id = 1,
                                  .start_ns = 10000,
                                  .pause_ns = 10000,
                                  .heap_before_bytes = 500,
                                  .heap_after_bytes = 480});
    collect(&trace, "minor",
            (struct ag_gc_record){.thread_id = 1,
                                  .known = YOUNG,
                                  .start_ns = 11000,
                                  .pause_ns = 1000,
                                  .heap_before_bytes = 100,
                                  .promoted_bytes = 30});
    collect(&trace, "major",
            (struct ag_gc_record){.thread_id = 1,
                                  .start_ns = 13000,
                                  .pause_ns = 7000,
                                  .heap_before_bytes = 530,
                                  .heap_after_bytes = 490});
    collect(&trace, "minor",
            (struct ag_gc_record){.thread_id = 2,
                                  .known = YOUNG,
                                  .start_ns = 14000,
                                  .pause_ns = 2000,
                                  .heap_before_bytes = 60,
                                  .heap_after_bytes = 10,
                                  .promoted_bytes = 20});
    struct ag_profile *profile = finish(&trace);
    const uint64_t of_slice = 50, of_minor = 70, of_other_thread = 30;
    assert_sum(&collections_of(profile)->runtimes[0], 4, 0, 12, 10, 0,
               of_slice + of_minor + of_other_thread);
    assert_null(ag_profile_close(profile));
}

/* ---- threads ---- */

/* One thread ran a collection, one freed a block, one counted calls, one has only a name. */
static void a_thread_is_known_by_any_of_its_records(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_thread(&trace, 1, "sleeper");
    TRACE_EVENTS(&trace, 2, STAMP(5), FREE(0x1000));
    const struct ag_record collection = {.kind = AG_RECORD_GC, .u.gc = {.thread_id = 103}},
                           calls = {.kind = AG_RECORD_FUNCTIONS, .u.functions = {.thread_id = 104}};
    trace_record(&trace, &collection);
    trace_record(&trace, &calls);
    trace_finish(&trace, 10, NULL);
    struct ag_profile_options options = all();
    for (options.thread = 101; options.thread <= 104; options.thread++) {
        struct ag_profile *profile = open_with(trace.path, &options);
        assert_int_equal(collections_of(profile)->n_rows, options.thread == 103);
        assert_null(ag_profile_close(profile));
    }
    struct ag_profile *profile;
    char message[512] = "", expected[512];
    assert_int_equal(ag_profile_open(trace.path, &options, &profile, message), -ESRCH);
    snprintf(expected, sizeof expected,
             "%s: --thread=105: no such thread; the trace has 101 (sleeper)", trace.path);
    assert_string_equal(message, expected);
    trace_end(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_known_by_any_of_its_records),
        cmocka_unit_test(managed_frames_are_between_native_frames),
        cmocka_unit_test(a_frame_that_nothing_defines_has_its_number_for_a_name),
        cmocka_unit_test(the_same_name_in_two_runtimes_is_two_functions),
        cmocka_unit_test(a_later_record_of_the_runtime_has_its_counts),
        cmocka_unit_test(managed_frames_have_no_address),
        cmocka_unit_test(frames_keep_their_runtime_in_a_merged_profile),
        cmocka_unit_test(a_runtime_has_the_stacks_with_its_frames_and_its_heaps),
        cmocka_unit_test(the_message_about_an_unknown_runtime_names_the_known_ones),
        cmocka_unit_test(functions_of_all_trees_are_added_up),
        cmocka_unit_test(functions_are_grouped_by_process_and_by_initial_call),
        cmocka_unit_test(callers_have_their_shares_of_a_function),
        cmocka_unit_test(functions_are_narrowed_by_thread_runtime_and_path),
        cmocka_unit_test(processes_are_added_up_in_a_merged_profile),
        cmocka_unit_test(rows_of_an_incomplete_tree_count),
        cmocka_unit_test(counts_before_a_reset_are_left_out),
        cmocka_unit_test(hostile_parents_are_the_root),
        cmocka_unit_test(a_trace_without_counters_has_no_tree),
        cmocka_unit_test(accumulated_counts_follow_their_definition),
        cmocka_unit_test(collections_come_in_order_with_their_cause),
        cmocka_unit_test(collections_are_summed_by_runtime_by_cause_and_by_process),
        cmocka_unit_test(collections_are_narrowed_by_time_thread_runtime_and_stack),
        cmocka_unit_test(collections_of_merged_processes_share_one_row),
        cmocka_unit_test(managed_code_is_blamed_before_native),
        cmocka_unit_test(folding_changes_sums_that_were_known_before),
        cmocka_unit_test(a_collection_after_which_the_heap_is_larger_reclaimed_nothing),
        cmocka_unit_test(what_nested_collections_reclaimed_counts_once_and_without_promoted_bytes),
    };
    return cmocka_run_group_tests(tests, make_trace, NULL);
}
