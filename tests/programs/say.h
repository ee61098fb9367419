/* say.h: output functions for programs whose allocations must be known exactly. They do not use
 * the streams of stdio, because these allocate buffers. The lines with @ at the top of these
 * programs say what a recording must show; tests/conformance/truth.py reads and explains them. */
#ifndef SAY_H
#define SAY_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) {
        _exit(99);
    }
}

/* Writes a count that is known only at the end of a run (for example how many signals came) as a
 * line into the file $TRUTH_FILE. */
__attribute__((unused)) static void tell_truth(const char *key, unsigned long long value) {
    char line[128];
    const char *path = getenv("TRUTH_FILE");
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    int length = snprintf(line, sizeof line, "%s %llu\n", key, value);
    if (fd >= 0) {
        if (write(fd, line, (size_t)length) != length) {
            _exit(99);
        }
        close(fd);
    }
}

/* Hides a pointer from the compiler, which could otherwise remove a pair of malloc and free. */
#define OPAQUE(pointer) __asm__ volatile("" : "+r"(pointer) : : "memory")

#endif
