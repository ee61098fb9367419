/* output_file.h: the file that a command writes. After the command has ended, the file exists only
 * if it is complete: an error, or a signal that ends the command (cli/interruption.h), removes it.
 *
 *     struct ag_output_file file;
 *     status = ag_output_file_open(&file, "view", NULL, path, AG_OUTPUT_REPLACES);
 *     if (status == AG_EXIT_OK) {
 *         status = write_page(file.out);
 *         status = ag_output_file_close(&file, status);
 *     } */
#ifndef AG_OUTPUT_FILE_H
#define AG_OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

enum ag_output_way {
    /* An existing file is replaced when the new one is complete, so that no reader sees an
     * incomplete file. A device or a pipe is written directly, because it cannot be replaced. */
    AG_OUTPUT_REPLACES,
    AG_OUTPUT_IS_NEW, /* an existing file is an error; symbolic links are not followed */
};
struct ag_output_file {
    FILE *out; /* the caller writes here */
    /* internal */
    const char *command, *option;
    char path[PATH_MAX];
    char unfinished[PATH_MAX + 16]; /* where the file is until it is complete; empty: at `path` */
    bool is_kept;                   /* written in place: a device, a pipe, /dev/stdout */
};
/* The two functions print errors, and return an exit status. A new file has mode 0600. A trace is
 * never replaced. COMMAND and OPTION, which messages contain, must be valid until the file is
 * closed. OPTION: the name of the option that names the file, such as "junit"; NULL: -o. */
int ag_output_file_open(struct ag_output_file *file, const char *command, const char *option,
                        const char *path, enum ag_output_way way);
/* STATUS: AG_EXIT_OK if the caller has written everything. Completes the file, or removes it if
 * STATUS is a failure or if a write failed. Returns STATUS; if only a write failed,
 * AG_EXIT_FAILURE. */
int ag_output_file_close(struct ag_output_file *file, int status);

#endif
