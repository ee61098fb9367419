/* diff.c: `allogram diff`: opens two traces as profiles with the same filters and prints their
 * differences. */
#include <errno.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/message.h"
#include "cli/report_request.h"

static int compare_traces(const struct ag_report_request *request, char **paths) {
    struct ag_profile *before = NULL, *after = NULL;
    char message[512] = "";
    int status = ag_trace_request_open(&request->trace, paths[0], &before);
    if (status == AG_EXIT_OK) {
        status = ag_trace_request_open(&request->trace, paths[1], &after);
    }
    if (status == AG_EXIT_OK) {
        const int r = ag_report_difference(stdout, &request->report, before, after, message);
        status = r == 0
                     ? AG_EXIT_OK
                     : ag_fail(r == -EINVAL ? AG_EXIT_USAGE : AG_EXIT_FAILURE, "diff: %s", message);
    }
    ag_profile_close(before);
    ag_profile_close(after);
    return status;
}

int ag_command_diff(int argc, char **argv) {
    static const char *const names[] = {
        "json",    "sort",      "limit",      "focus", "ignore",    "from",   "to",
        "older",   "thread",    "runtime",    "by",    "min-count", "within", "tail",
        "sysroot", "debug-dir", "debuginfod", "color", "fold",      "quiet",  NULL};
    struct ag_option table[AG_REPORT_OPTIONS_MOST];
    struct ag_report_request request;
    ag_report_request_start(&request, "diff");
    struct ag_options options = {
        .usage = "diff BEFORE AFTER [OPTIONS]",
        .about = "Shows what grew and what shrank from one trace to another: after minus before.",
        .table = table,
        .write_values = ag_report_request_diff_values,
        .n_table = ag_report_request_choose("diff", names, table),
    };
    if (!ag_options_read(&options, argc, argv, ag_report_request_set, &request)) {
        return options.status;
    }
    if (options.n_operands != 2) {
        return ag_options_refuse_operands(&options, "traces", "two traces",
                                          "diff before.allogram after.allogram");
    }
    const int status = ag_report_request_finish(&request);
    return status == AG_EXIT_OK ? compare_traces(&request, options.operands) : status;
}
