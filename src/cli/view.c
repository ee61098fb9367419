/* view.c: `allogram view`: writes one HTML page about a trace, about two traces to compare them, or
 * about the traces of all processes of a recording together, and opens it in the browser if there
 * is one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/own_stack.h"
#include "model/profile.h"
#include "page/html_page.h"

enum { OPTION_NO_OPEN = AG_OPTION_LONG_ONLY, OPTION_MERGE, PATH_BYTES = 4096 };
static const struct ag_option table[] = {
    {'o', "output", "OUT.html",
     "file of the page; an existing file is replaced, unless it is\n"
     "a trace; -: standard output (default: the trace's name with\n"
     ".html, or .tree.html if traces are merged, in this folder)"},
    {OPTION_MERGE, "merge", NULL,
     "one page about all traces together, also if there are only two;\n"
     "three or more traces are always merged"},
    {OPTION_NO_OPEN, "no-open", NULL, "do not open the page in a browser"},
    AG_OPTION_OF_QUIET,
    {AG_OPTION_SYSROOT, "sysroot", "DIR", "look for images and debug files below DIR"},
    {AG_OPTION_DEBUG_DIR, "debug-dir", "DIR", "another folder with debug files; may be repeated"},
    AG_OPTIONS_OF_DECODERS,
    {AG_OPTION_DEBUGINFOD, "debuginfod", NULL,
     "fetch debug files from the servers of $DEBUGINFOD_URLS"},
};

struct view_request { /* what the command line requests */
    struct ag_trace_request trace;
    const char *output;
    bool opens, is_merged;
};

static int set_option(void *context, int id, const char *value) {
    struct view_request *request = context;
    switch (id) {
    case 'o':
        request->output = value;
        return AG_EXIT_OK;
    case OPTION_NO_OPEN:
        request->opens = false;
        return AG_EXIT_OK;
    case OPTION_MERGE:
        request->is_merged = true;
        return AG_EXIT_OK;
    }
    return ag_trace_request_set(&request->trace, id, value);
}

/* Makes "allogram.jq.4711.html" from "/tmp/allogram.jq.4711.allogram"; if traces are merged,
 * "allogram.jq.4711.tree.html", so that the page of a single trace is not replaced. */
static void name_output(char *to, size_t capacity, const char *trace, bool is_merged) {
    const char *slash = strrchr(trace, '/');
    const char *name = slash ? slash + 1 : trace;
    static const char ending[] = ".allogram";
    size_t length = strlen(name);
    if (length > sizeof(ending) && strcmp(name + length - (sizeof(ending) - 1), ending) == 0) {
        length -= sizeof(ending) - 1;
    }
    snprintf(to, capacity, "%.*s%s.html", (int)length, name, is_merged ? ".tree" : "");
}

static int write_page(FILE *out, const char *name, struct ag_profile *profile,
                      struct ag_profile *before) {
    const int r = ag_html_page_write(out, profile, before);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "view: %s: %s", name, strerror(-r));
    }
    if (fflush(out) == 0 && !ferror(out)) {
        return AG_EXIT_OK;
    }
    return out == stdout ? AG_EXIT_FAILURE /* ag_stdout_finish prints the message */
                         : ag_fail(AG_EXIT_FAILURE, "view: %s: %s", name, strerror(errno));
}

/* Writes the page into the file and prints the file's name, unless the page was written to
 * /dev/stdout or another file that is written in place. */
static int write_file(const char *path, struct ag_profile *profile, struct ag_profile *before) {
    struct ag_output_file file;
    int status = ag_output_file_open(&file, "view", NULL, path, AG_OUTPUT_REPLACES);
    if (status == AG_EXIT_OK) {
        status = ag_output_file_close(&file, write_page(file.out, path, profile, before));
    }
    if (status == AG_EXIT_OK && !file.is_kept) {
        printf("%s\n", path);
        fflush(stdout);
    }
    return status;
}

/* Opens the page in the browser, if standard output is a terminal and the user has a display. So
 * the page is not opened when a script runs the command. */
static void show_in_browser(const char *path) {
    if (!isatty(STDOUT_FILENO) || !(getenv("DISPLAY") || getenv("WAYLAND_DISPLAY"))) {
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        ag_background_replace_by_null(STDIN_FILENO, STDERR_FILENO);
        ag_own_stack_restore();
        execlp("xdg-open", "xdg-open", path, (char *)NULL);
        _exit(127);
    }
    if (child > 0) {
        int status;
        waitpid(child, &status, 0);
    }
}

static int view_traces(const struct view_request *request, char **paths, int n_paths) {
    char output[PATH_BYTES];
    if (request->output) {
        snprintf(output, sizeof output, "%s", request->output);
    } else {
        name_output(output, sizeof output, paths[0], request->is_merged);
    }
    struct ag_profile *profile = NULL, *before = NULL;
    int status = request->is_merged
                     ? ag_trace_request_open_merged(&request->trace, paths, n_paths, &profile)
                     : ag_trace_request_open(&request->trace, paths[0], &profile);
    if (status == AG_EXIT_OK && n_paths == 2 && !request->is_merged) {
        status = ag_trace_request_open(&request->trace, paths[1], &before);
    }
    if (status == AG_EXIT_OK && strcmp(output, "-") == 0) {
        status = write_page(stdout, "standard output", profile, before);
    } else if (status == AG_EXIT_OK) {
        status = write_file(output, profile, before);
        if (status == AG_EXIT_OK && request->opens) {
            show_in_browser(output);
        }
    }
    if (status == AG_EXIT_OK) {
        ag_say_what_is_missing("view", profile);
    }
    if (status == AG_EXIT_OK && before) {
        ag_say_what_is_missing("view", before);
    }
    ag_profile_close(profile);
    ag_profile_close(before);
    return status;
}

int ag_command_view(int argc, char **argv) {
    struct view_request request = {.opens = true};
    ag_trace_request_start(&request.trace, "view");
    struct ag_options options = {
        .usage = "view TRACE [BEFORE | TRACE...] [OPTIONS]",
        .about = "Writes a trace as one self-contained HTML page; with BEFORE, also what grew and\n"
                 "what shrank since then. --merge, or more than two traces: one page about all\n"
                 "processes of a recording.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
    };
    if (!ag_options_read(&options, argc, argv, set_option, &request)) {
        return options.status;
    }
    if (options.n_operands < 1) {
        return ag_options_refuse_operands(&options, "trace", "traces",
                                          "view allogram.ls.4711.allogram");
    }
    const int n = options.n_operands;
    request.is_merged = n > 2 || (request.is_merged && n > 1);
    if (ag_html_page_missing()) {
        return ag_fail(AG_EXIT_FAILURE, "view: %s", ag_html_page_missing());
    }
    request.trace.prints_early = request.output != NULL && strcmp(request.output, "-") == 0;
    if (request.is_merged) {
        ag_trace_request_share_files(&request.trace);
    }
    const int status = view_traces(&request, options.operands, n);
    ag_trace_request_unshare_files(&request.trace);
    return status;
}
