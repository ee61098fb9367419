/* error_message.c: formats the message of a failure for functions that return a negative errno. */
#include "base/error_message.h"

#include <stdarg.h>
#include <stdio.h>

int ag_error_message(char message[512], int error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, 512, format, arguments);
    va_end(arguments);
    return error;
}
