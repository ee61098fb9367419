/* message.c: writes the command line's messages to standard error. The control characters of a
 * message are replaced after it was formatted, so callers may pass file names with any content. */
#include "cli/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "text/utf8.h"

enum { LINE_BYTES = 2048 }; /* longer messages are truncated */

static void (*before_message)(void); /* NULL: nothing is called */

void ag_message_call_before(void (*function)(void)) {
    before_message = function;
}

/* Writes the line with one call of fwrite, because other processes, such as the profiled program,
 * may write to the same file. */
static void say(const char *format, va_list arguments) {
    char line[LINE_BYTES], clean[AG_UTF8_BYTES * LINE_BYTES + 16];
    vsnprintf(line, sizeof line, format, arguments);
    size_t used = (size_t)sprintf(clean, "allogram: ");
    const char *at = line;
    for (uint32_t c; (c = ag_utf8_next(&at)) != 0;) {
        used += ag_utf8_put(clean + used, ag_utf8_is_control(c) ? AG_UTF8_REPLACEMENT : c);
    }
    clean[used++] = '\n';
    if (before_message != NULL) {
        before_message();
    }
    /* keeps the order if standard output and standard error are one file; ag_stdout_finish reports
     * errors */
    (void)fflush(stdout);
    fwrite(clean, 1, used, stderr);
}

void ag_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

int ag_fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return status;
}

const char *ag_open_files_hint(int error) {
    switch (error) {
    case EMFILE:
        return "; the hard limit of open files (ulimit -Hn) has to be higher";
    case ENFILE:
        return "; the system's limit of open files (fs.file-max) has to be higher";
    default:
        return "";
    }
}

int ag_stdout_finish(int status) {
    bool was_broken = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !was_broken) {
        return status;
    }
    if (errno != EPIPE) { /* EPIPE: the reader closed the pipe (`| head`), so no message is
                           * printed */
        ag_say("standard output: %s", strerror(errno));
    }
    return status == AG_EXIT_OK ? AG_EXIT_FAILURE : status;
}
