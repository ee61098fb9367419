/* test_ocaml_tables.c: the decoder of OCaml's frame tables and debug information. The test writes
 * them in the form that the runtime's backtrace_nat.c reads, and then damages them.
 * tests/fuzz/fuzz_ocaml.c decodes random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "symbol/decoder.h"

/* as in tests/fuzz/fuzz_ocaml.c, which defines the file for the decoder */
struct ag_decoder_file {
    const uint8_t *bytes;
    size_t n_bytes;
    bool is_5;
};
extern const struct ag_decoder ag_decoder_ocaml;
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { ADDRESS = 0x10000, MEMORY_BYTES = 0x200, CODE = 0x20000 };

static void put(uint8_t *memory, size_t at, uint64_t value, size_t n_bytes) {
    memcpy(memory + at, &value, n_bytes);
}

/* Writes the two words of debug information at AT. The first has the relative address of the name,
 * and the bits MORE; the second is SECOND, with the line and the columns. */
static void put_debug(uint8_t *memory, size_t at, size_t name, uint32_t more, uint32_t second) {
    put(memory, at, (uint32_t)(name - at) | more, 4);
    put(memory, at + 4, second, 4);
}

/*  0x000 caml_frametable: the address of one table, then 0
 *  0x010 two descriptors: CODE + 0x10 with debug information, inlined; CODE + 0x30 with two
 *        combined allocations, of which only the second has debug information
 *  0x080 debug information; 0x100 the name List.map of "list.ml"; 0x120 Known.f of "known.ml" */
static void write_tables(uint8_t memory[MEMORY_BYTES], bool is_5) {
    const unsigned line = is_5 ? 19 : 12;
    memset(memory, 0, MEMORY_BYTES);
    put(memory, 0x000, ADDRESS + 0x10, 8);
    put(memory, 0x010, 2, 8);
    put(memory, 0x018, CODE + 0x10, 8);
    put(memory, 0x020, 16 | 1, 2); /* frame size; has debug information */
    put(memory, 0x022, 1, 2);      /* a live value */
    put(memory, 0x028, 0x80 - 0x28, 4);
    put(memory, 0x030, CODE + 0x30, 8);
    put(memory, 0x038, 16 | 3, 2);
    put(memory, 0x03c, 2, 1); /* two allocations, of 2 and 3 words */
    put(memory, 0x03d, 0, 1);
    put(memory, 0x03e, 1, 1);
    put(memory, 0x040, 0, 4);
    put(memory, 0x044, 0x90 - 0x44, 4);
    put_debug(memory, 0x80, 0x100, 1, 84u << line);
    put_debug(memory, 0x88, 0x120, 0, 7u << line);
    put_debug(memory, 0x90, 0x120, 0, 9u << line);
    put(memory, 0x100, 0x140 - 0x100, 4);
    strcpy((char *)memory + 0x104, "Stdlib__List.map");
    put(memory, 0x120, 0x150 - 0x120, 4);
    strcpy((char *)memory + 0x124, "Known.f");
    strcpy((char *)memory + 0x140, "list.ml");
    strcpy((char *)memory + 0x150, "known.ml");
}

static void check_frame(const struct ag_decoded_frame *frame, const char *function,
                        const char *file, uint32_t line) {
    assert_string_equal(frame->function, function);
    assert_string_equal(frame->file, file);
    assert_int_equal(frame->line, line);
}

static void check_release(bool is_5) {
    uint8_t memory[MEMORY_BYTES];
    struct ag_decoded_frame frames[4];
    struct ag_decoder_file file = {memory, sizeof(memory), is_5};
    write_tables(memory, is_5);
    void *state = ag_decoder_ocaml.open(&file);
    assert_non_null(state);

    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x10, true, frames, 4), 2);
    check_frame(&frames[0], "Stdlib.List.map", "list.ml", 84);
    check_frame(&frames[1], "Known.f", "known.ml", 7);
    assert_true(frames[0].is_inlined);
    assert_false(frames[1].is_inlined);

    /* If the frame called a C stub, the recorded address is one byte higher, and is still found. An
     * address two bytes higher is another location. */
    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x11, true, frames, 4), 2);
    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x12, true, frames, 4), 0);
    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x10, false, frames, 4), 0);

    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x30, true, frames, 4), 1);
    check_frame(&frames[0], "Known.f", "known.ml", 9);
    /* The location of an allocation itself, as it was recorded. */
    assert_int_equal(ag_decoder_ocaml.frames(state, ADDRESS + 0x88, false, frames, 4), 1);
    check_frame(&frames[0], "Known.f", "known.ml", 7);
    ag_decoder_ocaml.close(state);
}

/* The columns of a location: 72 (in OCaml 5: 62, because the field is smaller) to 92. The columns
 * are unknown if their fields have the largest values (OCaml 4) or the values 0 (OCaml 5). */
static void check_columns(bool is_5) {
    uint8_t memory[MEMORY_BYTES];
    struct ag_decoded_frame frame;
    struct ag_decoder_file file = {memory, sizeof(memory), is_5};
    const uint32_t column = is_5 ? 62 : 72, end = 92;
    write_tables(memory, is_5);
    put_debug(memory, 0x90, 0x120, is_5 ? 12u << 26 : (end & 0x3f) << 26,
              is_5 ? 3u << 19 | column << 10 | (end - 12) << 3 : 3u << 12 | column << 4 | end >> 6);
    void *state = ag_decoder_ocaml.open(&file);
    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x30, true, &frame, 1), 1);
    assert_int_equal(frame.line, 3);
    assert_int_equal(frame.column, column);
    assert_int_equal(frame.end_column, end);
    put_debug(memory, 0x90, 0x120, is_5 ? 0 : 0x3fu << 26, is_5 ? 3u << 19 : 3u << 12 | 0xfff);
    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x30, true, &frame, 1), 1);
    assert_int_equal(frame.line, 3);
    assert_int_equal(frame.column, 0);
    assert_int_equal(frame.end_column, 0);
    ag_decoder_ocaml.close(state);
}

static void columns_are_decoded_for_ocaml_4_and_5(void **state) {
    (void)state;
    check_columns(false);
    check_columns(true);
}

static void frames_of_ocaml_4_are_decoded(void **state) {
    (void)state;
    check_release(false);
}

static void frames_of_ocaml_5_are_decoded(void **state) {
    (void)state;
    check_release(true);
}

/* One table claims more descriptors than fit into the memory; one list contains the same table
 * again and again. The valid descriptors must still be found, in limited time. */
static void endless_tables_are_read_in_limited_time(void **unused) {
    (void)unused;
    uint8_t memory[MEMORY_BYTES];
    struct ag_decoded_frame frames[4];
    struct ag_decoder_file file = {memory, sizeof(memory), false};
    write_tables(memory, false);
    put(memory, 0x010, UINT64_MAX, 8);
    void *state = ag_decoder_ocaml.open(&file);
    assert_int_equal(ag_decoder_ocaml.frames(state, CODE + 0x30, true, frames, 4), 1);
    ag_decoder_ocaml.close(state);

    static uint8_t many[4 << 20]; /* a list of half a million tables, each with the address of the
                                   * list itself */
    for (size_t at = 0; at < sizeof(many); at += 8) {
        put(many, at, ADDRESS, 8);
    }
    file = (struct ag_decoder_file){many, sizeof(many), false};
    state = ag_decoder_ocaml.open(&file);
    (void)ag_decoder_ocaml.frames(state, ADDRESS + sizeof(many), true, frames, 4);
    ag_decoder_ocaml.close(state);
}

static void damaged(void **state) {
    (void)state;
    uint8_t input[1 + MEMORY_BYTES];
    uint64_t random = 1;
    for (int round = 0; round < 5000; round++) {
        input[0] = (uint8_t)round;
        write_tables(input + 1, round & 1);
        for (int i = 0; i < 1 + round % 7; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            input[1 + (random >> 33) % 0x160] = round % 3 ? (uint8_t)(random >> 50) : 0xff;
        }
        LLVMFuzzerTestOneInput(input,
                               round % 5 ? sizeof(input) : 1 + (random >> 40) % MEMORY_BYTES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_ocaml_4_are_decoded),
        cmocka_unit_test(frames_of_ocaml_5_are_decoded),
        cmocka_unit_test(columns_are_decoded_for_ocaml_4_and_5),
        cmocka_unit_test(endless_tables_are_read_in_limited_time),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
