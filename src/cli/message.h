/* message.h: messages of the command line to its user, outside of its regular output.
 *
 * One line each: "allogram: WHAT: WHY; what to do". They may contain names from traces and files,
 * so control characters are escaped. */
#ifndef AG_MESSAGE_H
#define AG_MESSAGE_H

#include "base/compiler.h"

/* Writes one line to standard error. */
void ag_say(const char *format, ...) AG_PRINTF(1, 2);
/* The same for a failure; returns STATUS, which the command can return. */
int ag_fail(int status, const char *format, ...) AG_PRINTF(2, 3);
/* Flushes standard output at a command's end. Returns STATUS, or failure when the output could not
 * be written (disk full). */
int ag_stdout_finish(int status);

#endif
