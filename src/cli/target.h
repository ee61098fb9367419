/* target.h: the program that `run` is to start: where it is, and whether it can be recorded. */
#ifndef AG_TARGET_H
#define AG_TARGET_H

#include <stdbool.h>

struct ag_target {
    char path[4096];  /* the file to execute */
    char image[4096]; /* the ELF file that the kernel executes: `path`, or a script's interpreter */
};

enum {
    AG_EXIT_NOT_EXECUTABLE = 126,
    AG_EXIT_NOT_FOUND = 127,
};

/* Finds COMMAND like execvp, follows #! lines, and examines the ELF file. Returns 0, or the exit
 * status and one line in ret_message. */
int ag_target_find(const char *command, struct ag_target *ret_target, char ret_message[512]);

/* Whether the program at PATH would end at its start because of the preloaded agent: it loads
 * AddressSanitizer as a library, which must be the first one, and ASAN_OPTIONS does not disable
 * that check. */
bool ag_target_refuses_preload(const char *path);

#endif
