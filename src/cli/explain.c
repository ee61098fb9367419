/* explain.c: `allogram explain`: opens a trace and prints its most important facts, in at most 40
 * lines. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/report_request.h"

static int explain(const struct ag_report_request *request, const char *path) {
    struct ag_profile *profile = NULL;
    int status = ag_trace_request_open(&request->trace, path, &profile);
    if (status == AG_EXIT_OK) {
        const int r = ag_report_explain(stdout, &request->report, profile);
        status =
            r == 0 ? AG_EXIT_OK : ag_fail(AG_EXIT_FAILURE, "explain: %s: %s", path, strerror(-r));
    }
    ag_profile_close(profile);
    return status;
}

int ag_command_explain(int argc, char **argv) {
    static const char *const names[] = {"json",       "findings", "sysroot", "debug-dir",
                                        "debuginfod", "quiet",    NULL};
    struct ag_option table[AG_REPORT_OPTIONS_MOST];
    struct ag_report_request request;
    ag_report_request_start(&request, "explain");
    size_t n = ag_report_request_choose("explain", names, table);
    table[n++] = (struct ag_option)AG_OPTIONS_OF_DECODERS;
    struct ag_options options = {
        .usage = "explain TRACE [OPTIONS]",
        .about = "Prints the most important facts of a trace in at most 40 lines: sums, findings "
                 "with their lines,\nand the commands that show more. With --json: at most 5000 "
                 "bytes.",
        .table = table,
        .n_table = n,
    };
    if (!ag_options_read(&options, argc, argv, ag_report_request_set, &request)) {
        return options.status;
    }
    if (options.n_operands != 1) {
        return ag_options_refuse_operands(&options, "trace", "one trace",
                                          "explain allogram.ls.4711.allogram");
    }
    const int status = ag_report_request_finish(&request);
    return status == AG_EXIT_OK ? explain(&request, options.operands[0]) : status;
}
