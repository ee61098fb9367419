/* resident.h: prints a workload's resident memory at its end, from /proc/self/status, without
 * allocating. bench/harness.py reads the line. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints one line on standard error: `resident_kib ANONYMOUS FILE SHARED`. FILE includes preloaded
 * code, SHARED the recorder's shared memory. */
__attribute__((unused)) static void say_resident(void) {
    static const char *const names[] = {"RssAnon:", "RssFile:", "RssShmem:"};
    char text[8192] = "";
    int fd = open("/proc/self/status", O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0) {
        unsigned long values[3] = {0};
        for (int i = 0; i < 3; i++) {
            const char *found = strstr(text, names[i]);
            values[i] = found == NULL ? 0 : strtoul(found + strlen(names[i]), NULL, 10);
        }
        fprintf(stderr, "resident_kib %lu %lu %lu\n", values[0], values[1], values[2]);
    }
    if (fd >= 0) {
        close(fd);
    }
}

#endif
