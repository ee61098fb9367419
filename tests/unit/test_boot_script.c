/* test_boot_script.c: inserts two instructions into a boot script of Erlang that the test writes
 * byte by byte, and reads the result back. Scripts that are cut off or damaged must be refused, and
 * not be read beyond their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "boot_script.h"

/* A script of four instructions: {progress, a}, {path, ["x"], a binary, a map of integers},
 * {kernelProcess, b, {b, c, []}}, {progress, d}. It has all encodings of atoms. */
static const uint8_t head[] = "\x83\x68\x03\x77\x06script\x68\x02\x6b\x00\x01n\x6b\x00\x01"
                              "1\x6c\x00\x00\x00\x04";
static const uint8_t before[] = "\x68\x02\x64\x00\x08progress\x73\x01"
                                "a"
                                "\x68\x04\x77\x04path\x6c\x00\x00\x00\x01\x6b\x00\x01x\x6a"
                                "\x6d\x00\x00\x00\x03\x68\x03\x77\x74\x00\x00\x00\x01\x61\x07\x62"
                                "\x00\x00\x00\x08";
static const uint8_t after[] = "\x68\x03\x76\x00\x0dkernelProcess\x77\x01"
                               "b\x68\x03\x77\x01"
                               "b\x77\x01"
                               "c\x6a\x68\x02\x77\x08progress\x77\x01"
                               "d\x6a";
static const uint8_t module[] = "the module";
static const uint8_t wanted[] =
    "\x68\x02\x77\x05"
    "apply\x68\x03\x77\x06"
    "erlang\x77\x0bload_module\x6c\x00\x00\x00\x02\x77\x0d"
    "allogram_boot\x6d\x00\x00\x00\x0athe module\x6a"
    "\x68\x02\x77\x05"
    "apply\x68\x03\x77\x0d"
    "allogram_boot\x77\x05start\x6c\x00\x00\x00\x01\x6b\x00\x07/folder\x6a";

enum { HEAD = sizeof head - 1, BEFORE = sizeof before - 1, AFTER = sizeof after - 1 };
enum { WANTED = sizeof wanted - 1, MODULE = sizeof module - 1, SCRIPT = HEAD + BEFORE + AFTER };

static void make_script(uint8_t *script) {
    memcpy(script, head, HEAD);
    memcpy(script + HEAD, before, BEFORE);
    memcpy(script + HEAD + BEFORE, after, AFTER);
}

/* Extends a copy of the first N bytes of the script. The allocated block of the copy has N bytes,
 * so a sanitizer or valgrind finds a read beyond its end. */
static size_t extend(const uint8_t *script, size_t n, uint8_t *ret) {
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, script, n);
    const size_t length = ag_boot_script_extend(copy, n, module, MODULE, "/folder", ret);
    free(copy);
    return length;
}

static void instructions_are_inserted(void **state) {
    uint8_t script[SCRIPT], extended[SCRIPT + MODULE + AG_BOOT_EXTRA_BYTES];
    (void)state;
    make_script(script);
    assert_int_equal(extend(script, SCRIPT, extended), SCRIPT + WANTED);
    script[HEAD - 1] = 6; /* the number of instructions */
    assert_memory_equal(extended, script, HEAD + BEFORE);
    assert_memory_equal(extended + HEAD + BEFORE, wanted, WANTED);
    assert_memory_equal(extended + HEAD + BEFORE + WANTED, after, AFTER);
}

static void cut_scripts_are_refused(void **state) {
    enum { OF_KERNEL_PROCESS = 18 }; /* bytes of the tuple's head and of the atom kernelProcess */
    uint8_t script[SCRIPT], extended[SCRIPT + MODULE + AG_BOOT_EXTRA_BYTES];
    (void)state;
    make_script(script);
    for (size_t n = 0; n < HEAD + BEFORE + OF_KERNEL_PROCESS; n++) {
        assert_int_equal(extend(script, n, extended), 0);
    }
}

/* Sets each byte of the script to each value. Whether or not the script is refused, nothing may be
 * read or written beyond its memory. */
static void damaged_scripts_stay_in_memory(void **state) {
    uint8_t script[SCRIPT], extended[SCRIPT + MODULE + AG_BOOT_EXTRA_BYTES];
    (void)state;
    for (size_t at = 0; at < SCRIPT; at++) {
        for (unsigned value = 0; value < 256; value++) {
            make_script(script);
            script[at] = (uint8_t)value;
            const size_t n = extend(script, SCRIPT, extended);
            assert_true(n == 0 || n == SCRIPT + WANTED);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_are_inserted),
        cmocka_unit_test(cut_scripts_are_refused),
        cmocka_unit_test(damaged_scripts_stay_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
