/* test_symbol_hostile.c: look-ups in damaged ELF and DWARF files must not crash, must end, and must
 * return frames. tests/fuzz/fuzz_symbol.c does the look-ups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes); /* defined in
                                                                   * tests/fuzz/fuzz_symbol.c */

enum { FILE_LIMIT_BYTES = 256 << 10, ROUNDS = 400 };

static const char source_cc[] =
    "namespace space { struct Box { int n; Box(int x) : n(x) {} int get() { return n; } }; }\n"
    "__attribute__((noinline)) int outer(int x) { space::Box box(x + 1); return box.get() * 3; }\n"
    "int main(int n, char **) { struct Local { static __attribute__((noinline)) int f(int x) {\n"
    "    return outer(x); } }; return Local::f(n); }\n";

static size_t compile(const char *options, uint8_t *ret_bytes) {
    fixture_write("source.cc", source_cc);
    fixture_run("g++ -nostartfiles -Wl,-emain -O2 %s source.cc -o source", options);
    FILE *file = fopen("source", "r");
    assert_non_null(file);
    const size_t n_bytes = fread(ret_bytes, 1, FILE_LIMIT_BYTES, file);
    fclose(file);
    assert_in_range(n_bytes, 1000, FILE_LIMIT_BYTES - 1);
    return n_bytes;
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 20;
}

/* Sets a few bytes to 0, 255 or a random value, or flips one bit. */
static void damage(uint8_t *bytes, size_t n_bytes, uint64_t *random) {
    for (uint64_t n = 1 + next_random(random) % 24; n > 0; n--) {
        uint8_t *byte = &bytes[next_random(random) % n_bytes];
        const uint64_t value = next_random(random);
        const uint8_t choices[] = {0, 255, (uint8_t)value,
                                   *byte ^ (uint8_t)(1u << (value >> 8) % 8)};
        *byte = choices[(value >> 16) % 4];
    }
}

static void check_damaged(const char *options) {
    uint8_t *bytes = malloc(FILE_LIMIT_BYTES), *copy = malloc(FILE_LIMIT_BYTES);
    assert_non_null(bytes);
    assert_non_null(copy);
    const size_t n_bytes = compile(options, bytes);
    uint64_t random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(copy, bytes, n_bytes);
        damage(copy, n_bytes, &random);
        LLVMFuzzerTestOneInput(copy, round % 8 == 0 ? next_random(&random) % n_bytes : n_bytes);
    }
    free(bytes);
    free(copy);
}

static void damaged_dwarf_5_causes_no_crash(void **state) {
    (void)state;
    check_damaged("-g");
}

static void damaged_dwarf_4_causes_no_crash(void **state) {
    (void)state;
    check_damaged("-gdwarf-4 -fdebug-types-section");
}

static void damaged_compressed_sections_cause_no_crash(void **state) {
    (void)state;
    check_damaged("-g -gz=zlib");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_dwarf_5_causes_no_crash),
        cmocka_unit_test(damaged_dwarf_4_causes_no_crash),
        cmocka_unit_test(damaged_compressed_sections_cause_no_crash),
    };
    return cmocka_run_group_tests(tests, fixture_enter, fixture_leave);
}
