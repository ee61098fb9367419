/* promised.c: commands of the contract that are not built yet: they say so and fail, instead of
 * doing half. */
#include <stdbool.h>
#include <string.h>

#include "cli/command.h"
#include "cli/message.h"

int ag_command_promised(int argc, char **argv) {
    (void)argc;
    bool records = strcmp(argv[0], "run") == 0 || strcmp(argv[0], "attach") == 0;
    return ag_fail(records ? AG_EXIT_OWN_FAILURE : AG_EXIT_FAILURE,
                   "%s: allogram " AG_VERSION
                   " cannot do this yet; allogram alone lists what it can do",
                   argv[0]);
}
