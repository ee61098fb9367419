/* report_request.h: parses the options of `report`, `diff` and `explain` into a request for a
 * profile and its views.
 *
 *     ag_report_request_start(&request, "report");
 *     ag_options_read(&options, argc, argv, ag_report_request_set, &request)
 *     status = ag_report_request_finish(&request); // an exit status; it prints errors
 *     status = ag_trace_request_open(&request.trace, path, &profile); */
#ifndef AG_REPORT_REQUEST_H
#define AG_REPORT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/open_trace.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "report/report.h"

/* AG_REPORT_OPTIONS_MOST: enough for the options of any command that uses this file.
 * AG_REPORT_GATES: how often --fail-if may be given. */
enum { AG_REPORT_OPTIONS_MOST = 64, AG_REPORT_GATES = 64 };

struct ag_report_gate_request { /* --fail-if and the options that need it, for `report` (see
                                 * report_gate.h) */
    const char *expressions[AG_REPORT_GATES];
    size_t n_expressions;
    const char *base, *junit, *sarif; /* paths; NULL: not given */
};

struct ag_report_request {
    struct ag_trace_request trace;
    struct ag_report_options report;
    enum ag_colour colour;
    bool has_window; /* --from or --to was given */
    bool has_fold;   /* --fold was given */
    bool is_merged;  /* --merge or --by=os_process was given */
    struct ag_report_gate_request gate;
    char filter[512]; /* the text to which report.filter points */
};
void ag_report_request_start(struct ag_report_request *request, const char *command);
const struct ag_option *ag_report_request_options(size_t *ret_count);
/* Copies the options with these NAMES (terminated by NULL) to RET_OPTIONS, for a COMMAND that has
 * fewer options than `report`. Returns their number. */
size_t ag_report_request_choose(const char *command, const char *const *names,
                                struct ag_option *ret_options);
/* The values of the options of `report`, and of those of `diff`: see write_values of struct
 * ag_options. */
void ag_report_request_values(int id, char ret_values[AG_OPTION_VALUES_BYTES]);
void ag_report_request_diff_values(int id, char ret_values[AG_OPTION_VALUES_BYTES]);
ag_option_set ag_report_request_set; /* REQUEST is a struct ag_report_request */
int ag_report_request_finish(struct ag_report_request *request);

#endif
