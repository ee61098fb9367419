/* export.h: writes a profile in the format of another tool, so that users can examine it there.
 *
 *     struct ag_export_options options = {.size = sizeof options, .format = "pprof"};
 *     r = ag_export_write(out, profile, &options, message);
 *
 * The sums in a format are exactly those of the profile's summary. What a format cannot express is
 * left out, never invented. The same trace gives the same bytes. Memory grows with the number of
 * stacks, not with the number of events. Each format has a file FORMAT_format.c; its head describes
 * the format and names the specification. */
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
    enum ag_metric metric; /* for formats that contain one metric, or show one first */
    /* Of function counters: the format then has their call paths in place of stacks of blocks. 0:
     * blocks; for a trace that has only CPU samples, these. */
    enum ag_call_metric call_metric;
    /* An export without blocks is no error; for csv and json it never is. */
    bool may_be_empty;
    const char *version; /* of allogram, for the creator fields; NULL: none */
};
/* Whether FORMAT is the name of a format: 0, or -EINVAL with a message that names a similar format,
 * or all. */
int ag_export_check(const char *format, char ret_message[512]);
bool ag_export_is_binary(const char *format); /* must not be written to a terminal */
/* Whether FORMAT can contain several merged processes. heaptrack (the history of all events) and
 * perf-map (addresses of one process) cannot. */
bool ag_export_takes_several(const char *format);
/* Returns 0 or a negative errno with a message. Write errors of OUT stay in the stream (ferror). */
int ag_export_write(FILE *out, struct ag_profile *profile, const struct ag_export_options *options,
                    char ret_message[512]);

#endif
