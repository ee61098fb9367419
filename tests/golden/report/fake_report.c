/* fake_report.c: `allogram report` over the fake profile. */
#include "cli/command.h"
#include "cli/message.h"

int main(int argc, char **argv) {
    return ag_stdout_finish(ag_command_report(argc, argv));
}
