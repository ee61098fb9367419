/* open_trace.c: see open_trace.h. */
#include "cli/open_trace.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/message.h"
#include "writer/writer.h"

int ag_open_trace(const char *command, const char *path, const struct ag_profile_options *options,
                  struct ag_profile **ret_profile) {
    char message[512] = "", copy_message[512] = "", copy_path[64];
    struct ag_profile_options with_copy = *options;
    int copy = -1;
    const int completed = ag_writer_complete_copy(path, &copy, copy_message);
    if (completed > 0) {
        (void)snprintf(copy_path, sizeof(copy_path), "/proc/self/fd/%d", copy);
        with_copy.contents = copy_path;
    }
    const int r = ag_profile_open(path, &with_copy, ret_profile, message);
    if (copy >= 0) {
        (void)close(copy); /* the profile has a descriptor of its own */
    }
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "%s: %s", command, message);
    }
    if (completed < 0 && copy_message[0] != '\0') {
        /* often it can be read nevertheless */
        ag_say("%s: %s; continuing with the readable part", command, copy_message);
    }
    return AG_EXIT_OK;
}
