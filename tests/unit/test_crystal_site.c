/* test_crystal_site.c: which machine code after a call counts as code that stores a type number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "crystal_site.h"
#include "symbol/decoder.h"

enum { ADDRESS = 0x10000, NUMBER = 0x1234, CODE_BYTES = 512 };
struct ag_decoder_file {
    uint8_t bytes[CODE_BYTES];
};

const unsigned char *ag_decoder_bytes(struct ag_decoder_file *file, uint64_t address,
                                      size_t *ret_bytes) {
    *ret_bytes = CODE_BYTES - (size_t)(address - ADDRESS);
    return file->bytes + (address - ADDRESS);
}

bool ag_decoder_is_code(struct ag_decoder_file *file, uint64_t address) {
    (void)file;
    return address >= ADDRESS && address < ADDRESS + CODE_BYTES;
}

/* Whether this code, between `nop` instructions, stores NUMBER in the block. */
static bool stores(const char *code, size_t n_bytes) {
    struct ag_decoder_file file;
    memset(file.bytes, 0x90, sizeof file.bytes);
    memcpy(file.bytes + 2, code, n_bytes);
    return ag_crystal_site_stores(&file, ADDRESS, NUMBER, /* size_of_object= */ 0);
}
#define STORES(code) stores(code, sizeof(code) - 1)

#define NUMBER_32 "\x34\x12\0\0"
#define NUMBER_64 NUMBER_32 "\0\0\0\0"
#define STORE_RCX "\x48\x89\x08" /* mov %rcx, (%rax) */

static void a_constant_is_stored_directly_or_by_a_register(void **state) {
    (void)state;
    assert_false(STORES("\x90"));
    assert_false(STORES(STORE_RCX));
    assert_true(STORES("\xc7\x00" NUMBER_32));           /* movl $number, (%rax) */
    assert_true(STORES("\x48\xc7\x00" NUMBER_32));       /* movq */
    assert_true(STORES("\xb9" NUMBER_32 STORE_RCX));     /* mov $number, %ecx */
    assert_true(STORES("\x48\xb9" NUMBER_64 STORE_RCX)); /* movabs $number, %rcx */
    assert_true(STORES("\x41\xbf" NUMBER_32 STORE_RCX)); /* mov $number, %r15d */
    assert_true(STORES("\x49\xbe" NUMBER_64 STORE_RCX)); /* movabs $number, %r14 */
}

static void a_number_in_a_register_for_arguments_does_not_count(void **state) {
    (void)state;
    assert_false(STORES("\xbf" NUMBER_32 STORE_RCX));     /* mov $number, %edi */
    assert_false(STORES("\xbe" NUMBER_32 STORE_RCX));     /* mov $number, %esi */
    assert_false(STORES("\x48\xbf" NUMBER_64 STORE_RCX)); /* movabs $number, %rdi */
    assert_false(STORES("\x48\xbe" NUMBER_64 STORE_RCX)); /* movabs $number, %rsi */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_is_stored_directly_or_by_a_register),
        cmocka_unit_test(a_number_in_a_register_for_arguments_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
