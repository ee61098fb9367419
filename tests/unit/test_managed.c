/* test_managed.c: what runtimes tell of themselves, read as profiles, against the hand-counted
 * truth of managed_trace.h. */
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
#include "model/places.h"
#include "model/process_merge.h"
#include "model/profile.h"
#include "trace_builder.h"

static char managed_path[64];

static int make_trace(void **state) {
    (void)state;
    const int fd = memfd_create("managed", MFD_CLOEXEC);
    snprintf(managed_path, sizeof(managed_path), "/proc/self/fd/%d", fd);
    return fd < 0 ? -1 : ag_managed_trace_write(dup(fd));
}

static struct ag_profile_options all(void) {
    return (struct ag_profile_options){.size = sizeof(struct ag_profile_options),
                                       .thread = -1,
                                       .symbol = {.size = sizeof(struct ag_symbol_options)}};
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

static void managed_frames_stand_between_native_ones(void **state) {
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

static void one_name_in_two_runtimes_is_two_functions(void **state) {
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
    assert_int_equal(bytes_with("libc", NULL), 100 + 50 + 1000 + 8); /* by their heap */
    assert_int_equal(bytes_with("lua", "^fib$"), 200);
    assert_int_equal(bytes_with(NULL, "^\\[lua\\] (fib|build)$"), 300);
    assert_int_equal(bytes_with("beam", "fib"), 0);
}

static void an_unknown_runtime_is_refused_with_those_there_are(void **state) {
    (void)state;
    static const char *const unknown[] = {"lau", "", "managed", "Lua"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        struct ag_profile_options options = all();
        options.runtime = unknown[i];
        struct ag_profile *profile;
        char message[512] = "", expected[512];
        assert_int_equal(ag_profile_open(managed_path, &options, &profile, message), -EINVAL);
        snprintf(expected, sizeof(expected),
                 "%s: --runtime=%s: no such runtime; it has c libc lua beam", managed_path,
                 unknown[i]);
        assert_string_equal(message, expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(managed_frames_stand_between_native_ones),
        cmocka_unit_test(a_frame_that_nothing_defines_has_its_number_for_a_name),
        cmocka_unit_test(one_name_in_two_runtimes_is_two_functions),
        cmocka_unit_test(managed_frames_have_no_address),
        cmocka_unit_test(frames_keep_their_runtime_in_a_merged_profile),
        cmocka_unit_test(a_runtime_has_the_stacks_with_its_frames_and_its_heaps),
        cmocka_unit_test(an_unknown_runtime_is_refused_with_those_there_are),
    };
    return cmocka_run_group_tests(tests, make_trace, NULL);
}
