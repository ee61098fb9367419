/* told_failure.h: an error with the line that says what failed, on what and why. */
#ifndef AG_TOLD_FAILURE_H
#define AG_TOLD_FAILURE_H

#include "base/compiler.h"

/* Writes the line into MESSAGE, cut where it is longer, and returns ERROR (a negative errno), so
 * that the caller can fail with both in one statement. Not for signal handlers. */
int AG_PRINTF(3, 4) ag_told_failure(char message[512], int error, const char *format, ...);

#endif
