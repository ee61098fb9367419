/* fake_report.c: runs `allogram report` over the fake profile (fake_profile.c), or `allogram diff`
 * when that is the first word, for the golden tests. */
#include <string.h>

#include "cli/command.h"
#include "cli/message.h"

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "diff") == 0) {
        return ag_stdout_finish(ag_command_diff(argc - 1, argv + 1));
    }
    return ag_stdout_finish(ag_command_report(argc, argv));
}
