/* formats.c: has the table of all formats, prepares the input of the function that writes a format,
 * and calls it. See export.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "export/export.h"
#include "export/format_writer.h"
#include "model/answers/blamed_lines.h"
#include "model/answers/functions.h"
#include "text/nearest_name.h"

/* A format is folded by default if people read its stacks in a viewer that cannot hide the frames
 * of libraries itself, such as the flame graphs of folded and speedscope. pprof is folded, too: the
 * heap profiles of Go and the output of jeprof do not contain frames of the allocator either. The
 * other formats have all frames by default. In callgrind and heapprofile, users look for the cost
 * of each function, also of a library. Users compare files of heaptrack, firefox and massif with
 * files that heaptrack, the browser or valgrind made. Scripts read csv and json. dhat cannot be
 * folded: each of its points has the most bytes that this stack had in use at once, and these
 * maxima cannot be added if folding makes stacks equal. perf-map contains no stacks. */
static const struct format {
    const char *name;
    ag_export_writer *write;
    enum {
        BINARY = 1,
        OF_ONE_PROCESS = 2,
        HAS_CALLS = 4,    /* the format can contain counts of calls */
        MAY_BE_EMPTY = 8, /* a file without blocks is useful */
        FOLDS = 16,       /* stacks are folded unless the user wants all frames */
        NEVER_FOLDS = 32,
    } flags;
} formats[] = {
    {"pprof", ag_pprof_format, BINARY | HAS_CALLS | FOLDS},
    {"dhat", ag_dhat_format, NEVER_FOLDS},
    {"massif", ag_massif_format, 0},
    {"folded", ag_folded_format, HAS_CALLS | FOLDS},
    {"speedscope", ag_speedscope_format, HAS_CALLS | FOLDS},
    {"callgrind", ag_callgrind_format, 0},
    {"heapprofile", ag_heapprofile_format, 0},
    {"firefox", ag_firefox_format, 0},
    {"heaptrack", ag_heaptrack_format, OF_ONE_PROCESS},
    {"csv", ag_csv_format, MAY_BE_EMPTY},
    {"json", ag_json_format, MAY_BE_EMPTY},
    {"perf-map", ag_perf_map_format, OF_ONE_PROCESS | MAY_BE_EMPTY | NEVER_FOLDS},
};

static const struct format *format_find(const char *name) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(formats); i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

int ag_export_check(const char *name, char ret_message[512]) {
    const struct format *format = format_find(name);
    if (format) {
        return 0;
    }
    struct ag_nearest_name nearest;
    ag_nearest_name_start(&nearest, name);
    for (size_t i = 0; i < AG_ARRAY_SIZE(formats); i++) {
        ag_nearest_name_offer(&nearest, formats[i].name);
    }
    const char *hint = ag_nearest_name_hint(&nearest, "");
    size_t used = (size_t)snprintf(ret_message, 512, "%.100s: unknown format%s", name,
                                   hint[0] != '\0' ? hint : "; the formats are");
    for (size_t i = 0; i < AG_ARRAY_SIZE(formats) && hint[0] == '\0'; i++) {
        used += (size_t)snprintf(ret_message + used, 512 - used, " %s", formats[i].name);
    }
    return -EINVAL;
}

bool ag_export_is_binary(const char *name) {
    const struct format *format = format_find(name);
    return format && format->flags & BINARY;
}

bool ag_export_takes_several(const char *name) {
    const struct format *format = format_find(name);
    return format && !(format->flags & OF_ONE_PROCESS);
}

bool ag_export_can_fold(const char *name) {
    const struct format *format = format_find(name);
    return format && !(format->flags & NEVER_FOLDS);
}

/* Returns an error for a metric that cannot be estimated from samples. */
static int check_sampled(const struct ag_export_options *options, char ret_message[512]) {
    if (options->metric == AG_METRIC_TEMPORARY_BLOCKS) {
        snprintf(ret_message, 512,
                 "--metric=temporary_blocks: a sampled trace does not show which blocks were "
                 "temporary; record with --mode=exact");
        return -ENOTSUP;
    }
    return 0;
}

/* Returns the metric for a trace without blocks, which may have CPU samples or function
 * counters. */
static enum ag_call_metric metric_without_blocks(const struct ag_profile *profile,
                                                 const struct ag_functions *functions) {
    return ag_profile_has_only_samples(profile)   ? AG_CALL_METRIC_CALLS
           : ag_functions_is_time_only(functions) ? AG_CALL_METRIC_OWN_NS
                                                  : AG_CALL_METRIC_OWN_WORDS;
}

static int refuse_calls(const struct ag_export *export, const struct format *format,
                        char ret_message[512]) {
    const bool has_blocks = export->n_rows > 0;
    const char *name = ag_call_metric_name(export->call_metric);
    if (export->functions->n_trees == 0) {
        snprintf(ret_message, 512, "--to=%s: %s", format->name,
                 has_blocks ? "the trace has no function counters; traces of Erlang, Lua and "
                              "programs that count with allogram.h have them"
                            : "the trace has no blocks, or the filters select none");
        return -ENODATA;
    }
    if (!(format->flags & HAS_CALLS)) {
        snprintf(ret_message, 512, "--to=%s: %s; use folded, speedscope or pprof", format->name,
                 has_blocks ? "this format contains blocks, not the counts of functions"
                            : "the trace has no blocks, only functions with their counts");
        return -ENOTSUP;
    }
    if (ag_call_metric_of(&export->functions->total, export->call_metric) == 0) {
        snprintf(
            ret_message, 512,
            "--metric=%s: the metric is 0 for all functions that the filters select; choose another metric or other filters",
            name);
        return -ENODATA;
    }
    return 0;
}

/* Function counters count the calls, words and time of functions by call path. Selects their call
 * paths in place of the stacks if OPTIONS name a metric of the counters, or if the trace has no
 * stacks and an empty file is not allowed (may_be_empty, MAY_BE_EMPTY). Fails if there are no
 * counters then, or FORMAT cannot contain them. */
static int choose_calls(struct ag_export *export, const struct format *format,
                        const struct ag_export_options *options, char ret_message[512]) {
    const enum ag_call_metric metric = options->call_metric;
    const struct ag_functions *functions;
    if (metric == AG_CALL_METRIC_DEFAULT &&
        (export->n_rows > 0 || options->may_be_empty || format->flags & MAY_BE_EMPTY)) {
        return 0;
    }
    const int r = ag_profile_functions(export->profile, &functions);
    if (r < 0) {
        snprintf(ret_message, 512, "--to=%s: %s", format->name, strerror(-r));
        return r;
    }
    export->functions = functions;
    export->call_metric = metric != AG_CALL_METRIC_DEFAULT
                              ? metric
                              : metric_without_blocks(export->profile, functions);
    return refuse_calls(export, format, ret_message);
}

int ag_export_write(FILE *out, struct ag_profile *profile, const struct ag_export_options *options,
                    char ret_message[512]) {
    struct ag_export_options known = {0};
    memcpy(&known, options, options->size < sizeof(known) ? options->size : sizeof(known));
    int r = ag_export_check(known.format, ret_message);
    if (r < 0) {
        return r;
    }
    if (ag_profile_identity(profile)->is_sampled) {
        r = check_sampled(&known, ret_message);
        if (r < 0) {
            return r;
        }
    }
    struct ag_export export = {
        .out = out,
        .profile = profile,
        .metric = known.metric == AG_METRIC_DEFAULT ? AG_METRIC_ALLOCATED_BYTES : known.metric,
        .has_metric = known.metric != AG_METRIC_DEFAULT,
        .version = known.version ? known.version : "",
        .places = malloc(AG_PLACES_MOST * sizeof(*export.places)),
    };
    export.n_rows = ag_profile_stacks(profile, &export.rows);
    const struct format *format = format_find(known.format);
    r = choose_calls(&export, format, &known, ret_message);
    if (r < 0) {
        free(export.places);
        return r;
    }
    const bool folds = known.fold == AG_EXPORT_FOLD_AUTO ||
                       (known.fold == AG_EXPORT_FOLD_DEFAULT && (format->flags & FOLDS) != 0);
    if (folds && !export.functions) {
        bool is_folded;
        r = ag_profile_fold(profile, &is_folded);
    }
    r = r < 0 ? r : export.places ? format->write(&export) : -ENOMEM;
    free(export.places);
    free(export.frames);
    if (r < 0) {
        snprintf(ret_message, 512, "--to=%.100s: %s", known.format,
                 r == -ENODATA && format->write == ag_perf_map_format
                     ? "the stacks have no code that was compiled at run time; to write a perf "
                       "map of a running program: allogram observe PID --perf-map"
                     : strerror(-r));
    }
    return r;
}
