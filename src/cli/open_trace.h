/* open_trace.h: opens a trace for a command that reads it.
 *
 * A command that reads changes no file. If a killed recording left events in its live file, the
 * memory that it shared with the program, they are read too: from a completed copy of the trace
 * that only this process has. `check` alone completes the trace itself. */
#ifndef AG_OPEN_TRACE_H
#define AG_OPEN_TRACE_H

#include <stdint.h>

#include "model/profile.h"
#include "symbol/symbol.h"

enum { AG_DEBUG_DIRS_MOST = 64 };

/* What the options of such a command ask for. */
struct ag_trace_request {
    const char *command; /* for messages */
    struct ag_profile_options profile;
    struct ag_symbol_options symbol; /* used by profile */
    const char *debug_dirs[AG_DEBUG_DIRS_MOST];
};
/* The ids of these options in the table of a command, which need not have all of them. */
enum ag_trace_option {
    AG_OPTION_SYSROOT = 1024,
    AG_OPTION_DEBUG_DIR,
    AG_OPTION_DEBUGINFOD,
    AG_OPTION_FOCUS,
    AG_OPTION_IGNORE,
    AG_OPTION_THREAD,
    AG_OPTION_RUNTIME,
    AG_OPTION_FROM,
};
/* Fills the request while no option is given. It must not be copied or moved afterwards. */
void ag_trace_request_start(struct ag_trace_request *request, const char *command);
/* These functions print errors and return an exit status.
 *
 * Stores an option: one of the above, or one of the runtimes' decoders. */
int ag_trace_request_set(struct ag_trace_request *request, int id, const char *value);
/* Parses the time of another OPTION, which must be after the start of the trace. */
int ag_trace_request_end_time(const struct ag_trace_request *request, const char *option,
                              const char *value, uint64_t *ret_time_ns);
int ag_trace_request_open(const struct ag_trace_request *request, const char *path,
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
