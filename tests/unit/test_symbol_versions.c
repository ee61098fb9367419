/* test_symbol_versions.c: compares the versions that a library needs of the C library with those
 * that another one defines. Three libraries play their roles: one that defines the versions
 * FIRST and SECOND, an older one that defines FIRST alone, and one that needs both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attach/symbol_versions.h"

static struct ag_remote_elf needs_both, has_both, has_first, real;

static int open_all(void **state) {
    (void)state;
    return ag_remote_elf_open(getenv("NEEDS_BOTH"), &needs_both) +
           ag_remote_elf_open(getenv("HAS_BOTH"), &has_both) +
           ag_remote_elf_open(getenv("HAS_FIRST"), &has_first) +
           ag_remote_elf_open("/proc/self/exe", &real);
}

static int close_all(void **state) {
    (void)state;
    ag_remote_elf_close(&needs_both);
    ag_remote_elf_close(&has_both);
    ag_remote_elf_close(&has_first);
    ag_remote_elf_close(&real);
    return 0;
}

static void a_library_with_all_versions_lacks_none(void **state) {
    (void)state;
    char name[AG_VERSION_NAME_BYTES] = "unchanged";
    assert_false(ag_symbol_versions_lack(&needs_both, &has_both, name));
    assert_string_equal(name, "unchanged");
}

static void the_missing_version_is_named(void **state) {
    (void)state;
    char name[AG_VERSION_NAME_BYTES];
    assert_true(ag_symbol_versions_lack(&needs_both, &has_first, name));
    assert_string_equal(name, "SECOND");
}

static void a_library_without_a_table_lacks_none(void **state) {
    (void)state;
    char name[AG_VERSION_NAME_BYTES];
    assert_false(ag_symbol_versions_lack(&needs_both, &real, name)); /* a program defines none */
    assert_false(ag_symbol_versions_lack(&has_first, &has_both, name));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_with_all_versions_lacks_none),
        cmocka_unit_test(the_missing_version_is_named),
        cmocka_unit_test(a_library_without_a_table_lacks_none),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
