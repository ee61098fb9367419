/* target.h: the program that `run` is to start: where it is, and whether it can be recorded. */
#ifndef AG_TARGET_H
#define AG_TARGET_H

#include <stdbool.h>

struct ag_target {
    char path[4096];  /* what is executed */
    char image[4096]; /* the ELF file that the kernel ends up with: `path`, or a script's
                         interpreter */
};

enum {
    AG_EXIT_NOT_EXECUTABLE = 126,
    AG_EXIT_NOT_FOUND = 127,
};

/* Finds COMMAND as execvp would, follows #! lines, looks into the ELF file. Returns 0, or the exit
 * status to end with and one line in ret_message. */
int ag_target_find(const char *command, struct ag_target *ret_target, char ret_message[512]);

/* The ELF file at PATH loads AddressSanitizer as a library, which ends a program that has another
 * preloaded before it, and nothing in the environment says that it shall not. */
bool ag_target_refuses_preload(const char *path);

#endif
