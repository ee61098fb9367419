/* report_request.h: the options of `report` and `diff`, as a request for a profile and its views.
 *
 *     ag_report_request_start(&request, "report");
 *     ag_options_read(&options, argc, argv, ag_report_request_set, &request)
 *     status = ag_report_request_finish(&request);
 *     status = ag_report_request_open(&request, path, &profile);
 *
 * The last two return an exit status and print errors. */
#ifndef AG_REPORT_REQUEST_H
#define AG_REPORT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"
#include "cli/terminal.h"
#include "model/profile.h"
#include "report/report.h"
#include "symbol/symbol.h"

enum { AG_REPORT_DEBUG_DIRS = 64, AG_REPORT_OPTIONS_MOST = 64, AG_REPORT_GATES = 64 };

struct ag_report_gate_request { /* for `report`: see report_gate.h */
    const char *expressions[AG_REPORT_GATES];
    size_t n_expressions;
    const char *base, *junit, *sarif; /* paths; NULL: not given */
};

struct ag_report_request {
    const char *command; /* for messages */
    struct ag_profile_options profile;
    struct ag_symbol_options symbol; /* used by profile */
    struct ag_report_options report;
    const char *debug_dirs[AG_REPORT_DEBUG_DIRS];
    enum ag_colour colour;
    bool has_window; /* --from or --to was given */
    bool is_merged;  /* --merge */
    struct ag_report_gate_request gate;
    char filter[512]; /* the text of report.filter */
};
void ag_report_request_start(struct ag_report_request *request, const char *command);
const struct ag_option *ag_report_request_options(size_t *ret_count);
/* Copies the options with these NAMES (terminated by NULL), for a command that takes fewer than
 * `report`. Returns their number. */
size_t ag_report_request_choose(const char *const *names, struct ag_option *ret_options);
ag_option_set ag_report_request_set; /* its request is a struct ag_report_request */
int ag_report_request_finish(struct ag_report_request *request);
int ag_report_request_open(const struct ag_report_request *request, const char *path,
                           struct ag_profile **ret_profile);

#endif
