/* test_runtime_types.c: a trace in which a runtime (a language's virtual machine or library)
 * recorded the types of blocks as numbers. The reader finds the name of a type by the functions in
 * which blocks with the type's number were allocated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/runtimes.h"
#include "base/stack_tree.h"
#include "model/answers/types.h"
#include "model/profile.h"
#include "symbol/decoder.h"
#include "symbol/symbol.h"
#include "trace_builder.h"

enum { N_FUNCTIONS = 5 };

static const char *const functions[N_FUNCTIONS + 1] = {NULL,       "Lock.new", "Mutex.new",
                                                       "Pipe.new", "Leaf.new", "main"};

/* A decoder for the test: the function X.new allocates an X. */
static enum ag_decoded_place place_of(const char *function, const char *file, char *ret_type,
                                      size_t capacity) {
    (void)file;
    const char *end = strstr(function, ".new");
    snprintf(ret_type, capacity, "%.*s", end ? (int)(end - function) : 0, function);
    return end ? AG_PLACE_OBJECT : AG_PLACE_SILENT;
}

static const struct ag_decoder decoder = {.runtime = "wl", .place = place_of};
static const struct ag_runtime runtimes[] = {{.name = "wl", .decoder = &decoder}, {.name = NULL}};

static struct ag_bytes bytes_of(const char *text) {
    return (struct ag_bytes){.data = text, .length = (uint32_t)strlen(text)};
}

/* Adds a block of SIZE bytes, allocated in the function FRAME at LINE (0: unknown), whose type was
 * recorded as "#NUMBER". */
static void add_block(struct trace_builder *trace, uint32_t frame, uint32_t line, uint32_t number,
                      uint64_t size) {
    static uint32_t id = 100;
    char text[16];
    snprintf(text, sizeof(text), "#%u", number);
    const struct ag_record type = {
        .kind = AG_RECORD_TYPE,
        .u.type = {.type = number, .name = bytes_of(text), .runtime = bytes_of("wl")}};
    const struct ag_node nodes[] = {
        {.id = id, .pc = ag_managed_pc(frame, line), .image = AG_IMAGE_MANAGED},
        {.id = id + 1, .parent = id, .pc = number, .image = AG_IMAGE_TYPE}};
    trace_record(trace, &type);
    trace_nodes(trace, nodes, 2);
    TRACE_EVENTS(trace, 0, STAMP(id), ALLOC(id, size, id + 1));
    id += 16;
}

static void begin(struct trace_builder *trace) {
    trace_begin(trace, 0);
    for (uint32_t frame = 1; frame <= N_FUNCTIONS; frame++) {
        const struct ag_record defined = {.kind = AG_RECORD_FRAME,
                                          .u.frame = {.frame = frame,
                                                      .runtime = bytes_of("wl"),
                                                      .function = bytes_of(functions[frame]),
                                                      .file = bytes_of("")}};
        trace_record(trace, &defined);
    }
}

static struct ag_profile *finish(struct trace_builder *trace) {
    static const struct ag_symbol_options symbol = {.size = sizeof(symbol), .runtimes = runtimes};
    const struct ag_profile_options options = {
        .size = sizeof(options), .thread = -1, .symbol = &symbol};
    struct ag_profile *profile = NULL;
    char message[512] = "";
    trace_finish(trace, 100000, NULL);
    assert_int_equal(ag_profile_open(trace->path, &options, &profile, message), 0);
    return profile;
}

static void expect_bytes(struct ag_profile *profile, const char *type, uint64_t bytes) {
    const struct ag_type_row *rows;
    size_t n;
    assert_int_equal(ag_profile_types(profile, &rows, &n), 0);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].type && strcmp(rows[i].type, type) == 0) {
            assert_int_equal(rows[i].metrics.allocated_bytes, bytes);
            return;
        }
    }
    fail_msg("no type %s", type);
}

/* Lock.new was inlined into Mutex.new, so blocks of type Lock were allocated in Mutex.new. Such a
 * block is not reported as Mutex, because Lock.new also allocated blocks with the same number. */
static void inlined_allocations_without_lines_keep_their_type(void **state) {
    (void)state;
    struct trace_builder trace;
    begin(&trace);
    add_block(&trace, 2, 0, 7, 1);
    add_block(&trace, 2, 0, 8, 10);
    add_block(&trace, 1, 0, 8, 100);
    add_block(&trace, 5, 0, 7, 1000); /* inlined in another function */
    struct ag_profile *profile = finish(&trace);
    expect_bytes(profile, "Mutex", 1001);
    expect_bytes(profile, "Lock", 110);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* Blocks with two numbers were allocated in one function, and blocks with one number in two
 * functions. So the types cannot be distinguished.
 */
static void types_that_cannot_be_distinguished_stay_numbers(void **state) {
    (void)state;
    struct trace_builder trace;
    begin(&trace);
    add_block(&trace, 3, 0, 5, 1);
    add_block(&trace, 3, 0, 6, 10);
    add_block(&trace, 1, 0, 9, 100);
    add_block(&trace, 2, 0, 9, 1000);
    struct ag_profile *profile = finish(&trace);
    expect_bytes(profile, "#5 (Pipe.new)", 1);
    expect_bytes(profile, "#6 (Pipe.new)", 10);
    expect_bytes(profile, "#9 (Lock.new)", 100);
    expect_bytes(profile, "#9 (Mutex.new)", 1000);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* If the frames have lines, inlined functions have frames of their own, so the innermost function
 * shows the type. Two numbers in one function may have one type name, because generic types with
 * different arguments share the name. */
static void a_line_proves_the_type(void **state) {
    (void)state;
    struct trace_builder trace;
    begin(&trace);
    add_block(&trace, 4, 3, 5, 1);
    add_block(&trace, 4, 3, 6, 10);
    struct ag_profile *profile = finish(&trace);
    expect_bytes(profile, "Leaf", 11);
    ag_profile_close(profile);
    trace_end(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inlined_allocations_without_lines_keep_their_type),
        cmocka_unit_test(types_that_cannot_be_distinguished_stay_numbers),
        cmocka_unit_test(a_line_proves_the_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
