/* open_trace.c: opens a trace for the commands that read one, stores their common options, prints
 * what is missing from a trace and whether --focus matches nothing, and reads files of type names.
 * If a trace was not sealed (completed), a sealed copy of it is opened. */
#include "cli/open_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/runtimes.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "model/answers/collections.h"
#include "model/answers/functions.h"
#include "model/answers/program_mappings.h"
#include "model/process_merge.h"
#include "report/report.h"
#include "symbol/decoder.h"
#include "writer/writer.h"

/* Lets malloc keep freed memory, and take memory from the kernel in larger steps. The tables of a
 * report are computed one after the other in large arrays. By default, malloc gives such arrays
 * back to the kernel and takes new pages for the next one; page faults were a quarter of the time
 * of `view` in a virtual machine. */
static void keep_freed_memory(void) {
    enum { MIB = 1 << 20 };
    (void)mallopt(M_MMAP_THRESHOLD, 32 * MIB); /* the largest that glibc accepts */
    (void)mallopt(M_TRIM_THRESHOLD, 256 * MIB);
    (void)mallopt(M_TOP_PAD, 4 * MIB);
}

void ag_trace_request_start(struct ag_trace_request *request, const char *command) {
    keep_freed_memory();
    *request = (struct ag_trace_request){
        .command = command,
        .profile = {.size = sizeof request->profile, .thread = -1, .symbol = &request->symbol},
        .symbol = {.size = sizeof request->symbol,
                   .debug_dirs = request->debug_dirs,
                   .runtimes = ag_runtimes},
    };
}

static int refuse_time(const struct ag_trace_request *request, const char *option,
                       const char *value, const char *when) {
    return ag_fail(AG_EXIT_USAGE, "%s: --%s=%s: not a time%s; give " AG_TIME_FORMS,
                   request->command, option, value, when);
}

int ag_trace_request_end_time(const struct ag_trace_request *request, const char *option,
                              const char *value, uint64_t *ret_time_ns) {
    return ag_parse_time(value, ret_time_ns) && *ret_time_ns > 0
               ? AG_EXIT_OK
               : refuse_time(request, option, value, " after the start");
}

int ag_trace_request_set(struct ag_trace_request *request, int id, const char *value) {
    struct ag_profile_options *profile = &request->profile;
    struct ag_symbol_options *symbol = &request->symbol;
    uint64_t number;
    if (id >= AG_OPTION_OF_DECODERS) {
        return ag_types_file_read(request->command, id, value, AG_EXIT_FAILURE, profile);
    }
    switch ((enum ag_trace_option)id) {
    case AG_OPTION_QUIET:
        request->is_quiet = true;
        break;
    case AG_OPTION_SYSROOT:
        symbol->sysroot = value;
        break;
    case AG_OPTION_DEBUG_DIR:
        if (symbol->n_debug_dirs == AG_DEBUG_DIRS_MOST) {
            return ag_fail(AG_EXIT_USAGE, "%s: --debug-dir=%s: given more than %d times",
                           request->command, value, AG_DEBUG_DIRS_MOST);
        }
        request->debug_dirs[symbol->n_debug_dirs++] = value;
        break;
    case AG_OPTION_DEBUGINFOD:
        symbol->allow_debuginfod = true;
        break;
    case AG_OPTION_FOCUS:
        profile->focus = value;
        return ag_check_regex(request->command, "focus", value);
    case AG_OPTION_IGNORE:
        profile->ignore = value;
        return ag_check_regex(request->command, "ignore", value);
    case AG_OPTION_THREAD:
        if (!ag_parse_count(value, &number) || number > INT32_MAX) {
            return ag_fail(AG_EXIT_USAGE, "%s: --thread=%s: not the number of a thread",
                           request->command, value);
        }
        profile->thread = (int64_t)number;
        break;
    case AG_OPTION_RUNTIME:
        profile->runtime = value;
        break;
    case AG_OPTION_FROM:
        return ag_parse_time(value, &profile->from_ns) ? AG_EXIT_OK
                                                       : refuse_time(request, "from", value, "");
    }
    return AG_EXIT_OK;
}

const char *ag_trace_hint(const char *path) {
    static const struct {
        const char *start, *text;
    } kinds[] = {
        {"ALLOGRAM", ""},
        {"\177ELF", "; it is a program or library: allogram run -- PROGRAM records a program"},
        {"\x1f\x8b", "; it is compressed: gunzip it first"},
        {"\x28\xb5\x2f\xfd", "; it is compressed: unzstd it first"},
        {"\3757zXZ", "; it is compressed: unxz it first"},
    };
    char start[8] = {0};
    struct stat status;
    if (stat(path, &status) < 0) {
        return errno == ENOENT ? "; `ls *.allogram` lists the traces of the current folder" : "";
    }
    if (S_ISDIR(status.st_mode)) {
        return "; it is a folder: name a trace in it";
    }
    if (!S_ISREG(status.st_mode)) {
        return "; a trace is read from a file: copy it to one first";
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n_read = fd >= 0 ? pread(fd, start, sizeof start, 0) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (n_read <= 0) {
        return ""; /* the message already says that the file is empty or not readable */
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(kinds); i++) {
        if (memcmp(start, kinds[i].start, strlen(kinds[i].start)) == 0) {
            return kinds[i].text;
        }
    }
    /* the message already says that the file is not a trace */
    return "; traces are files that `allogram run`, `allogram attach` and `allogram observe -o` "
           "write, usually named NAME.allogram";
}

void ag_trace_request_share_files(struct ag_trace_request *request) {
    /* NULL if there is no memory: then each profile has files of its own */
    request->symbol.files = ag_symbol_files_new(&request->symbol);
}

void ag_trace_request_unshare_files(struct ag_trace_request *request) {
    request->symbol.files = ag_symbol_files_free(request->symbol.files);
}

int ag_trace_request_open(const struct ag_trace_request *request, const char *path,
                          struct ag_profile **ret_profile) {
    const char *command = request->command;
    char message[512] = "", copy_message[512] = "", copy_path[64];
    struct ag_profile_options with_copy = request->profile;
    with_copy.progress = ag_progress_line(command, request->is_quiet, request->prints_early);
    int copy = -1;
    const int completed = ag_writer_complete_copy(path, &copy, copy_message);
    if (completed > 0) {
        (void)snprintf(copy_path, sizeof(copy_path), "/proc/self/fd/%d", copy);
        with_copy.contents = copy_path;
    }
    const int r = ag_profile_open(path, &with_copy, ret_profile, message);
    if (copy >= 0) {
        (void)close(copy); /* the profile has a descriptor of its own */
    }
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "%s: %s%s", command, message, ag_trace_hint(path));
    }
    if (completed < 0 && copy_message[0] != '\0') {
        /* the missing events could not be added, but the rest of the trace was read */
        ag_say("%s: %s; continuing with the readable part", command, copy_message);
    }
    return AG_EXIT_OK;
}

int ag_trace_request_open_merged(const struct ag_trace_request *request, char **paths, int n_paths,
                                 struct ag_profile **ret_profile) {
    struct ag_profile **parts = calloc((size_t)n_paths, sizeof *parts);
    int status =
        parts ? AG_EXIT_OK : ag_fail(AG_EXIT_FAILURE, "%s: %s", request->command, strerror(ENOMEM));
    int n_parts = 0;
    while (status == AG_EXIT_OK && n_parts < n_paths) {
        status = ag_trace_request_open(request, paths[n_parts], &parts[n_parts]);
        n_parts += status == AG_EXIT_OK;
    }
    if (status == AG_EXIT_OK) { /* the merged profile owns the parts from here on */
        const int r = ag_profile_merge(parts, (size_t)n_parts, ret_profile);
        status = r < 0 ? ag_fail(AG_EXIT_FAILURE, "%s: --merge: %s", request->command, strerror(-r))
                       : status;
    } else {
        for (int i = 0; i < n_parts; i++) {
            (void)ag_profile_close(parts[i]); /* returns NULL */
        }
    }
    free(parts);
    return status;
}

struct missing_said {
    const char *command, *path;
};

static void say_missing(void *context, const char *line) {
    const struct missing_said *said = context;
    ag_say("%s: %s: %s", said->command, said->path, line);
}

void ag_say_what_is_missing(const char *command, const struct ag_profile *profile) {
    struct missing_said said = {.command = command, .path = ag_profile_identity(profile)->file};
    ag_missing_lines(profile, say_missing, &said);
}

/* If nothing in VIEW matches --focus, returns what --focus selects in this view ("stack", "call
 * path", "collection" or "mapping"); otherwise NULL. */
static const char *nothing_focused(struct ag_profile *profile, const char *view) {
    const struct ag_stack_row *rows;
    const struct ag_functions *functions;
    const struct ag_collections *collections;
    if (strcmp(view, "gc") == 0) {
        return ag_profile_collections(profile, &collections) == 0 && collections->n_rows == 0
                   ? "collection"
                   : NULL;
    }
    if (strcmp(view, "mappings") == 0) {
        struct ag_profile *mappings;
        char message[512];
        return ag_profile_mappings(profile, &mappings, message) == 0 &&
                       ag_profile_stacks(mappings, &rows) == 0
                   ? "mapping"
                   : NULL;
    }
    if (strcmp(view, "functions") == 0 || ag_profile_has_only_samples(profile)) {
        return ag_profile_functions(profile, &functions) == 0 && functions->n_rows == 0
                   ? "call path"
                   : NULL;
    }
    return ag_profile_stacks(profile, &rows) == 0 ? "stack" : NULL;
}

void ag_warn_if_nothing_matches(const char *command, const char *path, struct ag_profile *profile,
                                const struct ag_profile_options *options, const char *view) {
    const char *unmatched =
        options->focus != NULL ? nothing_focused(profile, view != NULL ? view : "summary") : NULL;
    const bool has_others = options->ignore != NULL || options->runtime != NULL ||
                            options->thread >= 0 || options->from_ns != 0 || options->to_ns != 0;
    if (unmatched != NULL) {
        ag_say("%s: %s: no %s matches --focus=%s%s", command, path, unmatched, options->focus,
               has_others ? " and the other filters" : "");
    }
}

static const struct ag_decoder *decoder_of_option(int id) {
    return ag_runtimes[id - AG_OPTION_OF_DECODERS].decoder;
}

const char *ag_types_option_name(int id) {
    return decoder_of_option(id)->types_option;
}

int ag_types_file_read(const char *command, int id, const char *path, int failure,
                       struct ag_profile_options *profile) {
    static const struct ag_decoder *decoder; /* decoder of the file that was read last */
    static struct ag_decoder_types *types;
    char message[512] = "";
    if (types) {
        decoder->free_types(types);
        types = NULL;
    }
    decoder = decoder_of_option(id);
    if (decoder->read_types(path, &types, message) < 0) {
        return ag_fail(failure, "%s: --%s=%s", command, decoder->types_option, message);
    }
    profile->types_decoder = decoder;
    profile->types = types;
    return AG_EXIT_OK;
}
