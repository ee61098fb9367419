/* export.h: writes a profile in the format of another tool, so that users can examine the profile
 * with that tool.
 *
 *     struct ag_export_options options = {.size = sizeof options, .format = "pprof"};
 *     r = ag_export_write(out, profile, &options, message);
 *
 * The sums in a format are exactly those of the profile's summary. What a format cannot express is
 * left out. Two exports of one trace have the same bytes. The memory that an export needs grows
 * with the number of stacks, not with the number of events. Each format has a file FORMAT_format.c;
 * its head describes the format and names the specification. */
#ifndef AG_EXPORT_H
#define AG_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "model/metric.h"
#include "model/profile.h"

struct ag_export_options {
    size_t size;
    const char *format;
    enum ag_metric metric; /* for formats that contain only one metric, or show one metric first */
    /* A metric of function counters (counts of calls, words and time for each path of calls): the
     * export then contains call paths in place of stacks of blocks. AG_CALL_METRIC_DEFAULT: blocks;
     * if the trace has no blocks, its function counters or CPU samples. */
    enum ag_call_metric call_metric;
    /* Whether the export of a trace without blocks succeeds. In csv and json it always succeeds. */
    bool may_be_empty;
    /* Whether stacks are exported as ag_profile_fold (model/answers/blamed_lines.h) folds them. */
    enum ag_export_fold {
        AG_EXPORT_FOLD_DEFAULT, /* as is best for the tools that read the format (formats.c) */
        AG_EXPORT_FOLD_AUTO,
        AG_EXPORT_FOLD_NONE
    } fold;
    /* version of allogram, for formats that contain the name of their creator; NULL: none */
    const char *version;
};
/* Checks whether FORMAT is the name of a format. Returns 0, or -EINVAL with a message that contains
 * a similar name, or else all names. */
int ag_export_check(const char *format, char ret_message[512]);
/* whether the output must not be written to a terminal */
bool ag_export_is_binary(const char *format);
/* Whether FORMAT can contain several merged processes. heaptrack (the history of all events) and
 * perf-map (addresses of one process) cannot. */
bool ag_export_takes_several(const char *format);
/* Whether stacks of FORMAT can be folded. */
bool ag_export_can_fold(const char *format);
/* Returns 0 or a negative errno with a message. Errors of writing to OUT are not returned; the
 * caller checks ferror(OUT). */
int ag_export_write(FILE *out, struct ag_profile *profile, const struct ag_export_options *options,
                    char ret_message[512]);

#endif
