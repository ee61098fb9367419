/* target.h: finds the program that `run` is to start, and checks whether it can be recorded. */
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

/* Finds COMMAND as execvp does, follows #! lines, and examines the ELF file. Returns 0, or an exit
 * status with one line in ret_message. */
int ag_target_find(const char *command, struct ag_target *ret_target, char ret_message[512]);

/* Whether the program at PATH would end when it starts, because the agent (the library that
 * records) is preloaded. This happens if the program loads AddressSanitizer as a library:
 * AddressSanitizer checks that it is the first loaded library, unless ASAN_OPTIONS disables the
 * check. */
bool ag_target_refuses_preload(const char *path);

#endif
