/* message.h: what the command line says to a person outside of its proper output.
 *
 * One line each: "allogram: WHAT: WHY; what to do". Names from traces and files may be part of it,
 * so control characters never reach the terminal. */
#ifndef AG_MESSAGE_H
#define AG_MESSAGE_H

#include "base/compiler.h"

/* Says one line on standard error. */
void ag_say(const char *format, ...) AG_PRINTF(1, 2);
/* The same for a failure; returns STATUS, so that a command can end with it. */
int ag_fail(int status, const char *format, ...) AG_PRINTF(2, 3);
/* Flushes standard output at a command's end: STATUS, or failure when the output could not be
 * written (disk full). */
int ag_stdout_finish(int status);

#endif
