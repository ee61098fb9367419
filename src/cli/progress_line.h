/* progress_line.h: the line on standard error that shows how much of a trace was read, for the
 * commands that read traces.
 *
 *     allogram: view: 42 % of 76.3 MiB read, 38.2 MiB/s, 1.2 s left
 *
 * The line is rewritten in place ten times a second, and erased before a message (cli/message.h) or
 * results are written. It is shown only while a trace is read (a pass of format/progress.h), only
 * if standard error is a terminal, and not in the first second. A command that reads the trace
 * several times begins again at 0 %. */
#ifndef AG_PROGRESS_LINE_H
#define AG_PROGRESS_LINE_H

#include <stdbool.h>

#include "format/progress.h"

/* Returns the object to which a trace file reports its progress; NULL if no line will be shown. The
 * first second begins with the first call. COMMAND must stay valid. IS_QUIET: --quiet was given.
 * PRINTS_EARLY: the command may print while it reads the trace; then there is no line if standard
 * output is a terminal, too. */
const struct ag_progress *ag_progress_line(const char *command, bool is_quiet, bool prints_early);
#endif
