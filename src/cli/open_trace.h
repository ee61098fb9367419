/* open_trace.h: opens a trace for a command that reads it.
 *
 * A command that reads changes no file. What a killed recording left in its live file is read with
 * the trace nevertheless, from a copy that only this process has; `check` alone completes the trace
 * itself. */
#ifndef AG_OPEN_TRACE_H
#define AG_OPEN_TRACE_H

#include "model/profile.h"

/* Returns an exit status; COMMAND is for its messages. */
int ag_open_trace(const char *command, const char *path, const struct ag_profile_options *options,
                  struct ag_profile **ret_profile);

/* Says on standard error when --focus leaves nothing to print: an empty table alone would look like
 * a trace without blocks. VIEW: of `report`, NULL: the default one. */
void ag_warn_if_nothing_matches(const char *command, const char *path, struct ag_profile *profile,
                                const struct ag_profile_options *options, const char *view);

/* The options of runtimes that name a file of numbered types (types_option of symbol/decoder.h),
 * for `run` too. ID: of the option (AG_OPTION_OF_DECODERS). Reads the file into the profile's
 * options; its content stays until the program ends. Returns an exit status; errors have been
 * printed. */
int ag_types_file_read(const char *command, int id, const char *path, int failure,
                       struct ag_profile_options *profile);
const char *ag_types_option_name(int id);

#endif
