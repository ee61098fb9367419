/* export.h: a profile in the format of another tool, so that its numbers can be looked at there.
 *
 *     struct ag_export_options options = {.size = sizeof options, .format = "pprof"};
 *     r = ag_export_write(out, profile, &options, message);
 *
 * Every format carries the same sums to the byte as the profile's summary; what a format cannot
 * express is left out, never made up. The same trace gives the same bytes. Memory grows with the
 * number of stacks, not with the number of events. One file per format: FORMAT_format.c; each opens
 * with what the format is and where that is written down. */
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
    enum ag_metric metric; /* of formats that carry one number, or show one first */
    const char *version;   /* of allogram, for the creator fields; NULL: none */
};
/* Whether FORMAT can be written: 0; -EINVAL: no such format, and the message lists the formats. */
int ag_export_check(const char *format, char ret_message[512]);
bool ag_export_is_binary(const char *format); /* not to be written to a terminal */
/* Whether it can contain several merged processes. Formats with the history of events, or with
 * addresses, cannot. */
bool ag_export_takes_several(const char *format);
/* Returns 0 or a negative errno with a message. Write errors of OUT stay in the stream (ferror). */
int ag_export_write(FILE *out, struct ag_profile *profile, const struct ag_export_options *options,
                    char ret_message[512]);

#endif
