/* told_failure.c: see told_failure.h. */
#include "base/told_failure.h"

#include <stdarg.h>
#include <stdio.h>

int ag_told_failure(char message[512], int error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, 512, format, arguments);
    va_end(arguments);
    return error;
}
