/* report.c: `allogram report`: options to a profile and a view, trace by trace. */
#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "collect/collector.h"
#include "model/profile.h"
#include "report/report.h"

enum {
    OPTION_VIEW = AG_OPTION_LONG_ONLY,
    OPTION_JSON,
    OPTION_SORT,
    OPTION_LIMIT,
    OPTION_FOCUS,
    OPTION_IGNORE,
    OPTION_FROM,
    OPTION_TO,
    OPTION_THREAD,
    OPTION_RUNTIME,
    OPTION_BY,
    OPTION_BOTTOM_UP,
    OPTION_FRAMES,
    OPTION_MIN,
    OPTION_MIN_COUNT,
    OPTION_WITHIN,
    OPTION_TAIL,
    OPTION_SUPPRESSIONS,
    OPTION_SYSROOT,
    OPTION_DEBUG_DIR,
    OPTION_DEBUGINFOD,
    OPTION_COLOR,
    OPTION_AT,
    OPTION_MERGE,
};
static const struct ag_option table[] = {
    {OPTION_VIEW, "view", "VIEW",
     "summary (default), sites, tree, leaks, peak, temporary,\n"
     "timeline, threads, heaps"},
    {OPTION_JSON, "json", NULL, "one JSON object instead of text"},
    {OPTION_SORT, "sort", "METRIC",
     "allocated_bytes, allocated_blocks, in_use_bytes, in_use_blocks,\n"
     "peak_bytes, peak_blocks, temporary_blocks, freed_bytes,\n"
     "freed_blocks; each view has its own default"},
    {OPTION_LIMIT, "limit", "N", "rows, or children of a node: 20 in text, all in JSON; 0: all"},
    {OPTION_FOCUS, "focus", "REGEX", "only stacks with a frame that matches"},
    {OPTION_IGNORE, "ignore", "REGEX", "no stacks with a frame that matches"},
    {OPTION_FROM, "from", "TIME",
     "only what happened since then: seconds from the start, or a\n"
     "number with ns, us, ms, s, m, h"},
    {OPTION_TO, "to", "TIME", "only what happened until then"},
    {OPTION_THREAD, "thread", "ID", "only what this thread did"},
    {OPTION_RUNTIME, "runtime", "NAME", "only blocks of this runtime"},
    {OPTION_BY, "by", "KEY", "sites: by function (default), line, stack, image, thread, heap"},
    {OPTION_BOTTOM_UP, "bottom-up", NULL, "tree: from the allocating functions to their callers"},
    {OPTION_FRAMES, "frames", "N", "frames kept of each stack, or levels of the tree; 0: all"},
    {OPTION_MIN, "min", "PERCENT", "tree: leave out what has less (1 in text, 0 in JSON)"},
    {OPTION_MIN_COUNT, "min-count", "N", "leave out rows with fewer blocks"},
    {OPTION_WITHIN, "within", "N", "temporary: freed after at most N other allocations (0)"},
    {OPTION_TAIL, "tail", "PERCENT", "leaks: not the blocks of this last part of the recording"},
    {OPTION_SUPPRESSIONS, "suppressions", "FILE",
     "leaks: leave out what a suppression file of LSan names"},
    {OPTION_SYSROOT, "sysroot", "DIR", "look for images and debug files below DIR"},
    {OPTION_DEBUG_DIR, "debug-dir", "DIR", "one more place for debug files; may be given often"},
    {OPTION_DEBUGINFOD, "debuginfod", NULL,
     "fetch debug files from the servers of $DEBUGINFOD_URLS"},
    {OPTION_COLOR, "color", "WHEN", "auto (default), always, never"},
    {OPTION_MERGE, "merge", NULL, "several traces as one (not in this version)"},
    {OPTION_AT, "at", "TIME", "peak: any other moment (not in this version)"},
};
enum { MAX_DEBUG_DIRS = 64 };

struct request { /* what the command line asks for */
    struct ag_profile_options profile;
    struct ag_report_options report;
    const char *debug_dirs[MAX_DEBUG_DIRS];
    enum ag_colour colour;
    char filter[512]; /* the words behind report.filter */
};

static int wrong_value(const char *option, const char *value, const char *wanted) {
    return ag_fail(AG_EXIT_USAGE, "report: --%s=%s: not %s", option, value, wanted);
}

static void add_filter(struct request *request, const char *words, const char *value) {
    size_t used = strlen(request->filter);
    snprintf(request->filter + used, sizeof request->filter - used, "%s%s%s", used > 0 ? ", " : "",
             words, value);
    request->report.filter = request->filter;
}

/* A pattern that does not compile is a mistake of the command line, so it is told before any trace
 * is opened. */
static int check_regex(const char *option, const char *value) {
    regex_t regex;
    int error = regcomp(&regex, value, REG_EXTENDED | REG_NOSUB);
    if (error == 0) {
        regfree(&regex);
        return AG_EXIT_OK;
    }
    char why[200];
    regerror(error, &regex, why, sizeof why);
    return ag_fail(AG_EXIT_USAGE, "report: --%s=%s: not a regular expression: %s", option, value,
                   why);
}

/* Options that narrow what the profile counts. */
static int set_filter(struct request *request, int id, const char *value) {
    struct ag_profile_options *profile = &request->profile;
    uint64_t number;
    request->report.has_stack_filter |=
        id == OPTION_FOCUS || id == OPTION_IGNORE || id == OPTION_RUNTIME;
    switch (id) {
    case OPTION_FOCUS:
        profile->focus = value;
        add_filter(request, "stacks with ", value);
        return check_regex("focus", value);
    case OPTION_IGNORE:
        profile->ignore = value;
        add_filter(request, "stacks without ", value);
        return check_regex("ignore", value);
    case OPTION_FROM:
        if (!ag_parse_time(value, &profile->from_ns)) {
            return wrong_value("from", value, "a time such as 1.5, 250ms or 2m");
        }
        add_filter(request, "from ", value);
        return AG_EXIT_OK;
    case OPTION_TO:
        if (!ag_parse_time(value, &profile->to_ns) || profile->to_ns == 0) {
            return wrong_value("to", value, "a time after the start such as 1.5, 250ms or 2m");
        }
        add_filter(request, "to ", value);
        return AG_EXIT_OK;
    case OPTION_THREAD:
        if (!ag_parse_count(value, &number) || number > INT32_MAX) {
            return wrong_value("thread", value, "the number of a thread");
        }
        profile->thread = (int64_t)number;
        add_filter(request, "thread ", value);
        return AG_EXIT_OK;
    case OPTION_RUNTIME:
        profile->runtime = value;
        add_filter(request, "runtime ", value);
        return AG_EXIT_OK;
    case OPTION_WITHIN:
        if (!ag_parse_count(value, &number) || number > UINT32_MAX) {
            return wrong_value("within", value, "a number of allocations");
        }
        profile->temporary_within = (uint32_t)number;
        return AG_EXIT_OK;
    case OPTION_TAIL:
        if (!ag_parse_percent(value, &profile->tail_percent)) {
            return wrong_value("tail", value, "a percentage from 0 to 100");
        }
        char last[64];
        snprintf(last, sizeof last, "%g %% of the recording", profile->tail_percent);
        add_filter(request, "blocks from before the last ", last);
        return AG_EXIT_OK;
    }
    return AG_EXIT_USAGE;
}

/* Options of the view and of the paper it stands on. */
static int set_view(struct request *request, int id, const char *value) {
    struct ag_report_options *report = &request->report;
    switch (id) {
    case OPTION_SORT:
        return ag_metric_parse(value, &report->sort)
                   ? AG_EXIT_OK
                   : wrong_value("sort", value, "a metric; allogram report --help lists them");
    case OPTION_LIMIT:
        return ag_parse_count(value, &report->limit)
                   ? AG_EXIT_OK
                   : wrong_value("limit", value, "a number of rows");
    case OPTION_BY:
        return ag_report_parse_by(value, &report->by)
                   ? AG_EXIT_OK
                   : wrong_value("by", value, "one of function line stack image thread heap");
    case OPTION_FRAMES:
        return ag_parse_count(value, &report->frames)
                   ? AG_EXIT_OK
                   : wrong_value("frames", value, "a number of frames");
    case OPTION_MIN:
        return ag_parse_percent(value, &report->min_share_percent)
                   ? AG_EXIT_OK
                   : wrong_value("min", value, "a percentage from 0 to 100");
    case OPTION_MIN_COUNT:
        return ag_parse_count(value, &report->min_count)
                   ? AG_EXIT_OK
                   : wrong_value("min-count", value, "a number of blocks");
    case OPTION_COLOR:
        return ag_colour_parse(value, &request->colour)
                   ? AG_EXIT_OK
                   : wrong_value("color", value, "one of auto always never");
    }
    return AG_EXIT_USAGE;
}

static int set_option(struct request *request, int id, const char *value) {
    struct ag_symbol_options *symbol = &request->profile.symbol;
    switch (id) {
    case OPTION_VIEW:
        request->report.view = value;
        return AG_EXIT_OK;
    case OPTION_JSON:
        request->report.is_json = true;
        return AG_EXIT_OK;
    case OPTION_BOTTOM_UP:
        request->report.is_bottom_up = true;
        return AG_EXIT_OK;
    case OPTION_SUPPRESSIONS:
        request->report.suppressions_path = value;
        return AG_EXIT_OK;
    case OPTION_SYSROOT:
        symbol->sysroot = value;
        return AG_EXIT_OK;
    case OPTION_DEBUG_DIR:
        if (symbol->n_debug_dirs == MAX_DEBUG_DIRS) {
            return ag_fail(AG_EXIT_USAGE, "report: --debug-dir=%s: more than %d of them", value,
                           MAX_DEBUG_DIRS);
        }
        request->debug_dirs[symbol->n_debug_dirs++] = value;
        return AG_EXIT_OK;
    case OPTION_DEBUGINFOD:
        symbol->allow_debuginfod = true;
        return AG_EXIT_OK;
    case OPTION_MERGE:
        return ag_fail(
            AG_EXIT_FAILURE,
            "report: --merge: this version cannot do this yet; without it each trace has a "
            "section of its own");
    case OPTION_AT:
        return ag_fail(
            AG_EXIT_FAILURE,
            "report: --at: this version cannot do this yet; --from and --to narrow a view");
    case OPTION_SORT:
    case OPTION_LIMIT:
    case OPTION_BY:
    case OPTION_FRAMES:
    case OPTION_MIN:
    case OPTION_MIN_COUNT:
    case OPTION_COLOR:
        return set_view(request, id, value);
    default:
        return set_filter(request, id, value);
    }
}

static int report_trace(struct ag_report *report, const struct request *request, const char *path) {
    char message[512] = "";
    /* A trace whose session was killed is completed first. What cannot be completed can often be
     * read all the same. */
    int r = ag_collector_seal(path, message);
    bool was_sealed = r >= 0;
    struct ag_profile *profile;
    char open_message[512] = "";
    r = ag_profile_open(path, &request->profile, &profile, open_message);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "report: %s", open_message);
    }
    if (!was_sealed && message[0] != '\0') {
        ag_say("report: %s; going on with what is there", message);
    }
    r = ag_report_add(report, profile, message);
    ag_profile_close(profile);
    return r < 0 ? ag_fail(AG_EXIT_FAILURE, "report: %s: %s", path, message) : AG_EXIT_OK;
}

static int report_traces(const struct request *request, char **paths, int n_paths) {
    struct ag_report *report;
    char message[512];
    int r = ag_report_start(stdout, &request->report, (size_t)n_paths, &report, message);
    if (r < 0) {
        return ag_fail(r == -EINVAL ? AG_EXIT_USAGE : AG_EXIT_FAILURE, "report: %s", message);
    }
    int status = AG_EXIT_OK;
    for (int i = 0; i < n_paths; i++) {
        int trace_status = report_trace(report, request, paths[i]);
        status = trace_status != AG_EXIT_OK ? trace_status : status;
    }
    ag_report_finish(report);
    return status;
}

int ag_command_report(int argc, char **argv) {
    struct request request = {
        .profile = {.size = sizeof request.profile,
                    .thread = -1,
                    .symbol = {.size = sizeof request.profile.symbol}},
        .report = {.size = sizeof request.report,
                   .limit = AG_REPORT_USUAL_LIMIT,
                   .min_share_percent = -1},
    };
    request.profile.symbol.debug_dirs = request.debug_dirs;
    struct ag_options options = {
        .usage = "report TRACE... [OPTIONS]",
        .about = "Tables and trees of one or several traces, for a person or as JSON.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
    };
    ag_options_start(&options, argc, argv);
    int status = AG_EXIT_OK;
    for (int id; status == AG_EXIT_OK && (id = ag_options_next(&options)) != 0;) {
        if (id == AG_OPTIONS_STOP) {
            return options.status;
        }
        status = set_option(&request, id, options.value);
    }
    if (status == AG_EXIT_OK && options.n_operands == 0) {
        return ag_fail(AG_EXIT_USAGE, "report: no trace given; usage: allogram %s", options.usage);
    }
    if (status != AG_EXIT_OK) {
        return status;
    }
    if (request.profile.to_ns != 0 && request.profile.to_ns <= request.profile.from_ns) {
        return ag_fail(AG_EXIT_USAGE,
                       "report: --to is not after --from: nothing lies between them");
    }
    request.report.columns = ag_terminal_columns();
    request.report.has_colour = ag_terminal_has_colour(request.colour);
    return report_traces(&request, options.operands, options.n_operands);
}
