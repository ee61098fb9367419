/* error_message.h: a negative errno with a line that says what failed, on what object and why. */
#ifndef AG_ERROR_MESSAGE_H
#define AG_ERROR_MESSAGE_H

#include "base/compiler.h"

/* Writes the line into MESSAGE, truncated if necessary, and returns ERROR (a negative errno), so
 * that the caller can fail in one statement. Not for signal handlers. */
int AG_PRINTF(3, 4) ag_error_message(char message[512], int error, const char *format, ...);

#endif
