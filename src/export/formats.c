/* formats.c: the table of all formats, and the call of a format's writer with its input. See
 * export.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "export/export.h"
#include "export/format_writer.h"
#include "text/nearest_name.h"

static const struct format {
    const char *name;
    ag_export_writer *write;
    bool is_binary, is_of_one_process;
} formats[] = {
    {"pprof", ag_pprof_format, true, false},
    {"dhat", ag_dhat_format, false, false},
    {"massif", ag_massif_format, false, false},
    {"folded", ag_folded_format, false, false},
    {"speedscope", ag_speedscope_format, false, false},
    {"callgrind", ag_callgrind_format, false, false},
    {"heapprofile", ag_heapprofile_format, false, false},
    {"firefox", ag_firefox_format, false, false},
    {"heaptrack", ag_heaptrack_format, false, true},
    {"csv", ag_csv_format, false, false},
    {"json", ag_json_format, false, false},
    {"perf-map", ag_perf_map_format, false, true},
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
    return format && format->is_binary;
}

bool ag_export_takes_several(const char *name) {
    const struct format *format = format_find(name);
    return format && !format->is_of_one_process;
}

/* Rejects a metric that samples cannot show. */
static int check_sampled(const struct ag_export_options *options, char ret_message[512]) {
    if (options->metric == AG_METRIC_TEMPORARY_BLOCKS) {
        snprintf(ret_message, 512,
                 "--metric=temporary_blocks: a sampled trace does not show which blocks were "
                 "temporary; record with --mode=exact");
        return -ENOTSUP;
    }
    return 0;
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
    r = export.places ? format_find(known.format)->write(&export) : -ENOMEM;
    free(export.places);
    free(export.frames);
    if (r < 0) {
        snprintf(ret_message, 512, "--to=%.100s: %s", known.format,
                 r == -ENODATA
                     ? "the stacks have no code that was compiled at run time; to write a perf "
                       "map of a running program: allogram observe PID --perf-map"
                     : strerror(-r));
    }
    return r;
}
