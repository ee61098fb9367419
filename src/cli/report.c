/* report.c: `allogram report`: prints a view of each trace, or with --merge of all traces together,
 * as the options request, and evaluates the conditions of --fail-if. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/report_gate.h"
#include "cli/report_request.h"
#include "model/process_merge.h"

/* Reports an error if an operand is the name of a view and not of a trace, as in `report TRACE
 * leaks`. */
static int refuse_view_as_trace(char **paths, int n_paths) {
    char unused[512];
    for (int i = 0; i < n_paths; i++) {
        if (ag_report_check_view(paths[i], unused) == 0 && access(paths[i], F_OK) != 0) {
            return ag_fail(AG_EXIT_USAGE, "report: no trace is named '%s'; did you mean --view=%s?",
                           paths[i], paths[i]);
        }
    }
    return AG_EXIT_OK;
}

/* Prints the view of a profile, and evaluates the conditions of --fail-if (GATE). PATH names the
 * profile in warnings, NAME in error messages. */
static int add_profile(struct ag_report *report, const struct ag_report_request *request,
                       struct ag_report_gate *gate, struct ag_profile *profile, const char *path,
                       const char *name) {
    char message[512] = "";
    const int r = ag_report_add(report, profile, message);
    const int gate_status = ag_report_gate_check(gate, profile);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "report: %s: %s", name, message);
    }
    if (!request->report.is_json) { /* a script that reads JSON can see that the list is empty */
        ag_warn_if_nothing_matches("report", path, profile, &request->trace.profile,
                                   request->report.view);
    }
    return gate_status;
}

static int report_traces(struct ag_report *report, const struct ag_report_request *request,
                         struct ag_report_gate *gate, char **paths, int n_paths) {
    int status = AG_EXIT_OK;
    for (int i = 0; i < n_paths; i++) {
        struct ag_profile *profile = NULL;
        int trace_status = ag_trace_request_open(&request->trace, paths[i], &profile);
        if (trace_status == AG_EXIT_OK) {
            trace_status = add_profile(report, request, gate, profile, paths[i], paths[i]);
        } else {
            ag_report_gate_add_unread(gate, paths[i]);
        }
        ag_profile_close(profile);
        status = trace_status != AG_EXIT_OK ? trace_status : status;
    }
    return status;
}

/* Prints the view of all traces merged into one profile. Skips traces that cannot be read, with an
 * error message. */
static int report_merged(struct ag_report *report, const struct ag_report_request *request,
                         struct ag_report_gate *gate, char **paths, int n_paths) {
    struct ag_profile **parts = calloc((size_t)n_paths, sizeof *parts);
    struct ag_profile *merged = NULL;
    size_t n_parts = 0;
    int status = AG_EXIT_OK;
    for (int i = 0; parts != NULL && i < n_paths; i++) {
        int trace_status = ag_trace_request_open(&request->trace, paths[i], &parts[n_parts]);
        if (trace_status == AG_EXIT_OK) {
            n_parts++;
        } else {
            ag_report_gate_add_unread(gate, paths[i]);
        }
        status = trace_status != AG_EXIT_OK ? trace_status : status;
    }
    if (n_parts > 0 || parts == NULL) {
        const int r = parts != NULL ? ag_profile_merge(parts, n_parts, &merged) : -ENOMEM;
        const int merged_status =
            r < 0 ? ag_fail(AG_EXIT_FAILURE, "report: --merge: %s", strerror(-r))
                  : add_profile(report, request, gate, merged, paths[0], "--merge");
        status = status == AG_EXIT_OK ? merged_status : status;
    }
    ag_profile_close(merged);
    free(parts);
    return status;
}

int ag_command_report(int argc, char **argv) {
    struct ag_report_request request;
    struct ag_report_gate gate;
    ag_report_request_start(&request, "report");
    struct ag_options options = {
        .usage = "report TRACE... [OPTIONS]",
        .about = "Prints tables and trees of one or several traces, as text or as JSON.",
    };
    options.table = ag_report_request_options(&options.n_table);
    options.write_values = ag_report_request_values;
    if (!ag_options_read(&options, argc, argv, ag_report_request_set, &request)) {
        return options.status;
    }
    if (options.n_operands == 0) {
        return ag_options_refuse_operands(&options, "trace", "traces",
                                          "report allogram.ls.4711.allogram");
    }
    int status = refuse_view_as_trace(options.operands, options.n_operands);
    status = status == AG_EXIT_OK ? ag_report_request_finish(&request) : status;
    const int n = options.n_operands;
    const bool is_merged = request.is_merged && n > 1;
    if (status == AG_EXIT_OK && is_merged) {
        ag_trace_request_share_files(&request.trace);
    }
    status = status == AG_EXIT_OK ? ag_report_gate_start(&gate, &request) : status;
    if (status != AG_EXIT_OK) {
        ag_trace_request_unshare_files(&request.trace);
        return status;
    }
    struct ag_report *report;
    char message[512];
    const int r =
        ag_report_start(stdout, &request.report, is_merged ? 1 : (size_t)n, &report, message);
    if (r < 0) {
        status = ag_fail(r == -EINVAL ? AG_EXIT_USAGE : AG_EXIT_FAILURE, "report: %s", message);
    } else {
        status = is_merged ? report_merged(report, &request, &gate, options.operands, n)
                           : report_traces(report, &request, &gate, options.operands, n);
        if (ag_report_complete(report, message) < 0) {
            status = ag_fail(AG_EXIT_FAILURE, "report: %s", message);
        }
        ag_report_finish(report);
    }
    status = ag_report_gate_finish(&gate, status);
    ag_trace_request_unshare_files(&request.trace);
    return status;
}
