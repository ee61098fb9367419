/* promised.c: commands of the contract that are not built yet: they say so and fail, instead of
 * doing half. */
#include "cli/command.h"
#include "cli/message.h"

int ag_command_promised(int argc, char **argv) {
    (void)argc;
    return ag_fail(AG_EXIT_FAILURE,
                   "%s: allogram " AG_VERSION
                   " cannot do this yet; allogram alone lists what it can do",
                   argv[0]);
}
