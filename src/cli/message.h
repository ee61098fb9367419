/* message.h: messages of the command line for its user, on standard error.
 *
 * Each message is one line: "allogram: WHAT: WHY; what to do". A message may contain names from
 * traces and files, so its control characters are replaced by U+FFFD. */
#ifndef AG_MESSAGE_H
#define AG_MESSAGE_H

#include "base/compiler.h"

/* From now on, FUNCTION is called before each message, to erase the line of progress
 * (progress_line.h). */
void ag_message_call_before(void (*function)(void));
/* Writes one line to standard error. */
void ag_say(const char *format, ...) AG_PRINTF(1, 2);
/* Writes one line to standard error and returns STATUS, so that a command that fails can return the
 * result. */
int ag_fail(int status, const char *format, ...) AG_PRINTF(2, 3);
/* Returns what the user can do about EMFILE or ENFILE (a limit of open files), to be appended to
 * the message: "; ...". Returns "" for other errors. For EMFILE the text names the hard limit,
 * because allogram raises its soft limit itself; for ENFILE it names fs.file-max. */
const char *ag_open_files_hint(int error);
/* Flushes standard output at the end of a command. Returns STATUS, or AG_EXIT_FAILURE if the output
 * could not be written (for example, because the disk is full) and STATUS is AG_EXIT_OK. */
int ag_stdout_finish(int status);

#endif
