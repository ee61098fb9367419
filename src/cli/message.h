/* message.h: messages of the command line to its user, outside of its regular output.
 *
 * Each is one line: "allogram: WHAT: WHY; what to do". A message may contain names from traces and
 * files, so its control characters are replaced by U+FFFD. */
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
