/* open_trace.h: opens a trace for a command that reads it.
 *
 * A command that reads changes no file. If a killed recording left events in its live file, the
 * memory that it shared with the program, they are read too: from a completed copy of the trace
 * that only this process has. `check` alone completes the trace itself. */
#ifndef AG_OPEN_TRACE_H
#define AG_OPEN_TRACE_H

#include "model/profile.h"

/* Returns an exit status. COMMAND is the name for error messages. */
int ag_open_trace(const char *command, const char *path, const struct ag_profile_options *options,
                  struct ag_profile **ret_profile);

/* Prints a warning to standard error if --focus leaves nothing to print: an empty table alone would
 * look like a trace without blocks. VIEW: the view of `report`; NULL: the default one. */
void ag_warn_if_nothing_matches(const char *command, const char *path, struct ag_profile *profile,
                                const struct ag_profile_options *options, const char *view);

/* For the options that name a file with the names of a runtime's type numbers (types_option of
 * symbol/decoder.h); also used by `run`. Reads the file at PATH into the profile's options, which
 * refer to its content until the next call. ID: the option's, from AG_OPTION_OF_DECODERS on. Prints
 * errors. Returns an exit status, FAILURE after an error. */
int ag_types_file_read(const char *command, int id, const char *path, int failure,
                       struct ag_profile_options *profile);
const char *ag_types_option_name(int id);

#endif
