/* export.c: `allogram export`: writes a trace in the format of another tool, to a new file or to
 * standard output. No existing file is replaced. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "export/export.h"
#include "model/profile.h"
#include "text/nearest_name.h"

enum {
    OPTION_TO = AG_OPTION_LONG_ONLY,
    OPTION_METRIC,
    OPTION_UNTIL,
    OPTION_MERGE,
    OPTION_FOLD,
    OPTION_ALLOW_EMPTY
};
static const struct ag_option table[] = {
    {OPTION_TO, "to", "FORMAT",
     "pprof, dhat, massif, folded, speedscope, callgrind, heapprofile,\n"
     "firefox, heaptrack, csv, json, perf-map"},
    {'o', "output", "FILE", "file to create (default, or -: standard output)"},
    {OPTION_METRIC, "metric", "METRIC",
     "for formats that contain, or show first, one number:\n"
     "allocated_bytes (default), allocated_blocks, in_use_bytes,\n"
     "in_use_blocks, peak_bytes, peak_blocks, temporary_blocks,\n"
     "freed_bytes, freed_blocks; for counted functions (pprof, folded,\n"
     "speedscope): calls, own_words, own_bytes, own_ns"},
    {AG_OPTION_FROM, "from", "TIME",
     "start of the window: seconds, or a number with ns, us, ms, s, m, h"},
    {OPTION_UNTIL, "until", "TIME", "end of the window, like --to of report"},
    {OPTION_MERGE, "merge", NULL, "several traces as one, like report --merge"},
    {OPTION_FOLD, "fold", "auto|none",
     "auto: without frames of wrappers and libraries (default of pprof,\n"
     "folded and speedscope); none: all frames (default of the others)"},
    AG_OPTION_OF_QUIET,
    {OPTION_ALLOW_EMPTY, "allow-empty", NULL, "write an empty profile if there are no blocks"},
    {AG_OPTION_FOCUS, "focus", "REGEX", "only stacks with a frame that matches"},
    {AG_OPTION_IGNORE, "ignore", "REGEX", "no stacks with a frame that matches"},
    {AG_OPTION_THREAD, "thread", "ID", "only allocations and frees of this thread"},
    {AG_OPTION_RUNTIME, "runtime", "NAME", "only blocks of this runtime (c: native blocks)"},
    {AG_OPTION_SYSROOT, "sysroot", "DIR", "look for images and debug files below DIR"},
    {AG_OPTION_DEBUG_DIR, "debug-dir", "DIR", "another folder with debug files; may be repeated"},
    AG_OPTIONS_OF_DECODERS,
    {AG_OPTION_DEBUGINFOD, "debuginfod", NULL,
     "fetch debug files from the servers of $DEBUGINFOD_URLS"},
};

struct request { /* what the command line requests */
    struct ag_trace_request trace;
    struct ag_export_options export;
    const char *output; /* NULL: standard output */
    bool is_merged;
};

static void write_metrics(char *names, size_t n_bytes) {
    names[0] = '\0';
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        const size_t used = strlen(names);
        snprintf(names + used, n_bytes - used, " %s", ag_metric_name(metric));
    }
    for (enum ag_call_metric metric = AG_CALL_METRIC_CALLS; metric < AG_CALL_METRIC_ACC_WORDS;
         metric++) {
        const size_t used = strlen(names);
        snprintf(names + used, n_bytes - used, " %s", ag_call_metric_name(metric));
    }
}

static void write_values(int id, char ret_values[AG_OPTION_VALUES_BYTES]) {
    static const char before[] = "the formats are ";
    char message[512];
    (void)ag_export_check("", message); /* the message lists all formats */
    const char *names = strstr(message, before);
    if (id == OPTION_TO) {
        (void)snprintf(ret_values, AG_OPTION_VALUES_BYTES, "%s",
                       names != NULL ? names + sizeof before - 1 : "");
    } else if (id == OPTION_METRIC) {
        write_metrics(ret_values, AG_OPTION_VALUES_BYTES);
    }
}

static int wrong_metric(const char *value) {
    char names[AG_OPTION_VALUES_BYTES];
    write_metrics(names, sizeof names);
    struct ag_nearest_name nearest;
    ag_nearest_name_start(&nearest, value);
    ag_nearest_name_offer_list(&nearest, names);
    const char *hint = ag_nearest_name_hint(&nearest, "");
    return ag_fail(AG_EXIT_USAGE, "export: --metric=%s: unknown metric%s%s", value,
                   hint[0] != '\0' ? hint : "; the metrics are", hint[0] != '\0' ? "" : names);
}

static int set_metric(struct request *request, const char *value) {
    request->export.metric = AG_METRIC_DEFAULT;
    request->export.call_metric = AG_CALL_METRIC_DEFAULT;
    if (ag_metric_parse(value, &request->export.metric)) {
        return AG_EXIT_OK;
    }
    if (!ag_call_metric_parse(value, &request->export.call_metric)) {
        return wrong_metric(value);
    }
    return request->export.call_metric < AG_CALL_METRIC_ACC_WORDS
               ? AG_EXIT_OK
               : ag_fail(
                     AG_EXIT_USAGE,
                     "export: --metric=%s: an export contains the own counts of each call path, to "
                     "which its viewer adds the counts of the callees; use own_%s",
                     value, value + strlen("acc_"));
}

/* Whether VALUE is a time. The option --to of `report` takes a time, so users may confuse it with
 * --to of `export`. */
static bool is_a_time(const char *value) {
    uint64_t time_ns;
    return ag_parse_time(value, &time_ns);
}

static int set_format(struct request *request, const char *value) {
    char message[512];
    if (is_a_time(value)) {
        return ag_fail(AG_EXIT_USAGE,
                       "export: --to=%s: --to names the format; --until=%s ends the time window",
                       value, value);
    }
    const int r = ag_export_check(value, message);
    request->export.format = value;
    return r == 0 ? AG_EXIT_OK : ag_fail(AG_EXIT_USAGE, "export: --to=%s", message);
}

static int set_option(void *context, int id, const char *value) {
    struct request *request = context;
    switch (id) {
    case OPTION_TO:
        return set_format(request, value);
    case 'o':
        request->output = strcmp(value, "-") == 0 ? NULL : value;
        return AG_EXIT_OK;
    case OPTION_METRIC:
        return set_metric(request, value);
    case OPTION_UNTIL:
        return ag_trace_request_end_time(&request->trace, "until", value,
                                         &request->trace.profile.to_ns);
    case OPTION_FOLD:
        if (strcmp(value, "auto") != 0 && strcmp(value, "none") != 0) {
            return ag_fail(AG_EXIT_USAGE, "export: --fold=%s: unknown value; use auto or none",
                           value);
        }
        request->export.fold =
            strcmp(value, "auto") == 0 ? AG_EXPORT_FOLD_AUTO : AG_EXPORT_FOLD_NONE;
        return AG_EXIT_OK;
    case OPTION_ALLOW_EMPTY:
        request->export.may_be_empty = true;
        return AG_EXIT_OK;
    case OPTION_MERGE:
        request->is_merged = true;
        return AG_EXIT_OK;
    }
    return ag_trace_request_set(&request->trace, id, value);
}

static int write_new_file(const struct request *request, const char *trace,
                          struct ag_profile *profile) {
    char message[512] = "";
    struct ag_output_file file;
    int status = ag_output_file_open(&file, "export", NULL, request->output, AG_OUTPUT_IS_NEW);
    if (status != AG_EXIT_OK) {
        return status;
    }
    const int r = ag_export_write(file.out, profile, &request->export, message);
    /* if the file could not be written, ag_output_file_close prints the only message */
    if (r < 0 && !ferror(file.out)) {
        status = ag_fail(AG_EXIT_FAILURE, "export: %s: %s", trace, message);
    }
    return ag_output_file_close(&file, status);
}

static int export_traces(struct request *request, char **paths, int n_paths) {
    struct ag_profile *profile;
    if (n_paths > 1) {
        ag_trace_request_share_files(&request->trace);
    }
    int status = n_paths == 1
                     ? ag_trace_request_open(&request->trace, paths[0], &profile)
                     : ag_trace_request_open_merged(&request->trace, paths, n_paths, &profile);
    if (status != AG_EXIT_OK) {
        ag_trace_request_unshare_files(&request->trace);
        return status;
    }
    char message[512] = "";
    if (request->output) {
        status = write_new_file(request, paths[0], profile);
    } else if (ag_export_write(stdout, profile, &request->export, message) < 0) {
        status = ag_fail(AG_EXIT_FAILURE, "export: %s: %s", paths[0], message);
    }
    /* if standard output fails, ag_stdout_finish prints the only message */
    if (status == AG_EXIT_OK && (request->output || fflush(stdout) == 0)) {
        ag_say_what_is_missing("export", profile);
    }
    ag_profile_close(profile);
    ag_trace_request_unshare_files(&request->trace);
    return status;
}

/* Checks combinations of options. */
static int check_request(const struct request *request, const struct ag_options *options) {
    if (options->n_operands == 0 || (options->n_operands > 1 && !request->is_merged)) {
        return ag_options_refuse_operands(
            options, "trace", "one trace (--merge combines several)",
            "export allogram.ls.4711.allogram --to=pprof -o ls.pb.gz");
    }
    if (!request->export.format) {
        char message[512];
        (void)ag_export_check("", message);
        return ag_fail(AG_EXIT_USAGE, "export: no format given; use --to=FORMAT%s",
                       strstr(message, "; the formats are") ? strstr(message, "; the formats are")
                                                            : "");
    }
    if (options->n_operands > 1 && !ag_export_takes_several(request->export.format)) {
        return ag_fail(AG_EXIT_USAGE,
                       "export: --to=%s --merge: this format holds one process; export each trace "
                       "separately",
                       request->export.format);
    }
    if (request->export.fold == AG_EXPORT_FOLD_AUTO &&
        !ag_export_can_fold(request->export.format)) {
        return ag_fail(
            AG_EXIT_USAGE, "export: --fold=auto --to=%s: %s", request->export.format,
            strcmp(request->export.format, "dhat") == 0
                ? "this format has the peak of each stack, and the peaks of merged stacks "
                  "cannot be added; use --fold=none, or another format such as pprof"
                : "this format contains no stacks that could be folded; use --fold=none");
    }
    if (request->trace.profile.to_ns != 0 &&
        request->trace.profile.to_ns <= request->trace.profile.from_ns) {
        return ag_fail(AG_EXIT_USAGE, "export: --until must be later than --from");
    }
    if (!request->output && ag_export_is_binary(request->export.format) && isatty(STDOUT_FILENO)) {
        return ag_fail(AG_EXIT_USAGE,
                       "export: --to=%s: refusing to write binary data to a terminal; use -o FILE",
                       request->export.format);
    }
    return AG_EXIT_OK;
}

int ag_command_export(int argc, char **argv) {
    struct request request = {
        .export = {.size = sizeof request.export, .version = AG_VERSION},
    };
    ag_trace_request_start(&request.trace, "export");
    struct ag_options options = {
        .usage = "export TRACE... --to=FORMAT [-o FILE] [OPTIONS]",
        .about = "Writes a trace in the format of another tool; its sums equal those of a report.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
        .write_values = write_values,
    };
    if (!ag_options_read(&options, argc, argv, set_option, &request)) {
        return options.status;
    }
    request.trace.prints_early = request.output == NULL;
    const int status = check_request(&request, &options);
    return status == AG_EXIT_OK ? export_traces(&request, options.operands, options.n_operands)
                                : status;
}
