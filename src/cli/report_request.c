/* report_request.c: the options that filter a profile and print its views, for `report`, `diff` and
 * `explain`: a table of all options with their help, and functions that store each option in the
 * request. */
#include "cli/report_request.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "model/answers/blocks.h"
#include "text/nearest_name.h"

enum {
    OPTION_VIEW = AG_OPTION_LONG_ONLY,
    OPTION_JSON,
    OPTION_SORT,
    OPTION_LIMIT,
    OPTION_TO,
    OPTION_BY,
    OPTION_BOTTOM_UP,
    OPTION_FRAMES,
    OPTION_MIN,
    OPTION_MIN_COUNT,
    OPTION_WITHIN,
    OPTION_TAIL,
    OPTION_SUPPRESSIONS,
    OPTION_KNOWN,
    OPTION_COLOR,
    OPTION_AT,
    OPTION_MERGE,
    OPTION_TYPE,
    OPTION_STATE,
    OPTION_OLDER,
    OPTION_FINDINGS,
    OPTION_FAIL_IF,
    OPTION_BASE,
    OPTION_JUNIT,
    OPTION_SARIF,
    OPTION_TREE,
    OPTION_CALLERS,
    OPTION_BLAME,
    OPTION_FOLD,
};
static const struct ag_option table[] = {
    {OPTION_VIEW, "view", "VIEW",
     "summary (default), sites, tree, types, blocks, leaks, peak,\n"
     "temporary, lifetimes, timeline, functions, gc, threads, heaps,\n"
     "mappings, rss, process_tree"},
    {OPTION_JSON, "json", NULL, "print one JSON object instead of text"},
    {OPTION_SORT, "sort", "METRIC",
     "allocated_bytes, allocated_blocks, in_use_bytes, in_use_blocks,\n"
     "peak_bytes, peak_blocks, temporary_blocks, freed_bytes,\n"
     "freed_blocks; each view has its own default. functions: calls,\n"
     "own_words, own_bytes, own_ns, acc_words, acc_bytes, acc_ns"},
    {OPTION_LIMIT, "limit", "N", "rows, or children of a node: 20 in text, all in JSON; 0: all"},
    {AG_OPTION_FOCUS, "focus", "REGEX", "only stacks with a frame that matches"},
    {AG_OPTION_IGNORE, "ignore", "REGEX", "no stacks with a frame that matches"},
    {AG_OPTION_FROM, "from", "TIME",
     "only blocks allocated from this time on: seconds from the\n"
     "start, or a number with ns, us, ms, s, m, h"},
    {OPTION_TO, "to", "TIME",
     "only events before this time; 'in use' means: in use at\n"
     "this time"},
    {OPTION_OLDER, "older", NULL,
     "with --from: count older blocks as well (in the blocks that are\nin use, at the peak, and freed); "
     "reads the trace from its beginning"},
    {AG_OPTION_THREAD, "thread", "ID", "only allocations and frees of this thread"},
    {AG_OPTION_RUNTIME, "runtime", "NAME", "only blocks of this runtime (c: native blocks)"},
    {OPTION_BY, "by", "KEY",
     "sites, mappings: by function (default), line, stack, image,\n"
     "thread, heap, type, label, os_process; lifetimes: by function,\n"
     "line, image, type, label, os_process; functions: process,\n"
     "initial_call, os_process; gc: process; types, leaks, peak,\n"
     "temporary: os_process (a row for each trace; implies --merge)"},
    {OPTION_BOTTOM_UP, "bottom-up", NULL, "tree: from the allocating functions to their callers"},
    {OPTION_TREE, "tree", NULL, "functions: by call path, each function below its caller"},
    {OPTION_CALLERS, "callers", "FUNCTION",
     "functions: callers of this function, and what it allocated for\neach"},
    {OPTION_BLAME, "blame", NULL, "gc: the functions that caused the collections"},
    {OPTION_FRAMES, "frames", "N", "frames shown of each stack, or levels of the tree; 0: all"},
    {OPTION_FOLD, "fold", "auto|none",
     "auto: stacks begin at the program's own line, without frames of\n"
     "wrappers and libraries; none: all frames. Default: auto in text\n"
     "without --fail-if and --suppressions, otherwise none"},
    {OPTION_MIN, "min", "PERCENT", "tree: leave out smaller branches (1 in text, 0 in JSON)"},
    {OPTION_MIN_COUNT, "min-count", "N", "leave out rows with fewer blocks"},
    {OPTION_WITHIN, "within", "N", "temporary: freed after at most N other allocations (0)"},
    {OPTION_TAIL, "tail", "PERCENT", "leaks: leave out blocks of the last part of the recording"},
    {OPTION_SUPPRESSIONS, "suppressions", "FILE",
     "leaks: leave out stacks that match an LSan suppression file"},
    {OPTION_KNOWN, "known", "auto|none|list",
     "leaks: auto: leave out blocks that the C and C++ runtime keeps\n"
     "until the end; none: list them as all others; list: leave them\n"
     "out and say why. Default: auto in text, none in JSON"},
    {AG_OPTION_SYSROOT, "sysroot", "DIR", "look for images and debug files below DIR"},
    {AG_OPTION_DEBUG_DIR, "debug-dir", "DIR", "another folder with debug files; may be repeated"},
    {AG_OPTION_DEBUGINFOD, "debuginfod", NULL,
     "fetch debug files from the servers of $DEBUGINFOD_URLS"},
    AG_OPTIONS_OF_DECODERS,
    AG_OPTION_OF_QUIET,
    {OPTION_COLOR, "color", "WHEN", "auto (default), always, never"},
    {OPTION_MERGE, "merge", NULL, "several traces as one: sums, and the sum of their peaks"},
    {OPTION_AT, "at", "TIME", "peak: the blocks in use at another moment"},
    {OPTION_TYPE, "type", "NAME", "types: the stacks of this type; blocks: only blocks of it"},
    {OPTION_STATE, "state", "LIST",
     "blocks: any of open (never freed), closed (freed), inherited\n"
     "(allocated by the parent process before a fork), ghost (freed,\n"
     "with no recorded allocation), separated by commas"},
    {OPTION_FINDINGS, "findings", NULL, "summary: look for all findings, however large the trace"},
    {OPTION_FAIL_IF, "fail-if", "EXPR",
     "end with status 3 if this is true of a trace, such as\n"
     "'in_use_bytes_at_end > 1M'; may be repeated"},
    {OPTION_BASE, "base", "TRACE",
     "--fail-if: the trace to compare with; EXPR may contain base.KEY\nand growth.KEY"},
    {OPTION_JUNIT, "junit", "FILE", "--fail-if: write the results as JUnit XML"},
    {OPTION_SARIF, "sarif", "FILE",
     "--fail-if: write the results as SARIF 2.1.0, with file and line"},
};

/* Options that have another help text in one command than in `report`. */
static const struct {
    const char *command;
    struct ag_option option;
} own_rows[] = {
    {"diff", {OPTION_BY, "by", "KEY", "function (default), line, image, heap, type, label"}},
    {"explain",
     {OPTION_FINDINGS, "findings", NULL, "look for all findings, however large the trace"}},
};

static const char call_metrics[] = "calls own_words own_bytes own_ns acc_words acc_bytes acc_ns";
static const char metrics[] =
    "allocated_bytes allocated_blocks in_use_bytes in_use_blocks peak_bytes peak_blocks "
    "temporary_blocks freed_bytes freed_blocks";
static const char groups[] =
    "function line stack image thread heap os_process type label process initial_call";

/* stacks, threads and processes have different names in each run (see ag_difference_new) */
static const char groups_of_diff[] = "function line image heap type label";

static bool is_of_diff(const struct ag_report_request *request) {
    return strcmp(request->trace.command, "diff") == 0;
}

static int wrong_value(const struct ag_report_request *request, const char *option,
                       const char *value, const char *wanted) {
    return ag_fail(AG_EXIT_USAGE, "%s: --%s=%s: not %s", request->trace.command, option, value,
                   wanted);
}

/* Prints an error for VALUE, which is not one of NAMES, the valid values separated by blanks. */
static int unknown_name(const struct ag_report_request *request, const char *option,
                        const char *value, const char *names) {
    struct ag_nearest_name nearest;
    ag_nearest_name_start(&nearest, value);
    ag_nearest_name_offer_list(&nearest, names);
    const char *hint = ag_nearest_name_hint(&nearest, "");
    return ag_fail(AG_EXIT_USAGE, "%s: --%s=%s: not one of %s%s", request->trace.command, option,
                   value, names, hint);
}

static int unknown_metric(const struct ag_report_request *request, const char *value) {
    struct ag_nearest_name nearest;
    ag_nearest_name_start(&nearest, value);
    ag_nearest_name_offer_list(&nearest, metrics);
    ag_nearest_name_offer_list(&nearest, call_metrics);
    const char *hint = ag_nearest_name_hint(&nearest, "");
    return hint[0] != '\0'
               ? ag_fail(AG_EXIT_USAGE, "%s: --sort=%s: unknown metric%s", request->trace.command,
                         value, hint)
               : ag_fail(AG_EXIT_USAGE,
                         "%s: --sort=%s: unknown metric; the metrics are %s for --view=functions, "
                         "for other views %s",
                         request->trace.command, value, call_metrics, metrics);
}

static void add_filter(struct ag_report_request *request, const char *words, const char *value) {
    size_t used = strlen(request->filter);
    snprintf(request->filter + used, sizeof request->filter - used, "%s%s%s", used > 0 ? ", " : "",
             words, value);
    request->report.filter = request->filter;
}

/* Sets an option of the profile. The report shows those that filter what the profile counts. */
static int set_filter(struct ag_report_request *request, int id, const char *value) {
    static const struct {
        int id;
        const char *words;
    } filters[] = {
        {AG_OPTION_FOCUS, "stacks with "}, {AG_OPTION_IGNORE, "stacks without "},
        {AG_OPTION_FROM, "from "},         {OPTION_TO, "to "},
        {AG_OPTION_THREAD, "thread "},     {AG_OPTION_RUNTIME, "runtime "},
    };
    struct ag_profile_options *profile = &request->trace.profile;
    uint64_t number;
    char last[64];
    int status = AG_EXIT_OK;
    request->report.has_stack_filter |=
        id == AG_OPTION_FOCUS || id == AG_OPTION_IGNORE || id == AG_OPTION_RUNTIME;
    request->has_window |= id == AG_OPTION_FROM || id == OPTION_TO;
    for (size_t i = 0; i < AG_ARRAY_SIZE(filters); i++) {
        if (filters[i].id == id) {
            add_filter(request, filters[i].words, value);
        }
    }
    switch (id) {
    case OPTION_TO:
        return ag_trace_request_end_time(&request->trace, "to", value, &profile->to_ns);
    case OPTION_AT:
        status = ag_trace_request_end_time(&request->trace, "at", value, &profile->to_ns);
        /* the window excludes to_ns itself; one more ns includes events at exactly the time of
         * --at */
        profile->to_ns += profile->to_ns < UINT64_MAX;
        request->report.is_at_a_time = true;
        add_filter(request, "what was in use at ", value);
        return status;
    case OPTION_OLDER:
        profile->counts_older = true;
        add_filter(request, "and older blocks", "");
        return AG_EXIT_OK;
    case OPTION_WITHIN:
        if (!ag_parse_count(value, &number) || number > UINT32_MAX) {
            return wrong_value(request, "within", value, "a number of allocations");
        }
        profile->temporary_within = (uint32_t)number;
        return AG_EXIT_OK;
    case OPTION_TAIL:
        if (!ag_parse_percent(value, &profile->tail_percent)) {
            return wrong_value(request, "tail", value, "a percentage from 0 to 100");
        }
        snprintf(last, sizeof last, "%g %% of the recording", profile->tail_percent);
        add_filter(request, "blocks from before the last ", last);
        return AG_EXIT_OK;
    }
    return ag_trace_request_set(&request->trace, id, value);
}

static int set_states(struct ag_report_request *request, const char *value) {
    static const struct {
        const char *name;
        unsigned state;
    } names[] = {{"open", AG_BLOCK_OPEN},
                 {"closed", AG_BLOCK_CLOSED},
                 {"ghost", AG_BLOCK_GHOST},
                 {"inherited", AG_BLOCK_INHERITED}};
    unsigned states = 0;
    for (const char *at = value;;) {
        const size_t length = strcspn(at, ",");
        unsigned state = 0;
        for (size_t i = 0; i < AG_ARRAY_SIZE(names); i++) {
            if (strlen(names[i].name) == length && strncmp(names[i].name, at, length) == 0) {
                state = names[i].state;
            }
        }
        if (state == 0) {
            return unknown_name(request, "state", value, "open, closed, ghost, inherited");
        }
        states |= state;
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    request->report.states = states;
    return AG_EXIT_OK;
}

/* Sets an option of the view or of its layout. */
static int set_view(struct ag_report_request *request, int id, const char *value) {
    struct ag_report_options *report = &request->report;
    switch (id) {
    case OPTION_SORT:
        /* if --sort is given several times, the last one is used */
        report->sort = AG_METRIC_DEFAULT;
        report->call_sort = AG_CALL_METRIC_DEFAULT;
        return ag_metric_parse(value, &report->sort) ||
                       ag_call_metric_parse(value, &report->call_sort)
                   ? AG_EXIT_OK
                   : unknown_metric(request, value);
    case OPTION_LIMIT:
        return ag_parse_count(value, &report->limit)
                   ? AG_EXIT_OK
                   : wrong_value(request, "limit", value, "a number of rows");
    case OPTION_BY:
        if (!ag_report_parse_by(value, &report->by)) {
            return unknown_name(request, "by", value,
                                is_of_diff(request) ? groups_of_diff : groups);
        }
        request->trace.profile.call_group =
            report->by == AG_BY_PROCESS        ? AG_CALLS_BY_PROCESS
            : report->by == AG_BY_INITIAL_CALL ? AG_CALLS_BY_INITIAL_CALL
            : report->by == AG_BY_OS_PROCESS   ? AG_CALLS_BY_OS_PROCESS
                                               : AG_CALLS_TOGETHER;
        request->is_merged |= report->by == AG_BY_OS_PROCESS;
        return AG_EXIT_OK;
    case OPTION_FRAMES:
        if (!ag_parse_count(value, &report->frames)) {
            return wrong_value(request, "frames", value, "a number of frames");
        }
        report->frames = report->frames == 0 ? UINT64_MAX : report->frames;
        return AG_EXIT_OK;
    case OPTION_MIN:
        return ag_parse_percent(value, &report->min_share_percent)
                   ? AG_EXIT_OK
                   : wrong_value(request, "min", value, "a percentage from 0 to 100");
    case OPTION_MIN_COUNT:
        return ag_parse_count(value, &report->min_count)
                   ? AG_EXIT_OK
                   : wrong_value(request, "min-count", value, "a number of blocks");
    case OPTION_COLOR:
        return ag_colour_parse(value, &request->colour)
                   ? AG_EXIT_OK
                   : unknown_name(request, "color", value, "auto always never");
    }
    return AG_EXIT_USAGE;
}

int ag_report_request_set(void *context, int id, const char *value) {
    struct ag_report_request *request = context;
    struct ag_report_options *report = &request->report;
    struct ag_report_gate_request *gate = &request->gate;
    switch (id) {
    case OPTION_VIEW:
        report->view = value;
        break;
    case OPTION_JSON:
        report->is_json = true;
        break;
    case OPTION_FINDINGS:
        report->has_all_findings = true;
        break;
    case OPTION_BOTTOM_UP:
        report->is_bottom_up = true;
        break;
    case OPTION_TREE:
        report->is_tree = true;
        break;
    case OPTION_CALLERS:
        report->callers = value;
        break;
    case OPTION_BLAME:
        report->has_blame = true;
        break;
    case OPTION_FOLD:
        if (strcmp(value, "auto") != 0 && strcmp(value, "none") != 0) {
            return ag_fail(AG_EXIT_USAGE, "%s: --fold=%s: unknown value; use auto or none",
                           request->trace.command, value);
        }
        request->has_fold = true;
        report->folds = strcmp(value, "auto") == 0;
        break;
    case OPTION_KNOWN: {
        static const char *const values[] = {[AG_REPORT_KNOWN_NONE] = "none",
                                             [AG_REPORT_KNOWN_AUTO] = "auto",
                                             [AG_REPORT_KNOWN_LIST] = "list"};
        size_t i = 0;
        while (i < AG_ARRAY_SIZE(values) && strcmp(value, values[i]) != 0) {
            i++;
        }
        if (i == AG_ARRAY_SIZE(values)) {
            return ag_fail(AG_EXIT_USAGE, "%s: --known=%s: neither auto, none nor list",
                           request->trace.command, value);
        }
        report->has_known = true;
        report->known = (enum ag_report_known)i;
        break;
    }
    case OPTION_SUPPRESSIONS:
        report->suppressions_path = value;
        break;
    case OPTION_MERGE:
        request->is_merged = true;
        break;
    case OPTION_TYPE:
        report->type = value;
        break;
    case OPTION_STATE:
        return set_states(request, value);
    case OPTION_FAIL_IF:
        if (gate->n_expressions == AG_REPORT_GATES) {
            return ag_fail(AG_EXIT_USAGE, "%s: --fail-if: given more than %d times",
                           request->trace.command, AG_REPORT_GATES);
        }
        gate->expressions[gate->n_expressions++] = value;
        break;
    case OPTION_BASE:
        gate->base = value;
        break;
    case OPTION_JUNIT:
        gate->junit = value;
        break;
    case OPTION_SARIF:
        gate->sarif = value;
        break;
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
    return AG_EXIT_OK;
}

const struct ag_option *ag_report_request_options(size_t *ret_count) {
    *ret_count = AG_ARRAY_SIZE(table);
    return table;
}

static struct ag_option row_of(const char *command, const struct ag_option *option) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(own_rows); i++) {
        if (own_rows[i].option.id == option->id && strcmp(own_rows[i].command, command) == 0) {
            return own_rows[i].option;
        }
    }
    return *option;
}

size_t ag_report_request_choose(const char *command, const char *const *names,
                                struct ag_option *ret_options) {
    size_t count = 0;
    for (; *names; names++) {
        for (size_t i = 0; i < AG_ARRAY_SIZE(table); i++) {
            if (table[i].name && strcmp(table[i].name, *names) == 0) {
                ret_options[count++] = row_of(command, &table[i]);
            }
        }
    }
    return count;
}

void ag_report_request_values(int id, char ret_values[AG_OPTION_VALUES_BYTES]) {
    char message[512];
    switch (id) {
    case OPTION_VIEW: {
        static const char before[] = "the views are ";
        (void)ag_report_check_view("", message); /* the message lists all views */
        const char *names = strstr(message, before);
        (void)snprintf(ret_values, AG_OPTION_VALUES_BYTES, "%s",
                       names != NULL ? names + sizeof before - 1 : "");
        break;
    }
    case OPTION_SORT:
        (void)snprintf(ret_values, AG_OPTION_VALUES_BYTES, "%s %s", metrics, call_metrics);
        break;
    case OPTION_BY:
        (void)snprintf(ret_values, AG_OPTION_VALUES_BYTES, "%s", groups);
        break;
    case OPTION_STATE:
        (void)snprintf(ret_values, AG_OPTION_VALUES_BYTES, "open closed ghost inherited");
        break;
    case OPTION_COLOR:
        (void)snprintf(ret_values, AG_OPTION_VALUES_BYTES, "auto always never");
        break;
    }
}

void ag_report_request_diff_values(int id, char ret_values[AG_OPTION_VALUES_BYTES]) {
    if (id == OPTION_BY) {
        (void)snprintf(ret_values, AG_OPTION_VALUES_BYTES, "%s", groups_of_diff);
    } else {
        ag_report_request_values(id, ret_values);
    }
}

void ag_report_request_start(struct ag_report_request *request, const char *command) {
    *request = (struct ag_report_request){
        .report = {.size = sizeof request->report,
                   .limit = AG_REPORT_USUAL_LIMIT,
                   .min_share_percent = -1},
    };
    ag_trace_request_start(&request->trace, command);
}

int ag_report_request_finish(struct ag_report_request *request) {
    const struct ag_profile_options *profile = &request->trace.profile;
    if (request->report.is_at_a_time && request->has_window) {
        return ag_fail(AG_EXIT_USAGE, "%s: --at cannot be combined with --from or --to",
                       request->trace.command);
    }
    if (profile->counts_older && profile->from_ns == 0) {
        return ag_fail(AG_EXIT_USAGE,
                       "%s: --older requires --from; without --from, all blocks are counted",
                       request->trace.command);
    }
    if (profile->to_ns != 0 && profile->to_ns <= profile->from_ns) {
        return ag_fail(AG_EXIT_USAGE, "%s: --to must be later than --from", request->trace.command);
    }
    if (!request->has_fold) {
        /* conditions of --fail-if and suppressions may name any function of a stack, so no frame
         * may be left out */
        request->report.folds = !request->report.is_json && request->gate.n_expressions == 0 &&
                                request->report.suppressions_path == NULL;
    } else if (request->report.folds &&
               (request->gate.n_expressions > 0 || request->report.suppressions_path != NULL)) {
        return ag_fail(AG_EXIT_USAGE,
                       "%s: --fold=auto cannot be combined with --fail-if or --suppressions, which "
                       "name any function of a stack",
                       request->trace.command);
    }
    if (!request->report.has_known && !request->report.is_json) {
        request->report.known = AG_REPORT_KNOWN_AUTO;
    }
    request->trace.prints_early =
        request->report.is_json; /* the JSON of --view=blocks is written while the trace is read */
    request->report.has_window = request->has_window;
    request->report.columns = ag_terminal_columns();
    request->report.has_colour = ag_terminal_has_colour(request->colour);
    return AG_EXIT_OK;
}
