/* open_trace.h: opens a trace for a command that reads it.
 *
 * A command that reads a trace changes neither the trace nor other files of the recording. A
 * recording that was killed may have left events in its live file, the memory that it shared with
 * the program. These events are read, too: the command makes a temporary copy of the trace and adds
 * the events to the copy. Only `check` adds the events to the trace itself. */
#ifndef AG_OPEN_TRACE_H
#define AG_OPEN_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/profile.h"
#include "symbol/symbol.h"

enum { AG_DEBUG_DIRS_MOST = 64 };

/* The options of a command that reads a trace. */
struct ag_trace_request {
    const char *command; /* for messages */
    struct ag_profile_options profile;
    struct ag_symbol_options symbol; /* `profile` has a pointer to this member */
    const char *debug_dirs[AG_DEBUG_DIRS_MOST];
    bool is_quiet;     /* --quiet: no line of progress (cli/progress_line.h) */
    bool prints_early; /* results may be printed while the trace is still read */
};
/* Ids of the options that struct ag_trace_request stores. A command need not have all of these
 * options. */
enum ag_trace_option {
    AG_OPTION_QUIET = 'q',
    AG_OPTION_SYSROOT = 1024,
    AG_OPTION_DEBUG_DIR,
    AG_OPTION_DEBUGINFOD,
    AG_OPTION_FOCUS,
    AG_OPTION_IGNORE,
    AG_OPTION_THREAD,
    AG_OPTION_RUNTIME,
    AG_OPTION_FROM,
};
/* The row of --quiet in a command's table. */
#define AG_OPTION_OF_QUIET \
    { AG_OPTION_QUIET, "quiet", NULL, "no line of progress on a terminal" }
/* Sets all options to their defaults. REQUEST must not be copied or moved afterwards, because it
 * contains pointers to itself. */
void ag_trace_request_start(struct ag_trace_request *request, const char *command);
/* ag_trace_request_set, ag_trace_request_end_time, ag_trace_request_open and
 * ag_trace_request_open_merged print errors and return an exit status.
 *
 * ag_trace_request_set stores an option: one of enum ag_trace_option, or the option that the
 * decoder of a runtime adds (AG_OPTION_OF_DECODERS and larger ids). A decoder is the code that
 * reads names and types of one virtual machine (symbol/decoder.h). */
int ag_trace_request_set(struct ag_trace_request *request, int id, const char *value);
/* Parses VALUE, the value of OPTION: a time, which must be after the start of the recording. */
int ag_trace_request_end_time(const struct ag_trace_request *request, const char *option,
                              const char *value, uint64_t *ret_time_ns);
/* All profiles that are opened after this call use one common set of open symbol files. For
 * commands that keep the profiles of many traces open. Call it after all options were set, and
 * ag_trace_request_unshare_files after all profiles were closed. */
void ag_trace_request_share_files(struct ag_trace_request *request);
void ag_trace_request_unshare_files(struct ag_trace_request *request);
int ag_trace_request_open(const struct ag_trace_request *request, const char *path,
                          struct ag_profile **ret_profile);
/* Opens all traces as one profile (model/process_merge.h). Fails if any of them cannot be read, for
 * commands whose output could not show that a trace is missing. */
int ag_trace_request_open_merged(const struct ag_trace_request *request, char **paths, int n_paths,
                                 struct ag_profile **ret_profile);

/* Prints to standard error what is missing from the trace, one message per line of ag_missing_lines
 * (report/report.h): for commands whose output format cannot contain such messages. Call the
 * function after the output was written. */
void ag_say_what_is_missing(const char *command, const struct ag_profile *profile);

/* Returns what the user can do if PATH could not be opened as a trace, such as "; it is a folder:
 * name a trace in it"; "" if nothing is known. */
const char *ag_trace_hint(const char *path);

/* Prints a warning to standard error if nothing matches --focus, because an empty table without a
 * warning would look like a trace without blocks. VIEW: the view of `report`; NULL: the default
 * view. */
void ag_warn_if_nothing_matches(const char *command, const char *path, struct ag_profile *profile,
                                const struct ag_profile_options *options, const char *view);

/* Reads the file PATH, the value of the option ID. The file names the types that a runtime, such as
 * the OCaml runtime, records as numbers (types_option in symbol/decoder.h). `run` has these
 * options, too. Stores the names in PROFILE, where they are valid until the next call. ID: at least
 * AG_OPTION_OF_DECODERS. Returns AG_EXIT_OK; after an error, which it prints, FAILURE. */
int ag_types_file_read(const char *command, int id, const char *path, int failure,
                       struct ag_profile_options *profile);
const char *ag_types_option_name(int id);

#endif
