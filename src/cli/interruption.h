/* interruption.h: removes the unfinished output file, and erases the line of progress on the
 * terminal, when a signal ends a command that reads traces.
 *
 * The signals are SIGINT, SIGTERM and SIGHUP. The signal then kills the command, so its parent sees
 * which signal ended it. A signal that the command's parent ignores stays ignored. */
#ifndef AG_INTERRUPTION_H
#define AG_INTERRUPTION_H

#include <signal.h>
#include <stdbool.h>

/* Between these two calls, the signals are blocked in the calling thread: for steps that belong
 * together, such as creating a file and ag_interruption_removes. Call them while the command has no
 * other threads; otherwise another thread may receive the signals. */
void ag_interruption_hold(sigset_t *ret_before);
void ag_interruption_release(const sigset_t *before);
/* From now on the signals remove PATH; NULL: no file. */
void ag_interruption_removes(const char *path);
/* ERASES: whether the signals, from now on, erase the terminal's current line, which is a line of
 * progress on standard error. */
void ag_interruption_erases_line(bool erases);

/* moves the cursor to the start of the line, and erases the line */
#define AG_ERASE_LINE "\r\033[K"

#endif
