/* cmocka_skip.c: makes cmocka report a test that calls skip() as skipped. cmocka 1.1 prints "not ok 3 # SKIP name", which meson counts as a
 * failure (the Test Anything Protocol marks a skipped test with "ok"). cmocka prints every line with print_message, and the definition of an
 * executable takes precedence over that of the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka.h needs the headers above: */
#include <cmocka.h>

void print_message(const char *format, ...) {
    static const char not [] = "not ", skipped[] = "not ok %u # SKIP";
    if (strncmp(format, skipped, sizeof skipped - 1) == 0) {
        format += sizeof not -1;
    }
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    (void)fflush(stdout); /* as cmocka does: nothing is lost if the test crashes */
}
